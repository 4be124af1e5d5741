"""The copies of SQLite that this process has loaded, and where their file layer is.

`sqlite3` and `apsw` each bring their own copy. Of both we need two things: the address of their
default VFS, from which the others can be reached, and a way to make their random numbers begin
anew. For `sqlite3` its C module leads to the library (`sqlite3_vfs_find`); where a Python hides the
symbols, the first word of an open connection's structure leads there. `apsw` has a call for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel.sqlite.abi import Control, Vfs

MODULES: Final = ("_sqlite3", "apsw")
"""C modules that are known to bring SQLite."""
_UNIX: Final = b"unix"
_VFS_MAX: Final = 32
_HEAD_BYTES: Final = object.__basicsize__


class Library:
    """One copy of SQLite."""

    def __init__(self, module: str, vfs: int, reset: Callable[[], object] | None) -> None:
        self.module = module
        self.structures = list(_of_unix(vfs))
        self.reset = reset
        """Makes its random numbers begin anew, with a new seed from its VFS."""


def find_library(name: str) -> Library | None:
    """The copy of SQLite that a module brings. None if the module is not there, or if we cannot
    reach what it hides."""
    module: Any = sys.modules.get(name)
    if module is None or not hasattr(module, "Connection"):  # not there, or not all of it yet
        return None
    found = _of_apsw(module) if name == "apsw" else _of_sqlite3(module)
    return found if found is not None and found.structures else None


def _of_sqlite3(module: Any) -> Library | None:
    library = ctypes.CDLL(getattr(module, "__file__", None))
    reset = None
    if hasattr(library, "sqlite3_randomness"):
        library.sqlite3_randomness.argtypes = [ctypes.c_int, ctypes.c_void_p]
        reset = lambda: library.sqlite3_randomness(0, None)  # noqa: E731  # one call, twice named
    if hasattr(library, "sqlite3_vfs_find"):
        library.sqlite3_vfs_find.restype = ctypes.c_void_p
        library.sqlite3_vfs_find.argtypes = [ctypes.c_void_p]
        vfs = library.sqlite3_vfs_find(None)
    else:
        vfs = vfs_of_connection(module)
    return Library(module.__name__, vfs, reset)


def vfs_of_connection(module: Any) -> int:
    """By structures: a connection of Python begins with SQLite's, and that with its VFS."""
    connection = module.Connection(":memory:")
    try:
        database = ctypes.c_void_p.from_address(id(connection) + _HEAD_BYTES).value
        return ctypes.c_void_p.from_address(database or 0).value or 0
    finally:
        connection.close()


def _of_apsw(module: Any) -> Library:
    hooks, module.connection_hooks[:] = list(module.connection_hooks), ()
    try:
        connection = module.Connection(":memory:")
    finally:
        module.connection_hooks[:] = hooks
    found = ctypes.c_void_p()
    connection.file_control("main", Control.VFS_POINTER, ctypes.addressof(found))
    connection.close()
    return Library("apsw", found.value or 0, lambda: module.randomness(0))


def _of_unix(default: int) -> Iterator[Vfs]:
    """All file layers that lead to the system's files. The default one is the first of the list."""
    address: int | None = default
    for _ in range(_VFS_MAX):
        if not address:
            return
        vfs = Vfs.from_address(address)
        if vfs.iVersion >= 2 and ctypes.string_at(vfs.zName).startswith(_UNIX):
            yield vfs
        address = vfs.pNext
