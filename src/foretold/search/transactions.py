"""What a database did in a failing run: the two transactions that got into each other's way.

A run has hundreds of statements. What a reader looks for is nearly always a pair of transactions
that overlap, one of which reads what the other one writes; so the statements of that pair are shown
in their order, with the request and the line of code that each comes from, and a sentence says what
is odd about it and where to look. Without such a pair: the last statements.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from foretold.search.halves import Hasty, answered_too_soon, middle_commit
from foretold.search.sqltext import tables_of
from foretold.search.stale import Broken, critical_pair
from foretold.search.statements import (
    Statement,
    Transaction,
    Who,
    asked_text,
    by_request,
    clients_of,
    statements_of,
    transactions_of,
)
from foretold.search.words import aligned, count, instant, short, wrapped
from foretold.trace import BROKE, Event
from foretold.world.world import DEFAULT_HOST

STATEMENTS_MAX = 24
LAST_MAX = 14
_COUNTS = re.compile(r"\bcount\s*\(", re.IGNORECASE)
_LOCKS = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?UPDATE\b", re.IGNORECASE)


class Told:
    """What is to be said about the database of a run."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._clients = clients_of(events)
        self._statements = statements_of(events)
        found = [each for each in transactions_of(self._statements) if each.does_something]
        self._broken = broken = _broken(events, self._statements)
        requests = by_request(found)
        self._middle = middle_commit(broken, requests) if broken is not None else None
        self._hasty = hasty = answered_too_soon(events, requests, self._clients)
        stale = None if self._middle is not None else critical_pair(requests, broken)
        if broken is None and hasty is not None and hasty.reader is not None:
            stale, kept = None, _with_reader(hasty, requests)
        elif stale is not None:
            kept = [stale.reader, stale.writer]
        else:
            guilty = [each for each in requests if broken is not None and broken.is_by(each)]
            kept = guilty or found
        self._stale = stale
        ours = {id(each) for transaction in kept for each in transaction.statements}
        shown = [each for each in self._statements if id(each) in ours]
        self._all = len(shown)
        self._shown = stale.of_these(shown) if stale is not None else shown[-LAST_MAX:]
        self._names = _Names(self._shown, self._clients)

    def tasks(self) -> set[Who]:
        """Those whose statements are shown."""
        return {each.asked_by for each in self._shown if each.asked_by is not None}

    @property
    def says_where_to_look(self) -> bool:
        """Whether it ends with a sentence about that."""
        return self._stale is not None or any(each.asked_by for each in self._shown)

    def lines(self, start_ns: int, called: Callable[[str], str] = str) -> list[str]:
        """For the story; none if there is no database in the run."""
        stale, shown, names = self._stale, self._shown, self._names
        if not shown:
            return []
        said = self._alone(start_ns) if stale is None else stale.sentences(names.of)
        return [
            self._title if stale is None else stale.title,
            *names.lines(),
            *_lines(shown, names, start_ns, called),
            *self._left_out(),
            *(line for each in said for line in wrapped(called(each), "  ")),
        ]

    @property
    def _title(self) -> str:
        if self._broken is None and self._hasty is not None and self._hasty.reader is not None:
            return "In the database, a request that was answered too soon, and who looked then:"
        if self._broken is None:
            return "The last statements of the database:"
        return "In the database, the request whose commit has broken the invariant:"

    def _left_out(self) -> Iterator[str]:
        others = self._all - len(self._shown)
        if self._stale is not None and others:
            yield f"  (and {count(others, 'statement')} of theirs about something else)"

    def _alone(self, start_ns: int) -> Iterator[str]:
        """Where to look if there is no pair."""
        if self._middle is not None:
            yield from self._middle.sentences(self._names.of)
            return
        if self._broken is not None:
            yield from self._last_transaction(self._broken)
            return
        behind = {each.asked_by for each in self._shown} - {None}
        if self._hasty is not None:
            yield from self._hasty.sentences(start_ns, self._clients)
        elif len(behind) == 1:
            yield "All of this is one request: look at what it does by itself, up to its end."
            yield from self._locked_in_vain()
        elif len(behind) > 1:
            yield (
                "No two of these got into each other's way: look at what each one did by itself"
                f"{self._last_asked()}."
            )

    def _locked_in_vain(self) -> Iterator[str]:
        """What is locked is mostly meant to be changed; an ORM may not have seen the change."""
        its = [each for each in self._statements if each.asked_by == self._shown[-1].asked_by]
        written = {table for each in its for table in each.written}
        for each in its:
            if _LOCKS.search(each.sql) and each.tables and written.isdisjoint(each.tables):
                yield (
                    f"It has locked {min(each.tables)}{each.where}, and has changed nothing there "
                    "before its commit. Was something meant to be written?"
                )
                return

    def _last_asked(self) -> str:
        """Who has asked last, and where: what it was told may be what is wrong."""
        asked = [each for each in self._shown if not each.is_mark and each.place is not None]
        if not asked:
            return ""
        return f", first {self._names.of(asked[-1])}, who has asked last{asked[-1].where}"

    def _last_transaction(self, broken: Broken) -> Iterator[str]:
        """It alone has broken the invariant, which held before it."""
        last = broken.commit.transaction
        wrote = [each for each in self._shown if each.transaction == last and each.written]
        wrote = [each for each in wrote if each.written & set(broken.tables)] or wrote
        lines = list(dict.fromkeys(each.at for each in wrote if each.place is not None))
        where = f" ({'; '.join(lines)})" if lines else ""
        yield (
            "Before this transaction the invariant held, and nobody got in its way: look at what "
            f"it has written{where}, what it has not, and what it leaves to a later one."
        )


