"""Which two transactions are to blame, and what to do about it.

One read something, another changed it and committed, and the first wrote by what it knew. Of all
such pairs the likeliest is told: if an invariant failed after a commit, then whoever committed is
one of the two, and what the invariant asks about is what was written wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from foretold.search.sqltext import LOCKS
from foretold.search.statements import Statement, Transaction

FEW = 8
"""Of more statements than that, those of a pair that have nothing to do with it are left out."""
RECENT = 16
_SUMS_UP = re.compile(r"\s*select\s+(?:coalesce\s*\(\s*)?(?:count|sum|min|max|avg)\s*\(", re.I)


@dataclass(frozen=True)
class Broken:
    """What was found wrong after a commit."""

    commit: Statement
    tables: Collection[str]
    """Those that the invariant asks about."""
    counts: bool = False
    """It is about how many there are."""

    def is_by(self, request: Transaction) -> bool:
        """Whether it was this one's commit."""
        return any(each is self.commit for each in request.statements)


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
    broken: Broken | None = None

    @property
    def tables(self) -> set[str]:
        """What the one had read and the other changed."""
        return self.read.tables & self.write.written

    @property
    def rank(self) -> tuple[bool | int, ...]:
        """The smaller the better: whose commit broke something; it wrote after the other's commit,
        by what it had read about the same thing; where it was broken; in the same table; it had
        counted, if too many is what is wrong; it had found nothing, and both put something there.
        Of several pairs the last, and of its statements the first."""
        asked = set(self.broken.tables) if self.broken is not None else set()
        return (
            self.broken is not None and not self.broken.is_by(self.reader),
            self.later.time_ns < self.write.ends_ns,
            not self.read.ids <= self.write.ids,
            bool(asked) and not self.later.written & asked,
            bool(asked) and not self.tables & asked,
            not self.later.written & self.tables,
            self.broken is not None and self.broken.counts and not self._sums_up,
            not self._both_put_it_there,
            -self.reader.last_ns,
            self.read.time_ns,
            self.later.time_ns,
        )

    @property
    def _sums_up(self) -> bool:
        return _SUMS_UP.match(self.read.sql) is not None

    @property
    def _both_put_it_there(self) -> bool:
        return self.read.found_nothing and self.write.word == "INSERT"

    def of_these(self, statements: list[Statement]) -> list[Statement]:
        """Those that matter, if they are too many: about the same table, beginnings and ends."""
        if len(statements) <= FEW:
            return statements
        ours = {id(self.read), id(self.write), id(self.later)}
        table = self.tables | (self.later.written if len(self.later.written) == 1 else set())
        return [e for e in statements if id(e) in ours or e.is_mark or e.tables & table]

    @property
    def title(self) -> str:
        several = self.reader.is_several or self.writer.is_several
        what = "the transactions of two requests" if several else "two transactions"
        return f"In the database {what} overlapped:"

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What is odd, and where to look."""
        table = min(self.tables)
        wrote = _words(self.later.written & {table} or self.later.written)
        yield f"{name(self.read)} read {table}{self.read.where}"
        yield f"before {name(self.write)} had changed it{self.write.where},"
        yield f"and then wrote {wrote}{self.later.where}."
        yield f"{self._advice()}{self._let_go()}"

    def _advice(self) -> str:
        place = f"Look at {self.read.at}:" if self.read.place is not None else "Look at the read:"
        commit = self._commit_between
        if commit is not None:
            return (
                f"{place} it had committed{commit.where} before it wrote; what it knew, and any "
                "lock that it held, ended there. Do both in one transaction, or read it again "
                "after that?"
            )
        if self._sums_up or self._both_put_it_there:
            what = "a row that is not there" if self.read.found_nothing else "a count"
            return (
                f"{place} {what} cannot be locked (FOR UPDATE). Should both first lock the row "
                "that it belongs to? Should a unique constraint refuse the second? Or should both "
                "be SERIALIZABLE?"
            )
        return (
            f"{place} should it have locked what it reads (FOR UPDATE)? Should a constraint, or a "
            "condition in the write, have refused the second? Or should both be SERIALIZABLE?"
        )

    def _let_go(self) -> str:
        """What it had locked in a transaction before that in which it read."""
        before = [e for e in self.reader.statements if e.transaction < self.read.transaction]
        held = any(each.written or LOCKS.search(each.sql) for each in before)
        if not held or self._commit_between is not None:
            return ""
        return f" (What it had locked before its commit{before[-1].where} was free again.)"

    @property
    def _commit_between(self) -> Statement | None:
        """If it read in one transaction and wrote in another: where the first ended."""
        if self.read.transaction == self.later.transaction:
            return None
        its = [e for e in self.reader.statements if e.transaction == self.read.transaction]
        return its[-1]


def critical_pair(
    transactions: Sequence[Transaction], broken: Broken | None = None
) -> Stale | None:
    """Two that overlap, one of which acted on what the other one changed meanwhile; among the last,
    because in a run that was not shrunk many do so in vain."""
    transactions = [each for each in transactions if each.written][-RECENT:]
    found = [
        stale
        for one, other in combinations(transactions, 2)
        if one.committed and other.committed and one.overlaps(other)
        for reader, writer in ((one, other), (other, one))
        for stale in _stale_reads(reader, writer, broken)
    ]
    return min(found, key=lambda stale: stale.rank, default=None)


def _stale_reads(
    reader: Transaction, writer: Transaction, broken: Broken | None
) -> Iterator[Stale]:
    """`reader` read a table, `writer` changed it and committed, `reader` went on to write."""
    for read in reader.statements:
        if read.written or read.waits:
            continue
        is_locked = LOCKS.search(read.sql) is not None  # to the end of its transaction
        for write in writer.statements:
            if not (read.tables & write.written and read.time_ns < write.ends_ns):
                continue
            if read.misses(write):
                continue
            for later in reader.statements:
                safe = is_locked and later.transaction == read.transaction
                safe = safe or _is_read_again(reader, read, write, later)
                if later.written and later.time_ns > write.time_ns and not safe:
                    yield Stale(reader, writer, read, write, later, broken)


def _is_read_again(
    reader: Transaction, read: Statement, write: Statement, later: Statement
) -> bool:
    """Under a lock, after the other had committed: what was known from before does not matter."""
    return any(
        LOCKS.search(each.sql) is not None
        and not each.waits
        and each.transaction == later.transaction
        and write.ends_ns < each.time_ns < later.time_ns
        and read.tables & write.written & each.tables
        for each in reader.statements
    )


def _words(names: set[str]) -> str:
    return " and ".join(sorted(names)) or "something"
