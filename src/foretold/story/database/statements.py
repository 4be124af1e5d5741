"""Statements and transactions of a run, from the events of its trace.

Each statement knows the request that asked for it and the line of code that waits for it; each
transaction whether it was committed. Several transactions of one request are looked at as one.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from foretold.kernel.libraries.asyncpg import RESET
from foretold.kernel.waiting import is_library
from foretold.services.postgres.rows import (
    Catalogue,
    FoundColumn,
    KnownRows,
    answered,
    bare,
    meets,
    note_queries,
    rows_of,
)
from foretold.services.postgres.sqlshown import (
    answer_text,
    outcome_text,
    rows_changed,
    shortened,
    value_text,
)
from foretold.services.postgres.sqltext import PARAMETER, Reading, Token, read
from foretold.story.words import short
from foretold.trace import Place
from foretold.trace.events import Event, Executed, Fault, LockWait, Resumed, Visited, Who
from foretold.world.world import DEFAULT_HOST

BEGINS, ENDS = ("BEGIN", "START"), ("COMMIT", "ROLLBACK", "END", "ABORT")
COLUMNS_MAX = 3
"""Of an answer with more of them no value is told, unless it is known which of them matter."""
_DRIVERS = ("SHOW", "SET", "DISCARD", "DEALLOCATE")
_CATALOGUES = ("pg_catalog", "pg_type", "current_schema")
_NOW = ("now", "current_timestamp", "clock_timestamp", "statement_timestamp", "localtimestamp")


@dataclass
class Statement:
    """One statement, as the trace tells it."""

    time_ns: int
    session: str
    reading: Reading
    sql: str
    tags: tuple[str, ...] = ()
    """What the server says was done."""
    error: str = ""
    waits: bool = False
    asked_by: Who | None = None
    sent_by: Who | None = None
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
    is_kept: bool = False
    """What it did was committed."""
    is_isolated: bool = False
    """Its session has asked for more than READ COMMITTED, now or before."""
    struck_by: str = ""
    """The fault that has lost its answer (`_STRUCK`), if one has."""
    remark: str = ""
    matter: Collection[tuple[str, str]] = ()
    """The columns that the statements of a story set: to have read them is what counts."""
    number: int = 0
    """Of its event."""
    values: tuple[str, ...] = ()
    """What was given for `$1`, `$2`, …"""
    rows: KnownRows = field(default_factory=lambda: KnownRows(Reading([]), Catalogue()))
    answer: list[FoundColumn] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    """The tables that it changes; none if it has failed, or has found nothing to change."""

    @property
    def word(self) -> str:
        return self.reading.word

    def text(self, called: Callable[[str], str] = str) -> str:
        """With its values, as they are called, and with what came of it."""
        how = "waits for a lock" if self.waits else outcome_text(self.tags, self.error)
        how = self._found(called) or how
        said = shortened(self.sql, [value_text(called(value)) for value in self.values])
        came = "" if how in ("", self.word) else f" → {how}"
        return said + came + _STRUCK.get(self.struck_by, "") + self.remark

    def _found(self, called: Callable[[str], str]) -> str:
        """The values that it has found, if they are few: those that somebody sets, or all."""
        told = [each for each in self.answer if each.key is None or each.key not in self.rows.asked]
        told = [each for each in told if each.key in self.matter] or told
        if len(told) > COLUMNS_MAX:
            return ""
        alone = len(self.answer) == 1
        return answer_text(
            [
                ("" if alone or each.key is None else each.key[1], _shown(each.values, called))
                for each in told
            ]
        )

    def met(self, write: Statement) -> bool | None:
        """Whether it has read what that one wrote. None: it is not known."""
        found = [meets(self.rows, write.rows, table) for table in self.tables & write.written]
        return True if True in found else None if None in found else False

    def sums_up(self, tables: Collection[str]) -> bool:
        """Whether it asks how many rows, or how much, of one of these tables."""
        summed = {table for table, query in self.rows.queries.items() if query.sums_up}
        return self.reading.sums_up or not summed.isdisjoint(tables)

    @property
    def given_back(self) -> set[str]:
        """The values that it has found, as text that can be compared."""
        return {text for each in self.answer for text in map(bare, each.values) if text is not None}

    @property
    def given(self) -> set[str]:
        """The values that it puts somewhere or asks for."""
        known = {value for values in self.rows.asked.values() for value in values}
        return known | set(self.rows.to.values())

    @property
    def sets(self) -> set[tuple[str, str]]:
        """The columns that it changes."""
        return {(table, column) for table in self.written for column in self.reading.sets}

    @property
    def is_touch(self) -> bool:
        """It notes nothing but when it was (`last_used_at`), and depends on nothing."""
        sets = self.reading.sets
        return bool(sets) and all(self._is_time(value) for value in sets.values())

    def _is_time(self, value: Sequence[Token]) -> bool:
        if not value:
            return False
        if value[0].kind == PARAMETER:
            number = int(value[0].value[1:])
            return 0 < number <= len(self.values) and _is_instant(self.values[number - 1])
        return value[0].is_word(*_NOW)

    @property
    def is_relative(self) -> bool:
        """`SET n = n + 1`: it takes what is there when it is executed, not what was read before."""
        sets = self.reading.sets
        return bool(sets) and any(
            any(t.is_name and t.value == name for t in value) for name, value in sets.items()
        )

    @property
    def at(self) -> str:
        """`app/rules/limits.py:30, from app/routers/dwellers.py:71`, if it is known."""
        if self.place is None:
            return ""
        if self.after is not None:
            return f"flushed by the commit at {short(self.place)}, after {short(self.after)}"
        caller = f", from {short(self.caller)}" if self.caller is not None else ""
        return f"{short(self.place)}{caller}"

    @property
    def where(self) -> str:
        """The same in brackets."""
        return f" ({self.at})" if self.place is not None else ""

    @property
    def begins(self) -> bool:
        return self.word in BEGINS

    @property
    def ends(self) -> bool:
        """Whether it is the end of a transaction, and no return to a savepoint."""
        return self.word in ENDS and not self.reading.has("to", "prepared")

    @property
    def is_mark(self) -> bool:
        """The beginning or the end of a transaction."""
        return self.begins or self.ends

    @property
    def found_nothing(self) -> bool:
        """A question without an answer."""
        return self.tags == ("SELECT 0",)


def _shown(values: Sequence[str], called: Callable[[str], str]) -> list[str]:
    return [value_text(called(value)) for value in values]


def _is_instant(value: str) -> bool:
    try:
        datetime.datetime.fromisoformat(value.strip("'"))
    except ValueError:
        return False
    return ":" in value


@dataclass
class Transaction:
    """The statements of one transaction, from the first to the one that ended it; or those of all
    transactions of one request, because what it read in the first it may act on in the second."""

    session: str
    statements: list[Statement] = field(default_factory=list)
    committed: bool = False

    @property
    def asked_by(self) -> Who | None:
        return self.statements[-1].asked_by

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
    def lost_an_answer(self) -> bool:
        """It was done, and the program was told otherwise: a fault."""
        return any(each.struck_by for each in self.statements)

    @property
    def is_several(self) -> bool:
        return len({each.transaction for each in self.statements}) > 1

    @property
    def written(self) -> set[str]:
        """The tables that it has changed for others to see."""
        return {table for each in self.statements if each.is_kept for table in each.written}

    def overlaps(self, other: Transaction) -> bool:
        return self.first_ns < other.last_ns and other.first_ns < self.last_ns


# From events

Visits = dict[Who, Visited]
"""For the tasks of servers: whose requests they work for."""


def visits_of(events: Iterable[Event]) -> Visits:
    """All that is known of that."""
    return {event.who: event for event in events if isinstance(event, Visited)}


def asked_text(who: Who, visits: Visits) -> str:
    """`POST /orders of actor2`."""
    host, actor = who
    visit = visits.get(who)
    if visit is None:
        return actor if host == DEFAULT_HOST else f"{host}/{actor}"
    asks = f"{visit.asks} of {visit.client}" if visit.client else f"{host}/{visit.asks}"
    return f"{asks}, in {actor} afterwards" if visit.is_after else asks


def statements_of(events: Sequence[Event], catalogue: Catalogue) -> list[Statement]:
    """All of the program's own, with the lines that say where they come from."""
    found = list(_statements(events, catalogue))
    _mark_struck(found, events)
    return _with_callers(_without_host(found))


