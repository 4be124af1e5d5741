"""A request has read what another one was changing, and has written nothing because of it.

Such a read does no harm to the database. What the program keeps of it outside of the database (a
cache) is old from then on. It is told only if the test asks about that table, the rows are known
to be the same, there is one such read only, and no two transactions got into each other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from foretold.story.database.stale import Asked
from foretold.story.database.statements import Statement, Transaction


@dataclass(frozen=True)
class Early:
    """A read between another one's change and its commit."""

    read: Statement
    write: Statement

    title = "In the database something was read before its change was committed:"

    def sentences(self, name: Callable[[Statement], str]) -> Iterator[str]:
        """What was seen, and where to look."""
        table = min(self.read.tables & self.write.written)
        yield (
            f"{name(self.read)} read {table}{self.read.where} after {name(self.write)} had changed "
            f"it{self.write.where}, and before that was committed: it has seen what "
            "was there before. Does the program keep that (a cache)?"
        )

    @property
    def evidence(self) -> tuple[Statement, ...]:
        """What is told of it; these are always shown."""
        return self.read, self.write

    def among(self, transactions: Sequence[Transaction]) -> list[Transaction]:
        """Those to which the two belong."""
        ours = {self.read.transaction, self.write.transaction}
        return [each for each in transactions if each.statements[0].transaction in ours]


def read_early(requests: Sequence[Transaction], asked: Asked) -> Early | None:
    """The only such read, if there is one only."""
    found = [
        Early(read, write)
        for writer in requests
        for write in writer.statements
        if write.is_kept and write.written & set(asked.tables)
        for reader in requests
        if reader is not writer
        for read in reader.statements
        if _is_early(read, write) and read.tables & write.written & set(asked.tables)
    ]
    return found[0] if len(found) == 1 else None


def _is_early(read: Statement, write: Statement) -> bool:
    """Whether nothing else comes into question: no lock, no failure, no other row."""
    is_plain = not (read.written or read.waits or read.error or read.reading.locks_rows)
    return is_plain and write.time_ns < read.time_ns < write.ends_ns and read.met(write) is True
