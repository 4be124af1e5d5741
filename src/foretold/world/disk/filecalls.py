"""The calls that take a descriptor, and those that give one: what `os.open`, `os.read`, `os.fsync`,
`fcntl.flock` … do inside a run."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.file_patches import RealPath
from foretold.world.disk.errors import failure
from foretold.world.disk.filesystem import WRITES
from foretold.world.disk.nodes import Device, Directory, File
from foretold.world.disk.openfile import OpenFile
from foretold.world.disk.process import Elsewhere, Process, real_path, text
from foretold.world.net.descriptors import FIRST

_CHANGES: Final = WRITES | os.O_CREAT | os.O_APPEND
_KEPT_FLAGS: Final = os.O_APPEND | os.O_NONBLOCK
MAX_COUNT: Final = 0x7FFFF000
"""Linux reads and writes no more than this at once."""


class FileCalls(Process):
    """By descriptor."""

    def open(
        self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int | RealPath:
        if os.fspath(path) == os.devnull:
            return RealPath(os.devnull)
        name = text(path)
        try:
            opened = self.fs.open(name, flags, mode & ~self.umask_bits, self.base(dir_fd))
        except FileNotFoundError as error:
            if flags & _CHANGES:
                raise
            return self.missing("open", path, dir_fd, error)
        self.passes("open")
        if isinstance(opened, OpenFile):
            return self.give(opened)
        found = real_path(opened)
        assert found is not None, "what is no open file is a real one"
        return found

    def close(self, fd: int) -> None:
        opened = self.opened(fd)
        del self.files[fd]
        self.descriptors.take_back(fd)
        self.release(opened)

    def release(self, opened: OpenFile) -> None:
        """One descriptor less."""
        opened.refs -= 1
        if not opened.refs:
            opened.close()

    def dup(self, fd: int) -> int:
        return self.give(self.opened(fd))

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        opened = self.opened(fd)
        if fd == fd2:
            return fd
        former = self.opened(fd2)  # a number that is not ours leads elsewhere: EBADF
        opened.refs += 1
        self.files[fd2] = opened
        self.release(former)
        return fd2

    # --- bytes -----------------------------------------------------------------------------------

    def read(self, fd: int, length: int) -> bytes:
        data = self.opened(fd).read(min(length, MAX_COUNT))
        self.passes("read", len(data))
        return data

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = self.opened(fd).pread(length, offset)
        self.passes("read", len(data))
        return data

    def readv(self, fd: int, buffers: Sequence[Any]) -> int:
        return _scatter(self.read(fd, sum(map(_size, buffers))), buffers)

    def preadv(self, fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
        return _scatter(self.pread(fd, sum(map(_size, buffers)), offset), buffers)

    def write(self, fd: int, data: Any) -> int:
        n = self.opened(fd).write(_bytes(data))
        self.passes("write", n)
        return n

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        n = self.opened(fd).pwrite(_bytes(data), offset)
        self.passes("write", n)
        return n

    def writev(self, fd: int, buffers: Sequence[Any]) -> int:
        return self.write(fd, b"".join(map(_bytes, buffers)))

    def pwritev(self, fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
        return self.pwrite(fd, b"".join(map(_bytes, buffers)), offset)

    def lseek(self, fd: int, position: int, whence: int) -> int:
        return self.opened(fd).seek(position, whence)

    def ftruncate(self, fd: int, length: int) -> None:
        self.opened(fd).truncate(length)
        self.passes("truncate")

    def sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int, *_: Any,
                 **__: Any) -> int:  # fmt: skip
        out = self.opened(out_fd) if out_fd >= FIRST else None
        if out is None:
            raise Elsewhere
        data = self._take(in_fd, offset, count)
        n = out.write(data) if data else 0
        if offset is None and n < len(data):
            self._seek_back(in_fd, n - len(data))
        self.passes("write", n)
        return n

    def copy_file_range(
        self,
        src: int,
        dst: int,
        count: int,
        offset_src: int | None = None,
        offset_dst: int | None = None,
    ) -> int:
        out = self.opened(dst)
        data = self._take(src, offset_src, count)
        if not data:
            return 0
        n = out.write(data) if offset_dst is None else out.pwrite(data, offset_dst)
        self.passes("write", n)
        return n

    def _take(self, fd: int, offset: int | None, count: int) -> bytes:
        """Read from a descriptor, which may be a real one."""
        if fd < FIRST:
            with fence.passage():
                return os.read(fd, count) if offset is None else os.pread(fd, count, offset)
        source = self.opened(fd)
        return source.read(count) if offset is None else source.pread(count, offset)

    def _seek_back(self, fd: int, by: int) -> None:
        if fd < FIRST:
            with fence.passage():
                os.lseek(fd, by, os.SEEK_CUR)
        else:
            self.opened(fd).seek(by, os.SEEK_CUR)

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        node = self.opened(fd).node
        if not isinstance(node, File):
            raise failure(errno.ENODEV)
        if not node.content.allocate(offset, length):
            raise failure(errno.ENOSPC)

    def posix_fadvise(self, fd: int, offset: int, length: int, advice: int) -> None:
        self.opened(fd)

    # --- durability ------------------------------------------------------------------------------

    def fsync(self, fd: Any) -> None:
        opened = self.opened(fd if isinstance(fd, int) else fd.fileno())
        self.passes("fsync")
        opened.sync()

    fdatasync = fsync

    def sync(self) -> None:
        self.passes("fsync")
        self.fs.sync_all()

    # --- what a descriptor is like ---------------------------------------------------------------

    def fstat(self, fd: int) -> os.stat_result:
        return self.opened(fd).node.stat()

    def isatty(self, fd: int) -> bool:
        self.opened(fd)
        return False

    def get_inheritable(self, fd: int) -> bool:
        self.opened(fd)
        return False

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        self.opened(fd)

    def get_blocking(self, fd: int) -> bool:
        return not self.opened(fd).flags & os.O_NONBLOCK

    def set_blocking(self, fd: int, blocking: bool) -> None:
        opened = self.opened(fd)
        opened.flags = opened.flags & ~os.O_NONBLOCK | (0 if blocking else os.O_NONBLOCK)

    # --- locks -----------------------------------------------------------------------------------

    def fcntl_flock(self, fd: Any, operation: int) -> None:
        opened = self.opened(fd if isinstance(fd, int) else fd.fileno())
        kind = operation & ~fcntl.LOCK_NB
        if kind == fcntl.LOCK_UN:
            opened.unlock()
            return
        if kind not in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            raise failure(errno.EINVAL)
        while not opened.can_lock(kind):  # who was woken with others may be too late
            if operation & fcntl.LOCK_NB:
                raise failure(errno.EWOULDBLOCK)
            self.host.block_until(lambda: opened.can_lock(kind), None)
        opened.take_lock(kind)

    def fcntl_lockf(self, fd: Any, cmd: int, *_: int) -> None:
        """Record locks belong to the process, and a host is one process: they are always granted,
        if the file is open in the right way."""
        opened = self.opened(fd if isinstance(fd, int) else fd.fileno())
        kind = cmd & ~fcntl.LOCK_NB
        if kind == fcntl.LOCK_EX and not opened.writable_by_flags:
            raise failure(errno.EBADF)
        if kind == fcntl.LOCK_SH and not opened.readable_by_flags:
            raise failure(errno.EBADF)

    def lockf(self, fd: int, command: int, length: int) -> None:
        self.opened(fd)

    def fcntl_fcntl(self, fd: Any, cmd: int, arg: Any = 0) -> Any:
        opened = self.opened(fd if isinstance(fd, int) else fd.fileno())
        if cmd == fcntl.F_GETFL:
            return opened.flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_CLOEXEC)
        if cmd == fcntl.F_SETFL:
            opened.flags = opened.flags & ~_KEPT_FLAGS | arg & _KEPT_FLAGS
        elif cmd == fcntl.F_GETFD:
            return fcntl.FD_CLOEXEC
        elif cmd in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
            return self.give(opened)
        elif cmd in (fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_GETLK):
            return arg
        elif cmd != fcntl.F_SETFD:
            raise failure(errno.EINVAL)
        return 0

    def is_directory(self, fd: int) -> bool:
        return isinstance(self.opened(fd).node, Directory)

    def is_seekable(self, fd: int) -> bool:
        return not isinstance(self.opened(fd).node, Device)


def _bytes(data: Any) -> bytes:
    return data if type(data) is bytes else memoryview(data).cast("B").tobytes()


def _size(buffer: Any) -> int:
    return memoryview(buffer).nbytes


def _scatter(data: bytes, buffers: Sequence[Any]) -> int:
    at = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        part = data[at : at + len(view)]
        view[: len(part)] = part
        at += len(part)
    return at