_STRUCK = {
    "lost_after": "  (done; a fault: the answer is lost)",
    "lost_after_commit": "  (committed; a fault: the answer is lost)",
}
"""What is said of a statement by the fault that has struck its answer."""


def _mark_struck(statements: Sequence[Statement], events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, Fault) and event.what in _STRUCK:
            its = [s for s in statements if s.session == event.whom and not s.waits]
            struck = [each for each in its if each.time_ns == event.time_ns]
            for each in struck[-1:]:
                each.struck_by = event.what


def _statements(events: Sequence[Event], catalogue: Catalogue) -> Iterator[Statement]:
    waiting: dict[Who, list[Statement]] = {}
    isolated: set[Who] = set()
    for number, event in enumerate(events):
        if isinstance(event, Resumed) and event.who in waiting:
            for asked_for in waiting.pop(event.who):
                asked_for.place, asked_for.callers = _users(event.place), event.callers
        elif isinstance(event, Executed | LockWait):
            if any(each.has("repeatable", "serializable") for each in read(event.sql)):
                isolated.add(event.who)
            for statement in _parts(event, catalogue):
                statement.number, statement.is_isolated = number, event.who in isolated
                if event.sent_by is not None and not statement.begins:
                    # Where it was sent; the line that waits for it says the same, and is the same
                    # for all that are sent together. Who never goes on has the former alone.
                    statement.place, statement.callers = _users(event.place), event.callers
                    waiting.setdefault(event.sent_by, []).append(statement)
                yield statement


