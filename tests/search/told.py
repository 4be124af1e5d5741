"""Statements of a run as events, made by hand, and what a story says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from foretold.story.database.transactions import Told
from foretold.trace import Place
from foretold.trace.events import Broke, Event, Executed, LockWait, Resumed, Visited, Who

READ = "SELECT stock FROM item WHERE id = 1"
WRITE = "UPDATE item SET stock = $1 WHERE id = 1"


def events(*told: tuple[str, str]) -> list[Executed]:
    """Statements, one millisecond apart: (session, SQL)."""
    return [
        Executed(n * 1_000_000, "db", f"session {who}", n, sql=sql, tags=("done",))
        for n, (who, sql) in enumerate(told)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy(Event):
    """For these tests: the session works for a task from now on."""

    task: str


def settled(told: Sequence[Event]) -> list[Event]:
    """Statements know for whom they are: what `asked_by` has said before them."""
    asked: dict[str, Who] = {}
    found: list[Event] = []
    for event in told:
        if isinstance(event, AskedBy):
            asked[event.actor] = ("web", event.task)
            continue
        if isinstance(event, Executed | LockWait) and event.actor in asked:
            who = asked[event.actor]
            event = replace(event, asked_by=who, sent_by=who)
        found.append(event)
    return found


def told_of(told: Sequence[Event]) -> list[str]:
    """What a story says of these events."""
    return Told(settled(told)).lines(0)


def asked_by(session: str, task: str) -> Event:
    """The session works for this task from now on."""
    return AskedBy(0, "db", f"session {session}", task=task)


def resumes(task: str, line: int) -> Event:
    """The task goes on at this line; who reads or writes first is called from a line of its own,
    and all else from where the transaction was opened."""
    caller = (
        Place("app/routers.py", line, "handler") if line in (3, 4) else Place("app/db.py", 1, "")
    )
    return Resumed(0, "web", task, 1, Place("app/rows.py", line, "get"), (caller,))


def told_in_order(*parts: Event | Sequence[Event]) -> list[Event]:
    """One millisecond apart, in this order."""
    flat = [event for part in parts for event in ([part] if isinstance(part, Event) else part)]
    return [replace(event, time_ns=n * 1_000_000) for n, event in enumerate(flat)]


def by_client(task: str, client: str, asks: str = "") -> Event:
    """The task of the server works for this client."""
    return Visited(0, "web", task, 1, client=client, asks=asks or task)


def given(who: str, sql: str, *values: str, outcome: str = "done") -> list[Executed]:
    """A statement with the values for `$1`, `$2`, …"""
    return [Executed(0, "db", f"session {who}", sql=sql, tags=(outcome,), values=values)]


def broke(who: str, query: str) -> Event:
    """After this session's commit an invariant does not hold."""
    return Broke(0, "db", f"session {who}", sql=query)


def said(lines: list[str]) -> str:
    """On one line."""
    return " ".join(line.strip() for line in lines)