def _broken(events: Sequence[Event], statements: Sequence[Statement]) -> Broken | None:
    """Whose commit has broken an invariant; it gets a remark."""
    event = next((event for event in reversed(events) if event.kind == BROKE), None)
    if event is None:
        return None
    names = (event.actor, f"{event.host} {event.actor}")
    its = [each for each in statements if each.session in names]
    if not its:
        return None
    its[-1].remark = "  (after this the invariant fails)"
    return Broken(its[-1], tables_of(event.text), _COUNTS.search(event.text) is not None)


def _with_reader(hasty: Hasty, requests: Sequence[Transaction]) -> list[Transaction]:
    readers = [r for r in requests if any(each is hasty.reader for each in r.statements)]
    return [hasty.request, *readers]


class _Names:
    """How a story calls who stands behind the statements: by the client, if it has sent one of
    these requests; `request 1`, if it has sent several; a task of the test by its own name. By the
    session, if no more is known."""

    def __init__(self, shown: Sequence[Statement], clients: dict[Who, str]) -> None:
        self._shown, self._clients = shown, clients
        askers = dict.fromkeys(each.asked_by for each in shown if each.asked_by is not None)
        known = [who for who in askers if who in clients]
        times = Counter(clients[who] for who in known)
        several = [who for who in known if times[clients[who]] > 1]
        self._found = {
            who: f"request {several.index(who) + 1}" if who in several else clients[who]
            for who in known
        }
        self._found |= {who: who[1] for who in askers if who[0] == DEFAULT_HOST}

    def of(self, statement: Statement) -> str:
        """Who sent it."""
        who = statement.asked_by
        return self._found.get(who, statement.session) if who is not None else statement.session

    def lines(self) -> list[str]:
        """Who is who, and in which session; nothing if it is not known."""
        found: dict[str, list[Statement]] = {}
        for each in self._shown:
            if each.asked_by is not None:
                found.setdefault(self.of(each), []).append(each)
        return [self._line(name, its) for name, its in found.items()]

    def _line(self, name: str, its: Sequence[Statement]) -> str:
        sessions = ", then ".join(dict.fromkeys(each.session for each in its))
        askers = dict.fromkeys(each.asked_by for each in its if each.asked_by is not None)
        texts = [asked_text(who, self._clients).removesuffix(f" of {name}") for who in askers]
        if name == sessions or name in texts:
            return f"  {sessions} is {', then '.join(dict.fromkeys(texts))}"
        return f"  {name}: {', '.join(dict.fromkeys(texts))}, in {sessions}"


# Lines


def _lines(
    shown: Sequence[Statement], names: _Names, start_ns: int, called: Callable[[str], str]
) -> Iterator[str]:
    """One after the other; what is said again and again is one line, and of many the middle is left
    out."""
    rows = [
        (instant(first.time_ns - start_ns), names.of(first), short(first.place), text)
        for first, text in _joined(shown, called)
    ]
    lines = aligned([tuple(map(called, row)) for row in rows])
    left_out = len(lines) - STATEMENTS_MAX
    if left_out > 0:
        lines[STATEMENTS_MAX // 2 : STATEMENTS_MAX // 2 + left_out] = [f"  … {left_out} more"]
    yield from lines


def _joined(
    shown: Sequence[Statement], called: Callable[[str], str]
) -> Iterator[tuple[Statement, str]]:
    for (_, text), alike in groupby(shown, key=lambda each: (each.session, each.text(called))):
        first, *others = alike
        yield first, f"{text}  ({len(others) + 1} times)" if others else text
