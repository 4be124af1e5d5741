"""A line of source code, as events name it."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A line of source: where a task waits or resumes."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
