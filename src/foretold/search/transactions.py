"""What a database did in a failing run: the two transactions that got into each other's way.

A run has hundreds of statements. What a reader looks for is nearly always a pair of transactions
that overlap, one of which reads what the other one writes; so the statements of that pair are shown
in their order, with the request and the line of code that each comes from, and a sentence says what
is odd about it and where to look. Without such a pair: the last statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby

from foretold.search.sqltext import LOCKS, outcome_text, shortened, tables_of, written_by
from foretold.search.words import aligned, count, short
from foretold.trace import ASKED_BY, Event, Place
from foretold.world.world import DEFAULT_HOST

STATEMENTS_MAX = 24
LAST_MAX = 14
FEW = 12
"""Of more statements than that, those of a pair that have nothing to do with it are left out."""
RECENT = 16
_DRIVERS = re.compile(
    r".*\bpg_catalog\b|.*\bpg_type\b|.*current_schema|\s*(?:show|set|discard|deallocate)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"-\d+$")
"""Tasks of one name are numbered from the second on."""
_KINDS = ("executes", "waits for a lock")
_BEGINS, _ENDS = ("BEGIN", "START"), ("COMMIT", "ROLLBACK", "END")

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
    caller: Place | None = None
    """The line of another file from which that was reached."""
    transaction: int = 0
    ends_ns: int = 0
    """When its transaction was over."""

    def __post_init__(self) -> None:
        self.tables, self.written = tables_of(self.sql), written_by(self.sql)
        self.word = self.sql.split(" ", 1)[0].rstrip(";").upper()

    @property
    def text(self) -> str:
        """With what came of it."""
        how = "waits for a lock" if self.waits else outcome_text(self.outcome)
        return shortened(self.sql) + ("" if how == self.word else f" → {how}")

    @property
    def where(self) -> str:
        """` (app/rules/limits.py:30, from app/routers/dwellers.py:71)`, if it is known."""
        if self.place is None:
            return ""
        caller = f", from {short(self.caller)}" if self.caller is not None else ""
        return f" ({short(self.place)}{caller})"


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
        return any(each.word not in (*_BEGINS, *_ENDS) for each in self.statements)

    @property
    def is_several(self) -> bool:
        return len({each.transaction for each in self.statements}) > 1

    @property
    def writes(self) -> bool:
        return any(each.written for each in self.statements)

    def overlaps(self, other: Transaction) -> bool:
        return self.first_ns < other.last_ns and other.first_ns < self.last_ns


@dataclass
class Stale:
    """One read what another one changed and committed meanwhile, and then wrote by what it knew."""

    reader: Transaction
    writer: Transaction
    read: Statement
    write: Statement
    """That of the writer."""
    later: Statement
    """That of the reader."""

    @property
    def rank(self) -> tuple[bool, bool, int, int, int]:
        """The smaller the better: it wrote after the other's commit, the same table; of several
        pairs the last, and of its statements the first."""
        table = self.read.tables & self.write.written
        return (
            self.later.time_ns < self.write.ends_ns,
            not self.later.written & table,
            -self.reader.last_ns,
            self.read.time_ns,
            self.later.time_ns,
        )

    def of_these(self, statements: list[Statement]) -> list[Statement]:
        """Those that matter, if they are too many: about the same table, beginnings and ends."""
        if len(statements) <= FEW:
            return statements
        table, marks = self.read.tables & self.write.written, (*_BEGINS, *_ENDS)
        ours = {id(self.read), id(self.write), id(self.later)}
        return [
            each
            for each in statements
            if id(each) in ours or each.word in marks or each.tables & table
        ]

    @property
    def title(self) -> str:
        several = self.reader.is_several or self.writer.is_several
        what = "the transactions of two requests" if several else "two transactions"
        return f"In the database {what} overlapped:"

    def sentences(self) -> Iterator[str]:
        """What is odd, and where to look."""
        table = min(self.read.tables & self.write.written)
        wrote = _words(self.later.written & {table} or self.later.written)
        reader, writer = self.reader.session, self.writer.session
        yield f"{reader} read {table}{self.read.where}"
        yield f"before {writer} had changed it{self.write.where},"
        yield f"and then wrote {wrote}{self.later.where}."
        yield "Look at what it read: should it have locked it (FOR UPDATE)? Should a constraint, or"
        yield "a condition in the write, have refused the second? Or should both be SERIALIZABLE?"


class Told:
    """What is to be said about the database of a run."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._clients = clients_of(events)
        self._statements = _without_wrappers(_without_host(list(_statements(events))))
        found = [each for each in _transactions_of(self._statements) if each.does_something]
        self._stale = stale = _critical_pair(_by_request(found))
        kept = (stale.reader, stale.writer) if stale is not None else found
        ours = {id(each) for transaction in kept for each in transaction.statements}
        shown = [each for each in self._statements if id(each) in ours]
        self._all = len(shown)
        self._shown = stale.of_these(shown) if stale is not None else shown[-LAST_MAX:]

    def tasks(self) -> set[Who]:
        """Those whose statements are shown."""
        return {each.asked_by for each in self._shown if each.asked_by is not None}

    def lines(self, start_ns: int, called: Callable[[str], str] = str) -> list[str]:
        """For the story; none if there is no database in the run."""
        stale, shown = self._stale, self._shown
        if not shown:
            return []
        return [
            "The last statements of the database:" if stale is None else stale.title,
            *_sessions_lines(shown, self._clients),
            *_lines(shown, start_ns, called),
            *self._left_out(),
            *(f"  {said}" for said in (self._alone() if stale is None else stale.sentences())),
        ]

    def _left_out(self) -> Iterator[str]:
        others = self._all - len(self._shown)
        if self._stale is not None and others:
            yield f"  (and {count(others, 'statement')} of theirs about something else)"

    def _alone(self) -> Iterator[str]:
        """Where to look if there is no pair."""
        behind = {each.asked_by for each in self._shown} - {None}
        if len(behind) == 1:
            yield "All of this is one request: look at what it does by itself, up to its end."
        elif len(behind) > 1:
            yield "No two of these got into each other's way: look at what each one did by itself."


