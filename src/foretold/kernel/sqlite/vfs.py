"""SQLite's file layer while we are installed: its calls lead to the computer of the calling thread.

SQLite reaches the system through one table of C functions, its VFS. Some entries of the default
table are changed in place, and changed back afterwards, so that connections of every library above
it (`sqlite3`, `aiosqlite`, SQLAlchemy, `apsw`) are caught whatever they ask for. Threads that are
not of a run get what the table had before, and a database that was open before keeps its own files.

A file opened inside a run has a table of ours for its operations, which is never taken away: who
still holds the connection after the run may close it. What Python raises must not pass through C:
`OSError` becomes the code that SQLite's own layer would give, everything else is told to the world.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import functools
import os
from _thread import get_ident
from collections.abc import Callable
from ctypes import c_int, c_int64, c_void_p, memset, string_at
from typing import Any, Final, Protocol

from foretold.errors import EscapedWorld
from foretold.kernel import fence
from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.sqlite.abi import (
    DAY_MS,
    FILE_CALLS,
    JULIAN_1970_MS,
    POWERSAFE_OVERWRITE,
    SECTOR_BYTES,
    SHM_EXCLUSIVE,
    SHM_LOCK,
    VFS_CALLS,
    Code,
    Control,
    Lock,
    Methods,
    Vfs,
    address_of,
)
from foretold.kernel.sqlite.library import Library
from foretold.kernel.swap import python_in_c
from foretold.kernel.threads.baton import StrandEnded, strand_of

# As ctypes' own, which are guarded while a session lasts, and slower by that.
_in_c: Final = python_in_c()
_copy: Final = _in_c.memmove
_copy.argtypes = (c_void_p, c_void_p, ctypes.c_size_t)
_copy.restype = None
_bytes_at: Final = _in_c.PyBytes_FromStringAndSize
_bytes_at.argtypes = (c_void_p, ctypes.c_ssize_t)
_bytes_at.restype = ctypes.py_object


class FilesForSQLite(Protocol):
    """What SQLite asks of one process' disk; `computer.answer("sqlite")()` gives it."""

    def open(self, path: str | None, flags: int) -> FileForSQLite:
        """Open a file; one without a name is gone when it is closed."""

    def delete(self, path: str, *, sync_directory: bool) -> None:
        """Delete a file, and make that durable if asked to."""

    def access(self, path: str, what: int) -> bool:
        """Whether a file is there."""

    def full_path(self, path: str) -> str:
        """The path from the root on, without symbolic links."""

    def failed(self, error: BaseException) -> None:
        """Something was raised that cannot pass through C: the run has failed with it."""


class FileForSQLite(Protocol):
    path: str | None
    databases: FilesForSQLite
    level: Lock
    persist_wal: bool
    powersafe: bool

    def close(self) -> None: ...
    def read(self, n: int, offset: int) -> bytes: ...
    def write(self, data: bytes, offset: int) -> None: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None: ...
    def size(self) -> int: ...
    def lock(self, level: int) -> bool: ...
    def unlock(self, level: int) -> None: ...
    def is_reserved(self) -> bool: ...
    def has_moved(self) -> bool: ...
    def shm_region(self, number: int, size: int, *, extend: bool) -> int | None: ...
    def shm_lock(self, first: int, n: int, *, exclusive: bool) -> bool: ...
    def shm_unlock(self, first: int, n: int, *, exclusive: bool) -> None: ...
    def shm_unmap(self, *, delete: bool) -> None: ...


files: Final[dict[int, FileForSQLite]] = {}
"""What SQLite has open in our files, by the address of its structure."""
_closed: Final[dict[int, tuple[str | None, FilesForSQLite]]] = {}
"""What each thread has closed last. SQLite deletes a journal right after it has closed it, and that
may be while another host acts: a forgotten connection is closed when it is collected."""
_originals: Final[dict[int, dict[str, Callable[..., int]]]] = {}
"""The functions of a table that we have changed, by the table's address."""


def _answerer() -> FilesForSQLite | None:
    computer = fence.fenced_in()
    answer = None if computer is None else computer.answer("sqlite")
    return None if answer is None else answer()


def _text(pointer: int) -> str:
    return os.fsdecode(string_at(pointer))


def _note_failure(error: BaseException, databases: FilesForSQLite | None) -> None:
    """It can't be raised here. A thread that is being ended is told so again when it next waits."""
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()
    elif not isinstance(error, StrandEnded | EscapedWorld) and databases is not None:
        databases.failed(error)


def _code(error: BaseException, code: Code, databases: FilesForSQLite | None) -> Code:
    """What SQLite is told of an error."""
    if not isinstance(error, OSError):
        _note_failure(error, databases)
    elif error.errno == errno.ENOSPC:
        return Code.FULL
    return code


# --- the layer -------------------------------------------------------------------------------


