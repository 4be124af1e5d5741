"""What SQLite does with files, on the simulated disk: the work of its own layer for Unix.

It does what `os_unix.c` of SQLite does, call for call: a journal's name is synced with its first
sync, a short write is written on, a temporary file has no name. Locks hold between the connections
of one process (a host is one), and are gone with it; that is what lets SQLite see, after a crash,
that a journal is hot. The memory that connections share in WAL mode is real memory, beside a file
`…-shm` that is there to be seen.

Faults: those of the disk (`world/disk/trouble.py`, `world/disk/crash.py`), which reach SQLite as
they would reach it in production. None of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from foretold.kernel.file_patches import RealPath
from foretold.kernel.sqlite.abi import ACCESS_EXISTS, SHM_LOCKS, Lock, Open
from foretold.kernel.sqlite.turns import REAL_INSTEAD, REAL_WHY
from foretold.world.disk.nodes import Directory, File
from foretold.world.disk.process import FSYNC_STEPS
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.disk.calls import Calls

_JOURNALS: Final = Open.MAIN_JOURNAL | Open.SUPER_JOURNAL | Open.WAL
_TEMPORARY: Final = ("/var/tmp", "/tmp")
_MODE: Final = 0o644


class Shared:
    """What the connections of one process to one database have in common: locks, and memory."""

    def __init__(self) -> None:
        self.files: set[DatabaseFile] = set()
        """Who has it open."""
        self.regions: list[ctypes.Array[ctypes.c_char]] = []
        self.readers = [0] * SHM_LOCKS
        self.writer: list[DatabaseFile | None] = [None] * SHM_LOCKS
        self.mappers: set[DatabaseFile] = set()

    def is_locked(self, by_others_than: DatabaseFile, level: Lock) -> bool:
        """Whether another connection has locked it at least so far."""
        return any(each.level >= level for each in self.files if each is not by_others_than)


class Databases:
    """The files that SQLite asks for in one process."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._shared: dict[int, Shared] = {}

    @property
    def dead(self) -> bool:
        """The process is gone; what is left of it changes nothing."""
        return self.calls.dead

    def shared(self, number: int) -> Shared:
        """What the connections to the file of this number share."""
        return self._shared.setdefault(number, Shared())

    def forget(self, number: int) -> None:
        """Nobody has it open any more."""
        self._shared.pop(number, None)

    # --- what SQLite asks ------------------------------------------------------------------------

    def open(self, path: str | None, flags: int) -> DatabaseFile:
        """`xOpen`."""
        self.check_alive()
        if path is None:
            return DatabaseFile(self, None, self._open_unnamed(), flags)
        created = bool(flags & _JOURNALS) and bool(flags & Open.CREATE) and not self._is_there(path)
        return DatabaseFile(self, path, self._open_named(path, flags), flags, created=created)

    def delete(self, path: str, *, sync_directory: bool) -> None:
        """`xDelete`."""
        self.check_alive()
        self.calls.host.give_way()
        self.calls.unlink(path)
        if sync_directory:
            self.sync_directory_of(path)

    def access(self, path: str, what: int) -> bool:
        """`xAccess`. An empty file counts as none: an empty journal is no journal."""
        self.check_alive()
        try:
            node = self.calls.node_at(path, None)
        except OSError:
            self._check_journal(path)
            return False
        return what != ACCESS_EXISTS or not stat.S_ISREG(node.mode) or node.stat().st_size > 0

    def full_path(self, path: str) -> str:
        """`xFullPathname`."""
        self.check_alive()
        try:
            found = self.calls.fs.find(path, self.calls.cwd)
        except OSError:
            return self.calls.absolute(path)
        if isinstance(found.node, Directory):
            return found.node.path
        return os.path.join(found.parent.path, found.name)

    def failed(self, error: BaseException) -> None:
        """What cannot be raised through SQLite's C code fails the run."""
        if not self.dead:
            self.calls.host.world.fail(error)

    # --- inside ----------------------------------------------------------------------------------

    def check_alive(self) -> None:
        """What a dead process still tries fails."""
        if self.dead or self.calls.host.world.sealed:
            raise os_error(errno.EIO)

    def sync_directory_of(self, path: str) -> None:
        """Make the file's name durable."""
        fd = self.calls.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        assert isinstance(fd, int), "a directory is never given as a real one"
        try:
            self.calls.host.give_way(FSYNC_STEPS)
            self.calls.fsync(fd)
        finally:
            self.calls.close(fd)

    def _check_journal(self, path: str) -> None:
        """SQLite looks for a journal, and its database is neither here nor open: it is a real one,
        of a connection from before the run."""
        base, dash, kind = path.rpartition("-")
        if not dash or kind not in ("journal", "wal") or self._is_there(base):
            return
        if not any(each.path == base for shared in self._shared.values() for each in shared.files):
            call = f"a connection to {base!r} that was opened before the run"
            self.calls.host.escaped(call, REAL_WHY, REAL_INSTEAD)

    def _is_there(self, path: str) -> bool:
        try:
            self.calls.node_at(path, None)
        except OSError:
            return False
        return True

    def _open_named(self, path: str, flags: int) -> int:
        how = os.O_RDWR if flags & Open.READWRITE else os.O_RDONLY
        how |= os.O_CREAT if flags & Open.CREATE else 0
        how |= os.O_EXCL | os.O_NOFOLLOW if flags & Open.EXCLUSIVE else 0
        opened = self.calls.open(path, how | os.O_CLOEXEC, self._mode_for(path, flags))
        if isinstance(opened, RealPath):  # one of the program's own files, only to be read
            self.calls.own_node_at(path)
            opened = self.calls.open(path, how)
        if isinstance(opened, RealPath):
            raise os_error(errno.EACCES)
        return opened

    def _mode_for(self, path: str, flags: int) -> int:
        """A journal may be read by whoever may read its database."""
        base, dash, _ = path.rpartition("-")
        if not flags & (Open.MAIN_JOURNAL | Open.WAL) or not dash or not self._is_there(base):
            return _MODE
        return stat.S_IMODE(self.calls.node_at(base, None).mode)

    def _open_unnamed(self) -> int:
        for directory in _TEMPORARY:
            if self._is_there(directory):
                opened = self.calls.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
                assert isinstance(opened, int), "no real file was named"
                return opened
        raise os_error(errno.ENOENT)