# Lines


def _sessions_lines(shown: Sequence[Statement], clients: dict[Who, str]) -> list[str]:
    """Who stands behind each session; nothing if it is not known."""
    found: dict[str, list[str]] = {}
    for statement in shown:
        if statement.asked_by is not None:
            texts = found.setdefault(statement.session, [])
            text = asked_text(statement.asked_by, clients)
            texts += [text] if text not in texts else []
    return [f"  {session} is {', then '.join(texts)}" for session, texts in found.items()]


def asked_text(who: Who, clients: dict[Who, str]) -> str:
    """`POST /orders of actor2`."""
    host, actor = who
    client = clients.get(who)
    if client is None:
        return actor if host == DEFAULT_HOST else f"{host}/{actor}"
    return f"{_NUMBER.sub('', actor)} of {client}"


def _lines(
    shown: Sequence[Statement], start_ns: int, called: Callable[[str], str]
) -> Iterator[str]:
    """One after the other; what is said again and again is one line, and of many the middle is left
    out."""
    rows = [
        (f"{(first.time_ns - start_ns) / 1e9:.6f} s", first.session, short(first.place), text)
        for first, text in _joined(shown)
    ]
    lines = aligned([tuple(map(called, row)) for row in rows])
    left_out = len(lines) - STATEMENTS_MAX
    if left_out > 0:
        lines[STATEMENTS_MAX // 2 : STATEMENTS_MAX // 2 + left_out] = [f"  … {left_out} more"]
    yield from lines


def _joined(shown: Sequence[Statement]) -> Iterator[tuple[Statement, str]]:
    for (_, text), alike in groupby(shown, key=lambda each: (each.session, each.text)):
        first, *others = alike
        yield first, f"{text}  ({len(others) + 1} times)" if others else text


# From events


def clients_of(events: Iterable[Event]) -> dict[Who, str]:
    """For the tasks of servers, whose requests they are."""
    found = ((e.host, e.actor, e.text) for e in events if e.kind == ASKED_BY)
    return {(h, actor): text for h, actor, text in found if not actor.startswith("session ")}


def _statements(events: Sequence[Event]) -> Iterator[Statement]:
    asked: dict[Who, Who] = {}
    waiting: dict[Who, list[Statement]] = {}
    for event in events:
        who = (event.host, event.actor)
        if event.kind == ASKED_BY and event.actor.startswith("session "):
            host, _, actor = event.text.partition("/")
            asked[who] = (host, actor)
        elif event.kind == "resumes" and who in waiting:
            for asked_for in waiting.pop(who):
                asked_for.place, asked_for.caller = event.place, _caller_of(event)
        elif (statement := _statement(event, asked.get(who))) is not None:
            if statement.asked_by is not None and statement.word not in _BEGINS:
                waiting.setdefault(statement.asked_by, []).append(statement)
            yield statement


def _caller_of(event: Event) -> Place | None:
    """A helper in a file of its own says little: who called it says more."""
    here = event.place.file if event.place is not None else ""
    return next((caller for caller in event.callers if caller.file != here), None)


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
    return Statement(event.time_ns, session, sql.rstrip("; "), outcome, waits, asked_by)


def _without_host(statements: list[Statement]) -> list[Statement]:
    """`session 1`, where there is one database only."""
    if len({each.session.partition(" ")[0] for each in statements}) == 1:
        for each in statements:
            each.session = each.session.partition(" ")[2]
    return statements


def _without_wrappers(statements: list[Statement]) -> list[Statement]:
    """A caller of several lines (a middleware, who opens the transaction) says nothing about any
    of them."""
    calls: dict[Place | None, set[Place | None]] = {}
    for each in statements:
        calls.setdefault(each.caller, set()).add(each.place)
    for each in statements:
        each.caller = each.caller if len(calls[each.caller]) == 1 else None
    return statements


def _transactions_of(statements: Sequence[Statement]) -> list[Transaction]:
    """In the order in which they began."""
    found: list[Transaction] = []
    current: dict[str, Transaction] = {}
    for statement in statements:
        transaction = current.get(statement.session)
        if transaction is None:
            transaction = current[statement.session] = Transaction(statement.session)
            found.append(transaction)
        transaction.statements.append(statement)
        alone = len(transaction.statements) == 1 and statement.word not in _BEGINS
        if statement.word in _ENDS or (alone and not statement.waits):
            transaction.committed = (
                statement.word != "ROLLBACK" and "error" not in statement.outcome
            )
            del current[statement.session]
    for number, transaction in enumerate(found):
        for statement in transaction.statements:
            statement.transaction, statement.ends_ns = number, transaction.last_ns
    return found


def _by_request(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Those of one request as one; where it is not known whose they are, each by itself."""
    found: dict[Who | int, Transaction] = {}
    for number, each in enumerate(transactions):
        asked_by = each.statements[-1].asked_by
        whole = found.setdefault(asked_by or number, Transaction(each.session))
        whole.statements += each.statements
        whole.committed |= each.committed
    return list(found.values())


# The pair


def _critical_pair(transactions: Sequence[Transaction]) -> Stale | None:
    """Two that overlap, one of which acted on what the other one changed meanwhile; among the last,
    because in a run that was not shrunk many do so in vain."""
    transactions = [each for each in transactions if each.writes][-RECENT:]
    found = [
        stale
        for one, other in combinations(transactions, 2)
        if one.committed and other.committed and one.overlaps(other)
        for reader, writer in ((one, other), (other, one))
        for stale in _stale_reads(reader, writer)
    ]
    return min(found, key=lambda stale: stale.rank, default=None)


def _stale_reads(reader: Transaction, writer: Transaction) -> Iterator[Stale]:
    """`reader` read a table, `writer` changed it and committed, `reader` went on to write."""
    for read in reader.statements:
        if read.written or read.waits:
            continue
        is_locked = LOCKS.search(read.sql) is not None  # to the end of its transaction
        for write in writer.statements:
            if not (read.tables & write.written and read.time_ns < write.ends_ns):
                continue
            for later in reader.statements:
                safe = is_locked and later.transaction == read.transaction
                if later.written and later.time_ns > write.time_ns and not safe:
                    yield Stale(reader, writer, read, write, later)


def _words(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "something"