def _users(place: Place | None) -> Place | None:
    """None if it is a driver's: an ORM closes its session in a task of its own."""
    return None if place is None or is_library(place.file) else place


def _parts(event: Executed | LockWait, catalogue: Catalogue) -> Iterator[Statement]:
    """One text may hold several statements, which have a tag each."""
    readings = read(event.sql)
    if _is_reset(readings):
        return
    waits = isinstance(event, LockWait)
    tags = () if isinstance(event, LockWait) else event.tags
    error = "" if isinstance(event, LockWait) else event.error
    cells = None if isinstance(event, LockWait) else event.cells
    for number, reading in enumerate(readings):
        if _is_drivers(reading):
            continue
        alone = len(readings) == 1
        sql = event.sql[reading.tokens[0].start : reading.tokens[-1].end]
        # In a reading of its own, whose tokens count from the beginning of that text.
        reading = read(sql)[0]
        found = Statement(event.time_ns, f"{event.host} {event.actor}", reading, sql, waits=waits)
        found.tags = tags if alone else tags[number : number + 1]
        found.error = error if alone or number == len(tags) else ""
        found.asked_by, found.sent_by, found.values = event.asked_by, event.sent_by, event.values
        found.rows = rows_of(reading, event.values, cells if alone else None, catalogue)
        note_queries(found.rows, event.values)
        found.answer = answered(cells if alone else None, catalogue)
        found.tables = {catalogue.called(name) for name in reading.tables}
        if not (found.error or {rows_changed(tag) for tag in found.tags} == {0}):
            found.written = {catalogue.called(name) for name in reading.written}
        yield found


