"""What a child says that cannot answer any more: it is about to be killed, or to crash.

It writes into a file in memory that its parent can read. Not into the pipe for its answers: the
child may live on, and answer after all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from foretold.kernel.watchdog import watchdog

_LINES_MAX = 200
_FRAME, _FLOOR = "  File ", os.path.join("world", "run.py")


class Aside:
    """Made by the parent, before it forks."""

    def __init__(self) -> None:
        self._file = os.memfd_create("foretold") if hasattr(os, "memfd_create") else -1

    def speak(self) -> None:
        """In the child: what would go to the terminal goes here."""
        if self._file >= 0:
            watchdog.said_to = self._file

    def after(self, how: str) -> str:
        """How the child died, with the last of what it said."""
        if self._file < 0:
            return how
        size = os.lseek(self._file, 0, os.SEEK_END)
        said = os.pread(self._file, size, 0).decode("utf-8", "replace").strip()
        last = "\n".join([*_of_the_run(said.splitlines())][-_LINES_MAX:])
        return f"{how}. Before that it said:\n{last}" if last else how

    def close(self) -> None:
        """In the parent: it is needed no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _of_the_run(lines: list[str]) -> Iterator[str]:
    """Without the lines of a traceback below the one in which a run begins: the search, pytest."""
    is_below = False
    for line in lines:
        is_below = is_below and line.startswith(_FRAME)
        if not is_below:
            yield line
        is_below |= line.startswith(_FRAME) and line.endswith(" in execute") and _FLOOR in line