def _open(vfs: int, name: int | None, file: int, flags: int, out_flags: int | None) -> int:
    databases = _answerer()
    if databases is None:
        return _originals[vfs]["xOpen"](vfs, name, file, flags, out_flags)
    c_void_p.from_address(file).value = None
    try:
        opened = databases.open(_text(name) if name else None, flags)
    except BaseException as error:
        if not isinstance(error, OSError):
            _note_failure(error, databases)
        return Code.CANTOPEN
    files[file] = opened
    if out_flags:
        c_int.from_address(out_flags).value = flags
    c_void_p.from_address(file).value = _METHODS_ADDRESS
    return Code.OK


def _delete(vfs: int, name: int, sync_directory: int) -> int:
    path = _text(name)
    closed_path, closed_in = _closed.get(get_ident(), (None, None))
    databases = closed_in if closed_path == path else _answerer()
    if databases is None:
        return _originals[vfs]["xDelete"](vfs, name, sync_directory)
    try:
        databases.delete(path, sync_directory=bool(sync_directory & 1))
    except FileNotFoundError:
        return Code.IOERR_DELETE_NOENT
    except BaseException as error:
        return _code(error, Code.IOERR_DELETE, databases)
    return Code.OK


def _access(vfs: int, name: int, flags: int, out: int) -> int:
    databases = _answerer()
    if databases is None:
        return _originals[vfs]["xAccess"](vfs, name, flags, out)
    try:
        c_int.from_address(out).value = databases.access(_text(name), flags)
    except BaseException as error:
        return _code(error, Code.IOERR, databases)
    return Code.OK


def _full_pathname(vfs: int, name: int, size: int, out: int) -> int:
    databases = _answerer()
    if databases is None:
        return _originals[vfs]["xFullPathname"](vfs, name, size, out)
    try:
        path = os.fsencode(databases.full_path(_text(name))) + b"\0"
    except BaseException as error:
        return _code(error, Code.CANTOPEN, databases)
    if len(path) > size:
        return Code.CANTOPEN
    _copy(out, path, len(path))
    return Code.OK


def _randomness(vfs: int, n: int, out: int) -> int:
    computer = computer_of(get_ident())
    if computer is None:
        return _originals[vfs]["xRandomness"](vfs, n, out)
    try:
        _copy(out, computer.entropy(n), n)
    except BaseException as error:
        _note_failure(error, _answerer())
        memset(out, 0, n)
    return n


def _sleep(vfs: int, microseconds: int) -> int:
    computer = computer_of(get_ident())
    if computer is None:
        return _originals[vfs]["xSleep"](vfs, microseconds)
    try:
        computer.sleep_ns(microseconds * 1_000)
    except BaseException as error:
        _note_failure(error, _answerer())
    return microseconds


def _julian_ms(computer: Computer) -> int:
    return JULIAN_1970_MS + computer.wall_ns() // 1_000_000


def _current_time(vfs: int, out: Any) -> int:
    computer = computer_of(get_ident())
    if computer is None:
        return _originals[vfs]["xCurrentTime"](vfs, out)
    out[0] = _julian_ms(computer) / DAY_MS
    return Code.OK


def _current_time_int64(vfs: int, out: Any) -> int:
    computer = computer_of(get_ident())
    if computer is None:
        return _originals[vfs]["xCurrentTimeInt64"](vfs, out)
    out[0] = _julian_ms(computer)
    return Code.OK


# --- files -----------------------------------------------------------------------------------


def _close(file: int) -> int:
    opened = files.pop(file)
    c_void_p.from_address(file).value = None
    _closed[get_ident()] = (opened.path, opened.databases)
    try:
        opened.close()
    except BaseException as error:
        _note_failure(error, opened.databases)
    return Code.OK


def _failing_as(code: Code) -> Callable[[Callable[..., int | None]], Callable[..., int]]:
    """A call about an open file. It has succeeded unless it says otherwise; what it raises becomes
    this code."""

    def decorate(function: Callable[..., int | None]) -> Callable[..., int]:
        def called(file: int, *args: Any) -> int:
            opened = files[file]
            try:
                return function(opened, *args) or Code.OK
            except BaseException as error:
                return _code(error, code, opened.databases)

        return called

    return decorate


@_failing_as(Code.IOERR_CORRUPTFS)
def _read(opened: FileForSQLite, buffer: int, n: int, offset: int) -> int | None:
    data = opened.read(n, offset)
    got = len(data)
    _copy(buffer, data, got)
    if got == n:
        return None
    memset(buffer + got, 0, n - got)
    return Code.IOERR_SHORT_READ


@_failing_as(Code.IOERR_WRITE)
def _write(opened: FileForSQLite, buffer: int, n: int, offset: int) -> None:
    opened.write(_bytes_at(buffer, n), offset)


@_failing_as(Code.IOERR_TRUNCATE)
def _truncate(opened: FileForSQLite, size: int) -> None:
    opened.truncate(size)


@_failing_as(Code.IOERR_FSYNC)
def _sync(opened: FileForSQLite, flags: int) -> None:
    opened.sync()


@_failing_as(Code.IOERR_FSTAT)
def _file_size(opened: FileForSQLite, out: int) -> None:
    c_int64.from_address(out).value = opened.size()


