"""Statements and transactions of a run, from the events of its trace.

Each statement knows the request that asked for it and the line of code that waits for it; each
transaction whether it was committed. Several transactions of one request are looked at as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from foretold.search.sqltext import (
    columns_set,
    outcome_text,
    rows_meant,
    shortened,
    tables_of,
    value_text,
    with_values,
    written_by,
)
from foretold.search.words import short
from foretold.trace import ASKED_BY, Event, Place
from foretold.world.world import DEFAULT_HOST

_DRIVERS = re.compile(
    r".*\bpg_catalog\b|.*\bpg_type\b|.*current_schema|\s*(?:show|set|discard|deallocate)\b",
    re.IGNORECASE,
)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = re.compile(r"-(?:[2-9]|[1-9]\d{1,4})$")
"""Tasks of one name are numbered from the second on. Ids end in digits, too, but in more."""
_KINDS = ("executes", "waits for a lock")
BEGINS, ENDS = ("BEGIN", "START"), ("COMMIT", "ROLLBACK", "END")
_NOTHING = "SELECT 0"
"""What the server says of a question to which it found no row."""

Who = tuple[str, str]
"""Host and actor."""


@dataclass
class Statement:
    """One statement, as the trace tells it."""

    time_ns: int
    session: str
    sql: str
    outcome: str
    waits: bool = False
    asked_by: Who | None = None
    place: Place | None = None
    """The line of code that waits for it."""
    callers: tuple[Place, ...] = ()
    """The lines from which that was reached, the nearest first."""
    caller: Place | None = None
    """That of another file which says most about it."""
    after: Place | None = None
    """If it is sent by the commit: the last line of the request that asked for something else."""
    transaction: int = 0
    ends_ns: int = 0
    """When its transaction was over."""
    remark: str = ""
    number: int = 0
    """Of its event."""
    values: tuple[str, ...] = ()
    """What was given for `$1`, `$2`, …"""

    def __post_init__(self) -> None:
        self.tables, self.written = tables_of(self.sql), written_by(self.sql)
        self.word = self.sql.split(" ", 1)[0].rstrip(";").upper()

    def text(self, called: Callable[[str], str] = str) -> str:
        """With its values, as they are called, and with what came of it."""
        how = "waits for a lock" if self.waits else outcome_text(self.outcome)
        values = [value_text(called(value)) for value in self.values]
        said = with_values(shortened(self.sql), values)
        return said + ("" if how in ("", self.word) else f" → {how}") + self.remark

    @property
    def ids(self) -> set[str]:
        """Those of the values that are of one thing alone."""
        return {value for value in self.values if _ID.fullmatch(value)}

    def misses(self, write: Statement) -> bool:
        """Whether it cannot have read what that one wrote: it asked for other rows."""
        here, there = rows_meant(self.sql, self.values), rows_meant(write.sql, write.values)
        changed = columns_set(write.sql)
        return any(
            here[key].isdisjoint(there[key])
            for key in here.keys() & there.keys()
            if key[1] not in changed
        )

    @property
    def at(self) -> str:
        """`app/rules/limits.py:30, from app/routers/dwellers.py:71`, if it is known."""
        if self.place is None:
            return ""
        if self.after is not None:
            return f"by its commit, {short(self.place)}; before that it was at {short(self.after)}"
        caller = f", from {short(self.caller)}" if self.caller is not None else ""
        return f"{short(self.place)}{caller}"

    @property
    def where(self) -> str:
        """The same in brackets."""
        return f" ({self.at})" if self.place is not None else ""

    @property
    def is_mark(self) -> bool:
        """The beginning or the end of a transaction."""
        return self.word in (*BEGINS, *ENDS)

    @property
    def found_nothing(self) -> bool:
        """A question without an answer."""
        return self.outcome == _NOTHING


@dataclass
class Transaction:
    """The statements of one transaction, from the first to the one that ended it; or those of all
    transactions of one request, because what it read in the first it may act on in the second."""

    session: str
    statements: list[Statement] = field(default_factory=list)
    committed: bool = False

    @property
    def first_ns(self) -> int:
        return self.statements[0].time_ns

    @property
    def last_ns(self) -> int:
        return self.statements[-1].time_ns

    @property
    def does_something(self) -> bool:
        """False for one that was begun and ended, and nothing in between."""
        return any(not each.is_mark for each in self.statements)

    @property
    def is_several(self) -> bool:
        return len({each.transaction for each in self.statements}) > 1

    @property
    def written(self) -> set[str]:
        """The tables that it changes."""
        return {table for each in self.statements for table in each.written}

    def overlaps(self, other: Transaction) -> bool:
        return self.first_ns < other.last_ns and other.first_ns < self.last_ns


# From events


def clients_of(events: Iterable[Event]) -> dict[Who, str]:
    """For the tasks of servers, whose requests they are."""
    found = ((e.host, e.actor, e.text) for e in events if e.kind == ASKED_BY)
    return {(h, actor): text for h, actor, text in found if not actor.startswith("session ")}


def asked_text(who: Who, clients: dict[Who, str]) -> str:
    """`POST /orders of actor2`."""
    host, actor = who
    client = clients.get(who)
    if client is None:
        return actor if host == DEFAULT_HOST else f"{host}/{actor}"
    return f"{_NUMBER.sub('', actor)} of {client}"


def statements_of(events: Sequence[Event]) -> list[Statement]:
    """All of the program's own, with the lines that say where they come from."""
    return _with_callers(_without_host(list(_statements(events))))


