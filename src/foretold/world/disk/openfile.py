"""What a descriptor stands for: an open file, with a position, flags and an advisory lock.

Descriptors that were duplicated share one (`os.dup`); two `open` of one path give two.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
from typing import TYPE_CHECKING, Final

from foretold.world.disk.nodes import Device, Directory, File, Inode
from foretold.world.net import descriptors
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.disk.calls import Calls
    from foretold.world.disk.filesystem import FileSystem

OFFSET_MAX = (1 << 63) - 1
FILE_SIZE_MAX = (1 << 44) - 4_096
"""ext4's, with blocks of 4 KiB."""


MAX_COUNT: Final = 0x7FFFF000
"""Linux reads and writes no more than this at once."""
_KEPT_FLAGS: Final = os.O_APPEND | os.O_NONBLOCK
_NOT_TOLD: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_CLOEXEC


class OpenFile(descriptors.OpenDescriptor):
    """An open file description. A process must have it (`process`) before `os` can use it."""

    process: Calls

    def __init__(self, fs: FileSystem, node: Inode, flags: int, path: str) -> None:
        self.fs = fs
        self.node = node
        self._flags = flags
        self.path = path
        self.offset = 0
        self.fds: list[int] = []
        self.users = 0
        self.held = fcntl.LOCK_UN
        """The advisory lock."""
        if isinstance(node, File):
            node.opens += 1

    @property
    def readable_by_flags(self) -> bool:
        return self._flags & os.O_ACCMODE != os.O_WRONLY

    @property
    def writable_by_flags(self) -> bool:
        return self._flags & os.O_ACCMODE != os.O_RDONLY

    def readable(self) -> bool:
        """To a selector a file is always ready."""
        return True

    writable = readable

    def events(self) -> int:
        """What `poll` reports of a file."""
        return select.POLLIN | select.POLLOUT

    @property
    def flags(self) -> int:
        return self._flags & ~_NOT_TOLD

    def set_flags(self, flags: int) -> None:
        self._flags = self._flags & ~_KEPT_FLAGS | flags & _KEPT_FLAGS

    def stir(self) -> None:
        """To those who watch it, it is always ready."""

    def released(self) -> None:
        self.close()

    def close(self) -> None:
        """The last descriptor is gone."""
        self.unlock()
        if isinstance(self.node, File):
            self.node.opens -= 1
            self.node.forget_if_unused()

    # --- what a process does with it: it takes time, and stands in the trace ---------------------

    def take(self, size: int) -> bytes:
        self.process.settle_maps()
        data = self.read(min(size, MAX_COUNT))
        self.process.passes("read", len(data))
        return data

    def take_at(self, size: int, offset: int) -> bytes:
        self.process.settle_maps()
        data = self.pread(size, offset)
        self.process.passes("read", len(data))
        return data

    def put(self, data: bytes) -> int:
        self.process.settle_maps()
        n = self.write(data)
        self.process.passes("write", n)
        return n

    def put_at(self, data: bytes, offset: int) -> int:
        self.process.settle_maps()
        n = self.pwrite(data, offset)
        self.process.passes("write", n)
        return n

    def cut(self, size: int) -> None:
        self.process.settle_maps()
        self.truncate(size)
        self.process.passes("truncate")

    def flush(self) -> None:
        self.process.settle_maps()
        self.process.passes("fsync")
        self.sync()

    def stat(self, fd: int) -> os.stat_result:
        self.process.settle_maps()
        return self.node.stat()

    def lock(self, operation: int) -> None:
        kind = operation & ~fcntl.LOCK_NB
        if kind == fcntl.LOCK_UN:
            self.unlock()
            return
        if kind not in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            raise os_error(errno.EINVAL)
        while not self.can_lock(kind):  # who was woken with others may be too late
            if operation & fcntl.LOCK_NB:
                raise os_error(errno.EWOULDBLOCK)
            self.process.host.block_until(lambda: self.can_lock(kind), None)
        self.take_lock(kind)

    # --- bytes -----------------------------------------------------------------------------------

    def read(self, n: int) -> bytes:
        data = self.pread(n, self.offset)
        self.offset += len(data)
        return data

    def pread(self, n: int, offset: int) -> bytes:
        if not self.readable_by_flags:
            raise os_error(errno.EBADF)
        if n < 0 or offset < 0:
            raise os_error(errno.EINVAL)
        node = self.node
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR)
        if isinstance(node, Device):
            return node.read(n)
        file = self._file()
        self.fs.before("read", file)
        data = file.content.read(offset, n)
        if file.atime_ns <= file.mtime_ns:  # relatime, as Linux mounts by default
            file.atime_ns = max(self.fs.now_ns(), file.atime_ns)
        return data

    def write(self, data: bytes | memoryview) -> int:
        if self._flags & os.O_APPEND and isinstance(self.node, File):
            self.offset = self.node.content.size
        n = self.pwrite(data, self.offset)
        self.offset += n
        return n

    def pwrite(self, data: bytes | memoryview, offset: int) -> int:
        if not self.writable_by_flags:
            raise os_error(errno.EBADF)
        if offset < 0:
            raise os_error(errno.EINVAL)
        if isinstance(self.node, Device):
            return self.node.write(len(data))
        file = self._file()
        if self._flags & os.O_APPEND:
            offset = file.content.size  # Linux appends whatever the offset says
        if offset + len(data) > FILE_SIZE_MAX:
            raise os_error(errno.EFBIG)
        if not len(data):
            return 0
        file, offset, data = self.fs.before_write(file, offset, data)
        n = file.content.write(offset, data)
        if not n:
            raise os_error(errno.ENOSPC)
        self._changed()
        if self._flags & (os.O_SYNC | os.O_DSYNC):
            self.sync()
        return n

    def seek(self, offset: int, whence: int) -> int:
        node = self.node
        size = node.size if isinstance(node, File) else 0
        if whence in (os.SEEK_DATA, os.SEEK_HOLE) and isinstance(node, File):
            hole = whence == os.SEEK_HOLE
            found = node.content.next_data(offset, hole=hole) if offset >= 0 else None
            if found is None:
                raise os_error(errno.ENXIO)
            position = found
        elif whence in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            base = {os.SEEK_SET: 0, os.SEEK_CUR: self.offset, os.SEEK_END: size}[whence]
            position = base + offset
        else:
            raise os_error(errno.EINVAL)
        if not 0 <= position <= OFFSET_MAX:
            raise os_error(errno.EINVAL)
        self.offset = position
        return position

    def truncate(self, size: int) -> None:
        if not self.writable_by_flags or not isinstance(self.node, File):
            raise os_error(errno.EINVAL)
        self.fs.truncate_node(self.node, size)

    def sync(self) -> None:
        """`fsync`: of a file its content, of a directory its names. Nothing else."""
        self.fs.sync_node(self.node)

    def _file(self) -> File:
        if not isinstance(self.node, File):
            raise os_error(errno.EISDIR if isinstance(self.node, Directory) else errno.EINVAL)
        return self.node

    def _changed(self) -> None:
        self.node.mtime_ns = self.node.ctime_ns = self.fs.now_ns()

    # --- advisory locks --------------------------------------------------------------------------

    def can_lock(self, kind: int) -> bool:
        """Whether a lock of that kind (LOCK_SH, LOCK_EX) would be granted now."""
        if not isinstance(self.node, File):
            return True
        others = [each for each in self.node.locked_by if each is not self]
        if kind == fcntl.LOCK_EX:
            return not others
        return all(each.held == fcntl.LOCK_SH for each in others)

    def take_lock(self, kind: int) -> None:
        """Take it, in the place of the one that is held."""
        self.unlock()
        self.held = kind
        if isinstance(self.node, File):
            self.node.locked_by.append(self)

    def unlock(self) -> None:
        if self.held != fcntl.LOCK_UN:
            self.held = fcntl.LOCK_UN
            if isinstance(self.node, File):
                self.node.locked_by.remove(self)
