"""Two answers about files that are no result, and where temporary files go.

ELSEWHERE        the call is about something of the real machine
RealPath(path)   a file of the program itself, to be read from the real disk under this path
"""

from __future__ import annotations

import os
import tempfile
from typing import Final

from foretold.kernel.computer import Computer

ELSEWHERE: Final = object()


class RealPath:
    """The answer is on the real disk, under this path."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


# --- per run ---------------------------------------------------------------------------------

TEMPORARY: Final = "/tmp"
_tempdir_before: str | bytes | None = None
_has_disk = False


def begin_run(computer: Computer) -> None:
    """Temporary files go to the simulated disk's directory for them."""
    global _has_disk, _tempdir_before
    _has_disk = computer.answer("files") is not None
    if _has_disk:
        _tempdir_before, tempfile.tempdir = tempfile.tempdir, TEMPORARY


def end_run() -> None:
    """Put the directory for temporary files back."""
    global _has_disk
    if _has_disk:
        tempfile.tempdir = _tempdir_before  # type: ignore[assignment]  # typeshed: str alone
        _has_disk = False


def real_temporary_directory() -> str:
    """Where temporary files of the real machine lie, as far as anybody has asked."""
    return os.fsdecode(_tempdir_before) if _tempdir_before else TEMPORARY
