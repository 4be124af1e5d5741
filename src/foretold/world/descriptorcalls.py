"""The calls about descriptors: what `os.read`, `os.dup`, `fcntl.fcntl` … do inside a run.

There is one table of descriptors for each process (net/descriptors.py). Each call finds the open
file there and asks it; files on the disk, pipes and sockets answer in their own ways. Descriptors
of the real machine do not come here, except as the other one of two.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import fence
from foretold.world.disk.nodes import Directory, File
from foretold.world.disk.openfile import OpenFile as DiskFile
from foretold.world.net.chunks import spread
from foretold.world.net.connections import forget_at_end
from foretold.world.net.descriptors import FIRST, Descriptors, OpenDescriptor, refuse_real
from foretold.world.net.pipes import PIPE_BYTES, EventCounter, PipeEnd, ReadEnd, WriteEnd
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

SENDFILE_BYTES_MAX: Final = 1 << 20
F_GETPIPE_SZ: Final = 1032
"""By its number on Linux: Python 3.11 has no name for it everywhere."""


class DescriptorCalls:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.descriptors: Descriptors = host.descriptors

    def _file(self, fd: Any) -> OpenDescriptor:
        file = self.descriptors.files.get(fd)
        if file is not None:
            return file
        file = self.descriptors.files.get(_number(fd))
        if file is None:
            raise os_error(errno.EBADF)
        return file

    def _on_disk(self, fd: Any) -> DiskFile:
        file = self._file(fd)
        if not isinstance(file, DiskFile):
            raise os_error(errno.EINVAL)
        file.process.settle_maps()
        return file

    # --- bytes -----------------------------------------------------------------------------------

    def read(self, fd: int, length: int) -> bytes:
        file = self.descriptors.files.get(fd) or self._file(fd)
        return file.take(length)

    def readv(self, fd: int, buffers: Sequence[Any]) -> int:
        return _scatter(self._file(fd).take(sum(map(_size, buffers))), buffers)

    def readinto(self, fd: int, buffer: Any) -> int:
        with memoryview(buffer) as view, view.cast("B") as place:
            if place.readonly:
                raise TypeError("readinto() argument 2 must be read-write bytes-like object")
            data = self._file(fd).take(len(place))
            place[: len(data)] = data
        return len(data)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._file(fd).take_at(length, offset)

    def preadv(self, fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
        return _scatter(self._file(fd).take_at(sum(map(_size, buffers)), offset), buffers)

    def write(self, fd: int, data: Any) -> int:
        file = self.descriptors.files.get(fd) or self._file(fd)
        return file.put(data if type(data) is bytes else _bytes(data))

    def writev(self, fd: int, buffers: Sequence[Any]) -> int:
        return self._file(fd).put(b"".join(map(_bytes, buffers)))

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        return self._file(fd).put_at(_bytes(data), offset)

    def pwritev(self, fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
        return self._file(fd).put_at(b"".join(map(_bytes, buffers)), offset)

    def lseek(self, fd: int, position: int, whence: int) -> int:
        file = self._file(fd)
        if isinstance(file, DiskFile):
            file.process.settle_maps()
        return file.seek(position, whence)

    def ftruncate(self, fd: int, length: int) -> None:
        self._file(fd).cut(length)

    def fsync(self, fd: Any) -> None:
        self._file(fd).flush()

    fdatasync = fsync

    # --- from one to another ---------------------------------------------------------------------

    def sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int, *_: Any,
                 **__: Any) -> int:  # fmt: skip
        return self._send(in_fd, out_fd, min(count, SENDFILE_BYTES_MAX), offset, None)

    def copy_file_range(
        self,
        src: int,
        dst: int,
        count: int,
        offset_src: int | None = None,
        offset_dst: int | None = None,
    ) -> int:
        return self._send(src, dst, count, offset_src, offset_dst)

    def splice(
        self,
        src: int,
        dst: int,
        count: int,
        offset_src: int | None = None,
        offset_dst: int | None = None,
        flags: int = 0,
    ) -> int:
        ends = (self.descriptors.files.get(src), self.descriptors.files.get(dst))
        if not any(isinstance(end, PipeEnd) for end in ends):
            raise os_error(errno.EINVAL)
        return self._send(src, dst, min(count, PIPE_BYTES), offset_src, offset_dst)

    def _send(self, src: int, dst: int, count: int, at: int | None, to: int | None) -> int:
        if dst < FIRST:
            refuse_real(self.host, f"os.sendfile({dst}, …)")
        out = self._file(dst)
        data = self._take(src, at, count)
        if not data:
            return 0
        n = out.put(data) if to is None else out.put_at(data, to)
        if at is None and n < len(data):
            self._seek_back(src, n - len(data))
        return n

    def _take(self, fd: int, offset: int | None, count: int) -> bytes:
        """Read from a descriptor, which may be one of the program's own files, on the real disk."""
        if fd < FIRST:
            with fence.passage():
                return os.read(fd, count) if offset is None else os.pread(fd, count, offset)
        source = self._file(fd)
        if not isinstance(source, DiskFile):
            return source.take(count)
        return source.read(count) if offset is None else source.pread(count, offset)

    def _seek_back(self, fd: int, by: int) -> None:
        if fd < FIRST:
            with fence.passage():
                os.lseek(fd, by, os.SEEK_CUR)
        else:
            self._file(fd).seek(by, os.SEEK_CUR)

    # --- numbers ---------------------------------------------------------------------------------

    def close(self, fd: int) -> None:
        self._file(fd)
        self.descriptors.take_back(fd)

    def closerange(self, low: int, high: int) -> None:
        """It closes those of the host; real ones below are not the host's."""
        for fd in [fd for fd in self.descriptors.files if low <= fd < high]:
            self.descriptors.take_back(fd)

    def dup(self, fd: int) -> int:
        return self.descriptors.give(self._file(fd))

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        if fd2 < FIRST:
            refuse_real(self.host, f"os.dup2(…, {fd2})")
        file = self._file(fd)
        if fd2 != fd:
            self.descriptors.put(fd2, file)
            self.descriptors.set_inheritable(fd2, inheritable)
        return fd2

    def pipe(self, flags: int = 0) -> tuple[int, int]:
        content = bytearray()
        one, other = ReadEnd(self.host, content), WriteEnd(self.host, content)
        one.other, other.other = other, one
        one.nonblocking = other.nonblocking = bool(flags & os.O_NONBLOCK)
        forget_at_end(self.host.world)
        return self.descriptors.give(one), self.descriptors.give(other)

    pipe2 = pipe

    def eventfd(self, initval: int, flags: int = os.EFD_CLOEXEC) -> int:
        return self.descriptors.give(EventCounter(self.host, initval, flags))

    def eventfd_read(self, fd: int) -> int:
        return int.from_bytes(self._file(fd).take(8), "little")

    def eventfd_write(self, fd: int, value: int) -> None:
        self._file(fd).put(value.to_bytes(8, "little"))

    def memfd_create(self, name: Any, flags: int = os.MFD_CLOEXEC) -> int:
        """A file without a name, on the host's disk; as in Linux, `name` is for nobody."""
        return self.host.disk.process.give_unnamed(f"/memfd:{os.fsdecode(name)} (deleted)")

    # --- what a descriptor is like ---------------------------------------------------------------

    def fstat(self, fd: int) -> os.stat_result:
        return self._file(fd).stat(fd)

    def isatty(self, fd: int) -> bool:
        self._file(fd)
        return False

    def get_inheritable(self, fd: int) -> bool:
        self._file(fd)
        return fd in self.descriptors.inheritable

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        self._file(fd)
        self.descriptors.set_inheritable(fd, inheritable)

    def get_blocking(self, fd: int) -> bool:
        return not self._file(fd).flags & os.O_NONBLOCK

    def set_blocking(self, fd: int, blocking: bool) -> None:
        file = self._file(fd)
        kept = file.flags & ~os.O_NONBLOCK
        file.set_flags(kept if blocking else kept | os.O_NONBLOCK)

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        node = self._on_disk(fd).node
        if not isinstance(node, File):
            raise os_error(errno.ENODEV)
        if not node.content.allocate(offset, length):
            raise os_error(errno.ENOSPC)

    def posix_fadvise(self, fd: int, offset: int, length: int, advice: int) -> None:
        self._on_disk(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        file = self._on_disk(fd)
        file.fs.chmod(file.node, mode)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        self._on_disk(fd).process.chown(fd, uid, gid)

    def fchdir(self, fd: int) -> None:
        file = self._file(fd)
        if not isinstance(file, DiskFile) or not isinstance(file.node, Directory):
            raise os_error(errno.ENOTDIR)
        file.process.chdir(fd)

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        return self._on_disk(fd).process.statvfs(fd)

    def fpathconf(self, fd: int, name: Any) -> int:
        return self._on_disk(fd).process.pathconf(fd, name)

    # --- locks and the rest ----------------------------------------------------------------------

    def flock(self, fd: Any, operation: int) -> None:
        if isinstance(file := self._file(fd), DiskFile):
            file.process.settle_maps()
        file.lock(operation)

    def fcntl_lockf(self, fd: Any, cmd: int, *_: int) -> None:
        """Record locks belong to the process, and a host is one process: they are always granted,
        if the file is open in the right way."""
        opened = self._on_disk(fd)
        kind = cmd & ~fcntl.LOCK_NB
        if kind == fcntl.LOCK_EX and not opened.writable_by_flags:
            raise os_error(errno.EBADF)
        if kind == fcntl.LOCK_SH and not opened.readable_by_flags:
            raise os_error(errno.EBADF)

    def lockf(self, fd: int, command: int, length: int) -> None:
        self._on_disk(fd)

    def fcntl(self, fd: Any, cmd: int, arg: Any = 0) -> Any:
        file, number = self._file(fd), _number(fd)
        if cmd == fcntl.F_GETFL:
            return file.flags
        if cmd == fcntl.F_SETFL:
            file.set_flags(arg)
        elif cmd == fcntl.F_GETFD:
            return 0 if number in self.descriptors.inheritable else fcntl.FD_CLOEXEC
        elif cmd == fcntl.F_SETFD:
            self.descriptors.set_inheritable(number, not arg & fcntl.FD_CLOEXEC)
        elif cmd in (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC):
            return self._duplicate(file, cmd, arg)
        elif cmd in (fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_GETLK) and isinstance(file, DiskFile):
            return arg
        elif cmd == F_GETPIPE_SZ:
            if not isinstance(file, PipeEnd):
                raise os_error(errno.EBADF)
            return PIPE_BYTES
        else:
            raise os_error(errno.EINVAL)
        return 0

    def _duplicate(self, file: OpenDescriptor, cmd: int, least: int) -> int:
        if least < 0:
            raise os_error(errno.EINVAL)
        fd = self.descriptors.give_from(least, file)
        self.descriptors.set_inheritable(fd, cmd == fcntl.F_DUPFD)
        return fd

    def ioctl(self, fd: Any, request: int, arg: Any = 0, mutate_flag: bool = True) -> Any:
        """No descriptor is a terminal or a device; a pipe says how many bytes are in it."""
        if _number(fd) >= FIRST and request == termios.FIONREAD:
            waiting = struct.pack("i", self._file(fd).waiting())
            if isinstance(arg, bytes):
                return waiting + arg[len(waiting) :]
            with memoryview(arg) as view, view.cast("B") as place:
                place[: len(waiting)] = waiting
            return 0
        if _number(fd) >= FIRST:
            self._file(fd)
        raise os_error(errno.ENOTTY)

    # --- terminals -------------------------------------------------------------------------------

    def no_terminal(self, fd: Any = 0, *args: Any) -> Any:
        """What is asked of a terminal."""
        raise os_error(errno.ENOTTY)

    def no_terminal_mode(self, fd: Any, *args: Any) -> Any:
        """The same, as `termios` says it."""
        _number(fd)
        raise termios.error(errno.ENOTTY, os.strerror(errno.ENOTTY))


def _number(fd: Any) -> int:
    """Of what was given, which may be an object that has one."""
    if isinstance(fd, int):
        return fd
    fileno = getattr(fd, "fileno", None)
    if fileno is None:
        raise TypeError(
            f"argument must be an int, or have a fileno() method, not {type(fd).__name__}"
        )
    return int(fileno())


def _bytes(data: Any) -> bytes:
    return data if type(data) is bytes else memoryview(data).cast("B").tobytes()


def _size(buffer: Any) -> int:
    return memoryview(buffer).nbytes


def _scatter(data: bytes, buffers: Sequence[Any]) -> int:
    spread(data, buffers)
    return len(data)