def _statements(events: Sequence[Event]) -> Iterator[Statement]:
    asked: dict[Who, Who] = {}
    waiting: dict[Who, list[Statement]] = {}
    for number, event in enumerate(events):
        who = (event.host, event.actor)
        if event.kind == ASKED_BY and event.actor.startswith("session "):
            host, _, actor = event.text.partition("/")
            asked[who] = (host, actor)
        elif event.kind == "resumes" and who in waiting:
            for asked_for in waiting.pop(who):
                asked_for.place, asked_for.callers = event.place, event.callers
        elif (statement := _statement(event, asked.get(who))) is not None:
            if statement.asked_by is not None and statement.word not in BEGINS:
                # Where it was sent; the line that waits for it says the same, and is the same for
                # all that are sent together. Who never goes on has the former alone.
                statement.place, statement.callers = event.place, event.callers
                waiting.setdefault(statement.asked_by, []).append(statement)
            statement.number = number
            yield statement


def _statement(event: Event, asked_by: Who | None) -> Statement | None:
    if event.kind not in _KINDS or not event.actor.startswith("session "):
        return None
    waits = event.kind != "executes"
    if waits:
        sql, outcome = event.text.partition(": ")[2], ""
    else:
        sql, _, outcome = event.text.rpartition(" → ")
    if _DRIVERS.match(sql):
        return None  # what drivers ask for themselves
    session = f"{event.host} {event.actor}"
    found = Statement(event.time_ns, session, sql.rstrip("; "), outcome, waits, asked_by)
    found.values = event.values
    return found


def _without_host(statements: list[Statement]) -> list[Statement]:
    """`session 1`, where there is one database only."""
    if len({each.session.partition(" ")[0] for each in statements}) == 1:
        for each in statements:
            each.session = each.session.partition(" ")[2]
    return statements


def _with_callers(statements: list[Statement]) -> list[Statement]:
    """A helper in a file of its own says little: who called it says more. But a caller of several
    lines (who opens the transaction) says nothing about any of them, nor does one through which all
    that a request does is called (a middleware)."""
    calls: dict[Place | None, set[Place | None]] = {}
    around = _around_all(statements)
    for each in statements:
        here = each.place.file if each.place is not None else ""
        each.caller = next((caller for caller in each.callers if caller.file != here), None)
        calls.setdefault(each.caller, set()).add(each.place)
    for each in statements:
        if len(calls[each.caller]) > 1 or each.caller in around:
            each.caller = None
    return statements


def _around_all(statements: Sequence[Statement]) -> set[Place]:
    """Lines from which more than one line of a request is reached, and all of them."""
    found: dict[Who, list[Statement]] = {}
    for each in statements:
        if each.asked_by is not None and each.place is not None:
            found.setdefault(each.asked_by, []).append(each)
    several = [its for its in found.values() if len({each.place for each in its}) > 1]
    return {place for its in several for place in set.intersection(*(set(e.callers) for e in its))}


def transactions_of(statements: Sequence[Statement]) -> list[Transaction]:
    """In the order in which they began."""
    found: list[Transaction] = []
    current: dict[str, Transaction] = {}
    for statement in statements:
        transaction = current.get(statement.session)
        if transaction is None:
            transaction = current[statement.session] = Transaction(statement.session)
            found.append(transaction)
        transaction.statements.append(statement)
        alone = len(transaction.statements) == 1 and statement.word not in BEGINS
        if statement.word in ENDS or (alone and not statement.waits):
            transaction.committed = (
                statement.word != "ROLLBACK" and "error" not in statement.outcome
            )
            del current[statement.session]
    ends = Counter((s.asked_by, s.place) for t in found if (s := t.statements[-1]).word in ENDS)
    shared = Counter(place for _, place in ends)
    for number, transaction in enumerate(found):
        if shared[transaction.statements[-1].place] > 1:
            _mark_flushed(transaction.statements)
        for statement in transaction.statements:
            statement.transaction, statement.ends_ns = number, transaction.last_ns
    return found


def _mark_flushed(statements: Sequence[Statement]) -> None:
    """What a session of an ORM has kept is sent by the line that commits. If that is one for all
    requests, what this one did last says more."""
    last = statements[-1]
    if last.word not in ENDS or last.place is None:
        return
    before: Place | None = None
    for each in statements:
        if each.written and each.place == last.place:
            each.after = before
        elif each.place is not None and each.place != last.place:
            before = each.caller or each.place  # a handler's line rather than a helper's


def by_request(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Those of one request as one; where it is not known whose they are, each by itself."""
    found: dict[Who | int, Transaction] = {}
    for number, each in enumerate(transactions):
        asked_by = each.statements[-1].asked_by
        whole = found.setdefault(asked_by or number, Transaction(each.session))
        whole.statements += each.statements
        whole.committed |= each.committed
    return list(found.values())
