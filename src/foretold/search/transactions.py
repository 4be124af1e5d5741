"""What a database did in a failing run: the two transactions that got into each other's way.

A run has hundreds of statements. What a reader looks for is nearly always a pair of transactions
that overlap, one of which reads what the other one writes; so the statements of that pair are shown
in their order, and a sentence says what is odd about it. Without such a pair: the last statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from foretold.trace import Event

STATEMENTS_MAX = 24
SQL_CHARS_MAX = 110
_TABLE = re.compile(r'\b(?:from|join|into|update)\s+(?:only\s+)?"?(\w+)"?', re.IGNORECASE)
_WRITES = re.compile(r"\s*(?:insert|update|delete|merge|copy)\b", re.IGNORECASE)
_LOCKS = re.compile(r"\bfor\s+(?:no\s+key\s+)?(?:update|share)\b", re.IGNORECASE)
_DRIVERS = re.compile(
    r".*\bpg_catalog\b|.*\bpg_type\b|.*current_schema|\s*(?:show|set|discard|deallocate)\b",
    re.IGNORECASE,
)
_KINDS = ("executes", "waits for a lock")


@dataclass
class Statement:
    """One statement, as the trace tells it."""

    time_ns: int
    session: str
    sql: str
    outcome: str
    waits: bool = False

    @property
    def writes(self) -> bool:
        return _WRITES.match(self.sql) is not None

    @property
    def tables(self) -> set[str]:
        return {name.lower() for name in _TABLE.findall(self.sql)}


@dataclass
class Transaction:
    """The statements of one transaction, from the first to the one that ended it."""

    session: str
    statements: list[Statement] = field(default_factory=list)
    committed: bool = False

    @property
    def first_ns(self) -> int:
        return self.statements[0].time_ns

    @property
    def last_ns(self) -> int:
        return self.statements[-1].time_ns

    def overlaps(self, other: Transaction) -> bool:
        return self.first_ns < other.last_ns and other.first_ns < self.last_ns


def tell_transactions(events: Iterable[Event], start_ns: int) -> list[str]:
    """Lines for the story; none if there is no database in the run."""
    statements = [found for event in events if (found := _statement(event)) is not None]
    if not statements:
        return []
    pair, sentence = _critical_pair(_transactions_of(statements))
    if pair is None:
        shown, title = statements[-STATEMENTS_MAX:], "The last statements of the database:"
    else:
        ours = {id(each) for transaction in pair for each in transaction.statements}
        shown = [each for each in statements if id(each) in ours][:STATEMENTS_MAX]
        title = "In the database two transactions overlapped:"
    width = max(len(each.session) for each in shown)
    lines = [title, *(_line(each, start_ns, width) for each in shown)]
    return [*lines, f"  {sentence}"] if sentence else lines


def _line(statement: Statement, start_ns: int, width: int) -> str:
    sql, time_s = statement.sql, (statement.time_ns - start_ns) / 1e9
    if len(sql) > SQL_CHARS_MAX:
        sql = sql[: SQL_CHARS_MAX - 1] + "…"
    how = "waits for a lock" if statement.waits else statement.outcome
    return f"  {time_s:.6f} s  {statement.session:<{width}}  {sql} → {how}"


def _statement(event: Event) -> Statement | None:
    if event.kind not in _KINDS or not event.actor.startswith("session "):
        return None
    waits = event.kind != "executes"
    if waits:
        sql, outcome = event.text.partition(": ")[2], ""
    else:
        sql, _, outcome = event.text.rpartition(" → ")
    if _DRIVERS.match(sql):
        return None  # what drivers ask for themselves
    return Statement(event.time_ns, f"{event.host} {event.actor}", sql.rstrip("; "), outcome, waits)


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
        word = statement.sql.split(" ", 1)[0].rstrip(";").upper()
        alone = len(transaction.statements) == 1 and word not in ("BEGIN", "START")
        if word in ("COMMIT", "ROLLBACK", "END") or (alone and not statement.waits):
            transaction.committed = word != "ROLLBACK" and "error" not in statement.outcome
            del current[statement.session]
    return found


def _critical_pair(
    transactions: Sequence[Transaction],
) -> tuple[tuple[Transaction, Transaction] | None, str]:
    """Two that overlap, one of which acted on what the other one changed meanwhile."""
    for one, other in combinations(transactions, 2):
        if not (one.committed and other.committed and one.overlaps(other)):
            continue
        for reader, writer in ((one, other), (other, one)):
            sentence = _stale_read(reader, writer)
            if sentence:
                return (one, other), sentence
    return None, ""


def _stale_read(reader: Transaction, writer: Transaction) -> str:
    """`reader` read a table, `writer` changed it and committed, `reader` went on to write."""
    for read in reader.statements:
        if read.writes or _LOCKS.search(read.sql) or read.waits:
            continue
        for write in writer.statements:
            common = read.tables & write.tables
            if not (write.writes and common and read.time_ns < writer.last_ns):
                continue
            later = [s for s in reader.statements if s.writes and s.time_ns > write.time_ns]
            if later:
                same = [s.tables & common for s in later if s.tables & common]
                wrote = _words(same[0] if same else later[-1].tables)
                return (
                    f"{reader.session} read {min(common)} before {writer.session} had changed it, "
                    f"and then wrote {wrote}: look at what it read, and whether it should have "
                    "locked it (FOR UPDATE), or both be SERIALIZABLE."
                )
    return ""


def _words(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "something"
