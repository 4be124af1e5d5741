"""Which copies of SQLite are ours by now, and what begins anew with each run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from foretold.kernel.sqlite import turns, vfs
from foretold.kernel.sqlite.library import MODULES, Library, find_library
from foretold.kernel.swap import Change

_adopted: Final[dict[str, Library | None]] = {}
_libraries: Final[dict[str, Library | None]] = {}
"""Looked for once in the life of the process."""


def new_changes() -> Iterator[Change]:
    """For the modules that were imported since the last time: what leads their SQLite to us."""
    for name in MODULES:
        if name in sys.modules and name not in _adopted:
            module = sys.modules[name]
            if not hasattr(module, "Connection"):
                continue  # in the middle of its import
            if name not in _libraries:
                _libraries[name] = find_library(name)
            library = _adopted[name] = _libraries[name]
            if library is not None:
                yield vfs.VfsChange(library)
                _begin_anew(library)
            if name == "_sqlite3":
                yield from turns.changes(module, reachable=library is not None)


def forget() -> None:
    """All changes are undone."""
    _adopted.clear()


def _begin_anew(library: Library) -> None:
    """SQLite seeds its generator once in the life of a process: here, once in a run, from the
    tape; and from the system again when the run is over."""
    if library.reset is not None:
        library.reset()


def begin_run() -> None:
    """Nothing is left of earlier runs."""
    turns.begin_run()
    for library in _adopted.values():
        if library is not None:
            _begin_anew(library)


def end_run() -> None:
    """Nothing is left of this one."""
    begin_run()
    vfs.forget_run()
