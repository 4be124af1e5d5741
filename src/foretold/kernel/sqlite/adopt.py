"""Which copies of SQLite are ours by now, and what begins anew with each run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from foretold.kernel.sqlite import turns, vfs
from foretold.kernel.sqlite.library import MODULES, Library, find_library
from foretold.kernel.swap import ProcessChange


class SQLiteCopy(NamedTuple):
    """A copy of SQLite, and what leads it to us. None if it can't be reached."""

    library: Library | None
    changes: tuple[ProcessChange, ...]


_known: Final[dict[str, SQLiteCopy]] = {}
"""By module. Looked for once in the life of the process: a short run would pay for it each time."""
_adopted: Final[dict[str, SQLiteCopy]] = {}


def new_changes() -> Iterator[ProcessChange]:
    """For the modules that were imported since the last time: what leads their SQLite to us."""
    for name in MODULES:
        if name in _adopted or not hasattr(sys.modules.get(name), "Connection"):
            continue  # done, not there, or in the middle of its import
        if name not in _known:
            _known[name] = copy_of(name, find_library(name))
        copy = _adopted[name] = _known[name]
        yield from copy.changes
        _begin_anew(copy)


def copy_of(name: str, library: Library | None) -> SQLiteCopy:
    """What is to be changed for a module's copy of SQLite."""
    of_vfs = () if library is None else (vfs.VfsChange(library),)
    reachable = library is not None
    of_turns = turns.changes(sys.modules[name], reachable=reachable) if name == "_sqlite3" else ()
    return SQLiteCopy(library, (*of_vfs, *of_turns))


def forget() -> None:
    """All changes are undone."""
    _adopted.clear()


def _begin_anew(copy: SQLiteCopy) -> None:
    """SQLite seeds its generator once in the life of a process: here, once in a run, from the
    tape; and from the system again when the run is over."""
    if copy.library is not None and copy.library.reset is not None:
        copy.library.reset()


def begin_run() -> None:
    """Nothing is left of earlier runs."""
    turns.begin_run()
    for copy in _adopted.values():
        _begin_anew(copy)


def end_run() -> None:
    """Nothing is left of this one."""
    begin_run()
    vfs.forget_run()