@_failing_as(Code.IOERR_LOCK)
def _lock(opened: FileForSQLite, level: int) -> int:
    return Code.OK if opened.lock(level) else Code.BUSY


def _unlock(file: int, level: int) -> int:
    files[file].unlock(level)
    return 0


def _check_reserved_lock(file: int, out: int) -> int:
    c_int.from_address(out).value = files[file].is_reserved()
    return 0


def _file_control(file: int, what: int, argument: int | None) -> int:
    opened = files[file]
    if not argument:
        return Code.NOTFOUND
    value = c_int.from_address(argument)
    if what == Control.LOCKSTATE:
        value.value = opened.level
    elif what == Control.LAST_ERRNO:
        value.value = 0
    elif what == Control.HAS_MOVED:
        value.value = opened.has_moved()
    elif what == Control.PERSIST_WAL:
        opened.persist_wal = _switch(value, opened.persist_wal)
    elif what == Control.POWERSAFE_OVERWRITE:
        opened.powersafe = _switch(value, opened.powersafe)
    else:
        return Code.NOTFOUND
    return Code.OK


def _switch(value: c_int, now: bool) -> bool:
    """Below 0 it is a question, else a command."""
    if value.value < 0:
        value.value = now
        return now
    return bool(value.value)


def _sector_size(file: int) -> int:
    return SECTOR_BYTES


def _device_characteristics(file: int) -> int:
    return POWERSAFE_OVERWRITE if files[file].powersafe else 0


# --- memory that the connections to one database share, in WAL mode --------------------------


@_failing_as(Code.IOERR_SHMOPEN)
def _shm_map(opened: FileForSQLite, number: int, size: int, extend: int, out: int) -> None:
    c_void_p.from_address(out).value = opened.shm_region(number, size, extend=bool(extend))


@_failing_as(Code.IOERR_LOCK)
def _shm_lock(opened: FileForSQLite, first: int, n: int, flags: int) -> int:
    exclusive = bool(flags & SHM_EXCLUSIVE)
    if flags & SHM_LOCK:
        return Code.OK if opened.shm_lock(first, n, exclusive=exclusive) else Code.BUSY
    opened.shm_unlock(first, n, exclusive=exclusive)
    return Code.OK


def _shm_barrier(file: int) -> None:
    """One thread runs at a time: each sees what the others have written."""


def _shm_unmap(file: int, delete: int) -> int:
    opened = files[file]
    try:
        opened.shm_unmap(delete=bool(delete))
    except BaseException as error:
        _note_failure(error, opened.databases)
    return Code.OK


# --- the tables ------------------------------------------------------------------------------


def _function_for(name: str) -> Callable[..., Any]:
    """`xShmMap` is `_shm_map` here."""
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in name[1:])
    found: Callable[..., Any] = globals()[words]
    return functools.partial(_inside_c, found)


def _inside_c(function: Callable[..., Any], *args: Any) -> Any:
    """SQLite is not disturbed by a signal: what its handler raises could not pass through C."""
    strand = strand_of(get_ident())
    if strand is None:
        return function(*args)
    strand.in_c += 1
    try:
        return function(*args)
    finally:
        strand.in_c -= 1


# As long as the process lives: SQLite may call them whenever a connection is still there.
_OF_VFS: Final = {name: kind(_function_for(name)) for name, kind in VFS_CALLS.items()}
_OF_FILES: Final = {name: kind(_function_for(name)) for name, kind in FILE_CALLS.items()}
_ADDRESSES: Final = {name: address_of(call) for name, call in _OF_VFS.items()}
_METHODS: Final = Methods(2, **{name: address_of(call) for name, call in _OF_FILES.items()})
_METHODS_ADDRESS: Final = ctypes.addressof(_METHODS)


class VfsChange:
    """The tables of one copy of SQLite: they lead to us by `apply`, and no more by `undo`."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._before: list[tuple[Vfs, dict[str, int | None]]] = []
        self._seen: dict[int, dict[str, int]] = {}
        """What each table had when we last changed it: to make functions of addresses is slow."""

    def apply(self) -> None:
        for vfs in self.library.structures:
            before = {name: getattr(vfs, name) for name in VFS_CALLS}
            self._before.append((vfs, before))
            # Newer versions have no xCurrentTime.
            there = {name: address for name, address in before.items() if address}
            if self._seen.get(ctypes.addressof(vfs)) != there:
                self._seen[ctypes.addressof(vfs)] = there
                _originals[ctypes.addressof(vfs)] = {
                    name: VFS_CALLS[name](address) for name, address in there.items()
                }
            for name in there:
                setattr(vfs, name, _ADDRESSES[name])

    def undo(self) -> None:
        """`_originals` stay: somebody may be in the middle of a call."""
        while self._before:
            vfs, before = self._before.pop()
            for name, address in before.items():
                setattr(vfs, name, address)


def forget_run() -> None:
    """The run is over: nothing here keeps its world alive."""
    _closed.clear()
