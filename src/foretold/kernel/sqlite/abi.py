"""What of SQLite's C interface is needed: its file layer (VFS). Stable since SQLite 3.7 (2010).

<https://www.sqlite.org/c3ref/vfs.html>, <https://www.sqlite.org/c3ref/io_methods.html>
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import CFUNCTYPE, c_double, c_int, c_int64, c_void_p
from typing import Any, Final


class Code(enum.IntEnum):
    """Results, extended ones too."""

    OK = 0
    BUSY = 5
    IOERR = 10
    NOTFOUND = 12
    FULL = 13
    CANTOPEN = 14
    IOERR_READ = 10 | 1 << 8
    IOERR_SHORT_READ = 10 | 2 << 8
    IOERR_WRITE = 10 | 3 << 8
    IOERR_FSYNC = 10 | 4 << 8
    IOERR_DIR_FSYNC = 10 | 5 << 8
    IOERR_TRUNCATE = 10 | 6 << 8
    IOERR_FSTAT = 10 | 7 << 8
    IOERR_LOCK = 10 | 15 << 8
    IOERR_DELETE = 10 | 10 << 8
    IOERR_SHMOPEN = 10 | 18 << 8
    IOERR_DELETE_NOENT = 10 | 23 << 8
    IOERR_CORRUPTFS = 10 | 33 << 8


class Open(enum.IntFlag):
    """How and what `xOpen` opens."""

    READONLY = 0x1
    READWRITE = 0x2
    CREATE = 0x4
    DELETEONCLOSE = 0x8
    EXCLUSIVE = 0x10
    MAIN_DB = 0x100
    MAIN_JOURNAL = 0x800
    SUPER_JOURNAL = 0x4000
    WAL = 0x80000


class Lock(enum.IntEnum):
    """How far a connection has locked a database."""

    NONE = 0
    SHARED = 1
    RESERVED = 2
    PENDING = 3
    EXCLUSIVE = 4


class Control(enum.IntEnum):
    """What `xFileControl` may be asked, as far as there is an answer."""

    LOCKSTATE = 1
    LAST_ERRNO = 4
    PERSIST_WAL = 10
    VFSNAME = 12
    POWERSAFE_OVERWRITE = 13
    HAS_MOVED = 20
    VFS_POINTER = 27


ACCESS_EXISTS: Final = 0
SHM_UNLOCK, SHM_LOCK, SHM_SHARED, SHM_EXCLUSIVE = 1, 2, 4, 8
SHM_LOCKS: Final = 8
SECTOR_BYTES: Final = 4_096
POWERSAFE_OVERWRITE: Final = 0x1000
"""A write that is cut off by a crash changes no byte outside of its range. True of a disk whose
sectors are written whole."""
JULIAN_1970_MS: Final = 210_866_760_000_000
"""SQLite counts milliseconds from noon in Greenwich on 24 November 4714 B.C."""
DAY_MS: Final = 86_400_000

# --- structures ------------------------------------------------------------------------------

_POINTERS: Final = (
    "pNext zName pAppData xOpen xDelete xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose"
    " xRandomness xSleep xCurrentTime xGetLastError xCurrentTimeInt64"
)


class Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 2: the file layer."""

    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        *((name, c_void_p) for name in _POINTERS.split()),
    )


_METHODS: Final = (
    "xClose xRead xWrite xTruncate xSync xFileSize xLock xUnlock xCheckReservedLock xFileControl"
    " xSectorSize xDeviceCharacteristics xShmMap xShmLock xShmBarrier xShmUnmap"
)


class Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 2: what can be done with an open file."""

    _fields_ = (("iVersion", c_int), *((name, c_void_p) for name in _METHODS.split()))


_P, _I, _L = c_void_p, c_int, c_int64
VFS_CALLS: Final[dict[str, Any]] = {
    "xOpen": CFUNCTYPE(_I, _P, _P, _P, _I, _P),
    "xDelete": CFUNCTYPE(_I, _P, _P, _I),
    "xAccess": CFUNCTYPE(_I, _P, _P, _I, _P),
    "xFullPathname": CFUNCTYPE(_I, _P, _P, _I, _P),
    "xRandomness": CFUNCTYPE(_I, _P, _I, _P),
    "xSleep": CFUNCTYPE(_I, _P, _I),
    "xCurrentTime": CFUNCTYPE(_I, _P, ctypes.POINTER(c_double)),
    "xCurrentTimeInt64": CFUNCTYPE(_I, _P, ctypes.POINTER(c_int64)),
}
"""The calls of the file layer that we answer, and their C types."""
FILE_CALLS: Final[dict[str, Any]] = {
    "xClose": CFUNCTYPE(_I, _P),
    "xRead": CFUNCTYPE(_I, _P, _P, _I, _L),
    "xWrite": CFUNCTYPE(_I, _P, _P, _I, _L),
    "xTruncate": CFUNCTYPE(_I, _P, _L),
    "xSync": CFUNCTYPE(_I, _P, _I),
    "xFileSize": CFUNCTYPE(_I, _P, _P),
    "xLock": CFUNCTYPE(_I, _P, _I),
    "xUnlock": CFUNCTYPE(_I, _P, _I),
    "xCheckReservedLock": CFUNCTYPE(_I, _P, _P),
    "xFileControl": CFUNCTYPE(_I, _P, _I, _P),
    "xSectorSize": CFUNCTYPE(_I, _P),
    "xDeviceCharacteristics": CFUNCTYPE(_I, _P),
    "xShmMap": CFUNCTYPE(_I, _P, _I, _I, _I, _P),
    "xShmLock": CFUNCTYPE(_I, _P, _I, _I, _I),
    "xShmBarrier": CFUNCTYPE(None, _P),
    "xShmUnmap": CFUNCTYPE(_I, _P, _I),
}


def address_of(function: Any) -> int | None:
    """Where a ctypes function begins."""
    return ctypes.cast(function, c_void_p).value
