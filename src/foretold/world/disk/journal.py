"""Changes of directories, in their order, until they are on the platter.

A journaling file system (ext4, XFS) writes them in the order in which they were made; a crash keeps
a beginning of that list. Each entry is one operation, done whole or not at all: a rename never
leaves both names, nor none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from foretold.world.disk.nodes import Directory, Inode

ENTRIES_MAX: Final = 1_000
"""A kernel writes back by itself what is old: the oldest changes are durable after so many."""

Change = tuple[Directory, str, Inode | None]
"""In this directory that name leads to the node from now on; or to nothing."""


@dataclass(slots=True)
class JournalEntry:
    """One operation that is not durable yet."""

    what: str
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        names = " to ".join(f"{d.path.rstrip('/')}/{name}" for d, name, _ in self.changes)
        return f"{self.what} {names}"


class Journal:
    """What was done to directories since they were last synced."""

    def __init__(self) -> None:
        self.pending: list[JournalEntry] = []

    def add(self, what: str, *changes: Change) -> None:
        """Do it where programs see it, and remember that it is not durable."""
        for directory, name, node in changes:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self.pending.append(JournalEntry(what, changes))
        if len(self.pending) > ENTRIES_MAX:
            self.commit(1)

    def commit(self, n: int) -> None:
        """The first `n` changes reach the platter."""
        for entry in self.pending[:n]:
            for directory, name, node in entry.changes:
                if node is None:
                    directory.durable.pop(name, None)
                else:
                    directory.durable[name] = node
        del self.pending[:n]

    def commit_directory(self, directory: Directory) -> None:
        """`fsync` of a directory: its last change is durable, and with it all that came before."""
        for n in range(len(self.pending), 0, -1):
            if any(change[0] is directory for change in self.pending[n - 1].changes):
                self.commit(n)
                return