class DatabaseFile:
    """A file that SQLite has open: a database, a journal, a temporary file."""

    def __init__(
        self, databases: Databases, path: str | None, fd: int, flags: int, *, created: bool = False
    ) -> None:
        self.databases = databases
        self.path = path
        self.fd = fd
        self.level = Lock.NONE
        self.persist_wal = False
        self.powersafe = True
        self._calls = databases.calls
        self._sync_name = created
        """The directory is to be synced as well, once."""
        node = self._calls.opened(fd).node
        self._number = node.number
        self._shared = Shared()
        if flags & Open.MAIN_DB and isinstance(node, File):
            self._shared = databases.shared(node.number)
            self._shared.files.add(self)
        self._shm_exclusive = [False] * SHM_LOCKS
        self._shm_reads = [False] * SHM_LOCKS

    def _alive(self) -> Calls:
        if self._calls.dead:
            raise os_error(errno.EIO)
        return self._calls

    def _before_change(self, steps: int = 0) -> Calls:
        """A crash may come before each change of the disk. SQLite waits for a sync, and lets go of
        Python's lock meanwhile; writes and truncations only fill the kernel's cache."""
        self._alive().host.give_way(steps)
        return self._alive()

    def close(self) -> None:
        """`xClose`."""
        self.unlock(Lock.NONE)
        self.shm_unmap(delete=False)
        self._shared.files.discard(self)
        if not self._shared.files:
            self.databases.forget(self._number)
        if not self._calls.dead:
            self._calls.close(self.fd)

    # --- bytes -----------------------------------------------------------------------------------

    def read(self, n: int, offset: int) -> bytes:
        """`xRead`."""
        return self._alive().pread(self.fd, n, offset)

    def write(self, data: bytes, offset: int) -> None:
        """`xWrite`. What a short write leaves is written on, until nothing more goes."""
        calls = self._before_change()
        done = 0
        while done < len(data):
            done += calls.pwrite(self.fd, data[done:] if done else data, offset + done)

    def truncate(self, size: int) -> None:
        """`xTruncate`."""
        self._before_change().ftruncate(self.fd, size)

    def sync(self) -> None:
        """`xSync`; the first of a new journal makes its name durable as well."""
        self._before_change(FSYNC_STEPS).fsync(self.fd)
        if self._sync_name and self.path is not None:
            self._sync_name = False
            try:
                self.databases.sync_directory_of(self.path)
            except OSError:
                return  # SQLite does not look at it either

    def size(self) -> int:
        """`xFileSize`."""
        return self._alive().opened(self.fd).node.size

    def has_moved(self) -> bool:
        """Whether its path leads elsewhere by now: SQLite does not write to such a database."""
        if self.path is None or self._calls.dead:
            return False
        try:
            return self._calls.node_at(self.path, None).number != self._number
        except OSError:
            return True

    # --- locks -----------------------------------------------------------------------------------

    def lock(self, level: int) -> bool:
        """`xLock`: False if another connection is in the way."""
        self._alive()
        shared = self._shared
        if level <= self.level:
            return True
        if level == Lock.SHARED:
            if shared.is_locked(self, Lock.PENDING):
                return False
        elif level == Lock.RESERVED:
            if shared.is_locked(self, Lock.RESERVED):
                return False
        else:
            if shared.is_locked(self, Lock.PENDING):
                return False
            self.level = Lock.PENDING  # no new readers from here on
            if shared.is_locked(self, Lock.SHARED):
                return False
        self.level = Lock(level)
        return True

    def unlock(self, level: int) -> None:
        """`xUnlock`."""
        if level < self.level:
            self.level = Lock(level)

    def is_reserved(self) -> bool:
        """`xCheckReservedLock`."""
        return self._shared.is_locked(self, Lock.RESERVED) or self.level >= Lock.RESERVED

    # --- WAL: memory that is shared, and its locks -----------------------------------------------

    def shm_region(self, number: int, size: int, *, extend: bool) -> int | None:
        """`xShmMap`: the address of a region, None if there is none and none is to be made."""
        shared = self._shared
        if self not in shared.mappers:
            self._alive()
            self._show_shm_file()
            shared.mappers.add(self)
        if number >= len(shared.regions):
            if not extend:
                return None
            while number >= len(shared.regions):
                shared.regions.append(ctypes.create_string_buffer(size))
            self._alive().truncate(self._shm_path(), size * len(shared.regions))
        return ctypes.addressof(shared.regions[number])

    def _shm_path(self) -> str:
        return f"{self.path}-shm"

    def _show_shm_file(self) -> None:
        if not self._shared.mappers:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            fd = self._calls.open(self._shm_path(), flags, _MODE)
            assert isinstance(fd, int), "what is written to is not the real one"
            self._calls.close(fd)

    def shm_lock(self, first: int, n: int, *, exclusive: bool) -> bool:
        """`xShmLock`: False if another connection is in the way."""
        self._alive()
        shared, slots = self._shared, range(first, first + n)
        for slot in slots:
            writer, readers = shared.writer[slot], shared.readers[slot] - self._shm_reads[slot]
            if writer not in (None, self) or (exclusive and readers):
                return False
        for slot in slots:
            if exclusive:
                shared.writer[slot] = self
                self._shm_exclusive[slot] = True
            elif not self._shm_reads[slot]:
                shared.readers[slot] += 1
                self._shm_reads[slot] = True
        return True

    def shm_unlock(self, first: int, n: int, *, exclusive: bool) -> None:
        """Give locks back."""
        shared = self._shared
        for slot in range(first, first + n):
            if self._shm_exclusive[slot]:
                self._shm_exclusive[slot] = False
                shared.writer[slot] = None
            if self._shm_reads[slot]:
                self._shm_reads[slot] = False
                shared.readers[slot] -= 1

    def shm_unmap(self, *, delete: bool) -> None:
        """`xShmUnmap`: the last one to go may take the file with it."""
        shared = self._shared
        self.shm_unlock(0, SHM_LOCKS, exclusive=True)
        if self not in shared.mappers:
            return
        shared.mappers.discard(self)
        if not shared.mappers:
            shared.regions = []
            if delete and not self._calls.dead:
                self._calls.unlink(self._shm_path())