def _is_reset(readings: Sequence[Reading]) -> bool:
    """Whether a pool has sent it. Who sends one of these alone may have meant something by it."""
    words = (" ".join(token.value for token in reading.tokens) for reading in readings)
    return len(readings) > 1 and RESET.issuperset(words)


def _is_drivers(reading: Reading) -> bool:
    """Whether it is what drivers ask for themselves."""
    return reading.word in _DRIVERS or reading.has(*_CATALOGUES)


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
        alone = len(transaction.statements) == 1 and not statement.begins
        if statement.ends or (alone and not statement.waits):
            transaction.committed = _is_committed(statement)
            del current[statement.session]
    ends = Counter((s.asked_by, s.place) for t in found if (s := t.statements[-1]).ends)
    shared = Counter(place for _, place in ends)
    for number, transaction in enumerate(found):
        if shared[transaction.statements[-1].place] > 1:
            _mark_flushed(transaction.statements)
        for statement in transaction.statements:
            statement.transaction, statement.ends_ns = number, transaction.last_ns
            statement.is_kept = transaction.committed
        _mark_undone(transaction.statements)
    return found


def _is_committed(last: Statement) -> bool:
    """By what the server said to its end: COMMIT of a transaction that has failed is a ROLLBACK."""
    if last.error or "ROLLBACK" in last.tags:
        return False
    return last.word not in ("ROLLBACK", "ABORT")


def _mark_undone(statements: Sequence[Statement]) -> None:
    """What stands between a savepoint and the return to it has never been."""
    for number, each in enumerate(statements):
        if each.word == "ROLLBACK" and not each.ends:
            name = each.reading.tokens[-1].value
            saved = [
                n
                for n, s in enumerate(statements[:number])
                if s.word == "SAVEPOINT" and s.reading.tokens[-1].value == name
            ]
            for undone in statements[saved[-1] if saved else 0 : number]:
                undone.is_kept = False


def _mark_flushed(statements: Sequence[Statement]) -> None:
    """What a session of an ORM has kept is sent by the line that commits. If that is one for all
    requests, what this one did last says more."""
    last = statements[-1]
    if not last.ends or last.place is None:
        return
    before: Place | None = None
    for each in statements:
        if each.written and each.place == last.place:
            each.after = before
        elif each.place is not None and each.place != last.place:
            before = each.caller or each.place  # a handler's line rather than a helper's


def by_request(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Those of one request as one; where it is not known whose they are, each by itself. What tasks
    of one request do at the same time (`gather`) gets in each other's way as well: that stays
    apart."""
    found: dict[Who | int, list[Transaction]] = {}
    for number, each in enumerate(transactions):
        its = found.setdefault(each.asked_by or number, [])
        whole = next((one for one in its if _goes_on(one, each)), None)
        if whole is None:
            its.append(whole := Transaction(each.session))
        whole.statements += each.statements
        whole.committed |= each.committed
    together = [whole for its in found.values() for whole in its]
    for whole in together:
        whole.statements.sort(key=lambda each: each.number)  # it may use two sessions at a time
    return together


def _goes_on(whole: Transaction, each: Transaction) -> bool:
    """Whether it comes after that, or is sent by the same task, which does one thing at a time."""
    ended_ns = max(statement.time_ns for statement in whole.statements)
    senders = {statement.sent_by for statement in whole.statements}
    return ended_ns <= each.first_ns or not senders.isdisjoint(s.sent_by for s in each.statements)


def by_client(requests: Sequence[Transaction], visits: Visits) -> list[Transaction]:
    """All that one client has asked for as one, where clients have names."""
    found: dict[str, Transaction] = {}
    for each in requests:
        visit = visits.get(each.asked_by) if each.asked_by is not None else None
        if visit is not None and visit.client:
            whole = found.setdefault(visit.client, Transaction(each.session))
            whole.statements += each.statements
            whole.committed |= each.committed
    return list(found.values())
