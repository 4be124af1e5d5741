"""Pipes, and what `os` does with descriptors of the world: read, write, close, dup.

Each answer returns NotImplemented for a descriptor that is real: then the real call goes on.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from foretold.kernel.computer import computer_of
from foretold.world.net.descriptors import FIRST, OpenFile, refuse_real
from foretold.world.net.tcp import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

R = TypeVar("R")
PIPE_BYTES = 65_536
ATOMIC_BYTES = 4_096
"""PIPE_BUF: so many bytes are written together or not at all."""
SENDFILE_BYTES_MAX = 1 << 20


class PipeEnd(OpenFile):
    """One end of a pipe. Both share the bytes between them."""

    def __init__(self, host: Host, content: bytearray) -> None:
        super().__init__(host)
        self.mode = stat.S_IFIFO | 0o600
        self.content = content
        self.other: PipeEnd | None = None

    def released(self) -> None:
        if self.other is not None:
            self.other.other = None
            self.other.stir()


class ReadEnd(PipeEnd):
    """Where a pipe is read."""

    def events(self) -> int:
        found = select.EPOLLIN if self.content else 0
        return found | (select.EPOLLHUP if self.other is None else 0)

    def readable(self) -> bool:
        return bool(self.content) or self.other is None

    def writable(self) -> bool:
        return self.other is None

    def read(self, size: int) -> bytes:
        if not size:
            return b""
        if not self.content and self.other is not None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = bytes(self.content[:size])
        del self.content[:size]
        if self.other is not None:
            self.other.stir()
        return data

    def write(self, data: bytes) -> int:
        raise os_error(errno.EBADF)


class WriteEnd(PipeEnd):
    """Where a pipe is written."""

    @property
    def room(self) -> int:
        """The kernel counts in pages."""
        return PIPE_BYTES - len(self.content)

    def events(self) -> int:
        if self.other is None:
            return select.EPOLLOUT | select.EPOLLERR
        return select.EPOLLOUT if self.room >= ATOMIC_BYTES else 0

    def readable(self) -> bool:
        return self.other is None

    def writable(self) -> bool:
        return self.other is None or self.room >= ATOMIC_BYTES

    def read(self, size: int) -> bytes:
        raise os_error(errno.EBADF)

    def write(self, data: bytes) -> int:
        if not data:
            return 0
        if self.other is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if self.room < min(len(data), ATOMIC_BYTES):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        taken = data[: self.room]
        self.content += taken
        self.other.stir()
        return len(taken)


class DescriptorFile(io.RawIOBase):
    """What `open(fd)` puts under its buffers."""

    def __init__(self, fd: int, mode: str, closefd: bool) -> None:
        self._fd, self._closefd = fd, closefd
        self._computer = computer_of(get_ident())
        self._reads, self._writes = "r" in mode or "+" in mode, "r" not in mode or "+" in mode
        self.mode, self.name = "rb" if self._reads else "wb", fd

    def fileno(self) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._fd

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return self._writes

    def readinto(self, buffer: Any) -> int | None:
        try:
            data = os.read(self._fd, len(buffer))
        except BlockingIOError:
            return None
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int | None:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return None

    def close(self) -> None:
        if not self.closed:
            super().close()
            # Collected after its run, it may not close what has the same number elsewhere.
            if self._closefd and computer_of(get_ident()) is self._computer:
                os.close(self._fd)


def open_descriptor(
    fd: int,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
) -> Any:
    """`open` for a descriptor of the world."""
    raw = DescriptorFile(fd, mode, closefd)
    if buffering == 0 and "b" in mode:
        return raw
    size = io.DEFAULT_BUFFER_SIZE if buffering < 2 else buffering
    binary: Any = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
    if "b" in mode:
        return binary
    return io.TextIOWrapper(binary, encoding, errors, newline, line_buffering=buffering == 1)


class DescriptorCalls:
    """The calls of `os` about one host's descriptors, which exist."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def _file(self, fd: int) -> OpenFile:
        file = self._host.descriptors.file(fd)
        if file is None:
            raise os_error(errno.EBADF)
        return file

    def pipe(self, flags: int = 0) -> tuple[int, int]:
        content = bytearray()
        one, other = ReadEnd(self._host, content), WriteEnd(self._host, content)
        one.other, other.other = other, one
        one.nonblocking = other.nonblocking = bool(flags & os.O_NONBLOCK)
        return self._host.descriptors.give(one), self._host.descriptors.give(other)

    def _patiently(self, file: OpenFile, ready: Callable[[], bool], attempt: Callable[[], R]) -> R:
        while True:
            try:
                return attempt()
            except BlockingIOError:
                if file.nonblocking:
                    raise
                self._host.block_until(ready, None)

    def read(self, fd: int, size: int) -> bytes:
        file = self._file(fd)
        return self._patiently(file, file.readable, lambda: file.read(size)) if size else b""

    def write(self, fd: int, data: Any) -> int:
        file, left = self._file(fd), bytes(data)
        while True:
            sent = self._patiently(file, file.writable, partial(file.write, left))
            left = left[sent:]
            if not left or file.nonblocking:
                return len(data) - len(left)

    def close(self, fd: int) -> None:
        self._file(fd)
        self._host.descriptors.take_back(fd)

    def dup(self, fd: int) -> int:
        return self._host.descriptors.give(self._file(fd))

    def dup2(self, fd: int, other: int, inheritable: bool = True) -> int:
        if other < FIRST:
            refuse_real(self._host, f"os.dup2(…, {other})")
        if other != fd:
            self._host.descriptors.put(other, self._file(fd))
        return other

    def set_blocking(self, fd: int, blocking: bool) -> None:
        self._file(fd).nonblocking = not blocking

    def get_blocking(self, fd: int) -> bool:
        return not self._file(fd).nonblocking

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        self._file(fd)

    def get_inheritable(self, fd: int) -> bool:
        self._file(fd)
        return False

    isatty = get_inheritable

    def fstat(self, fd: int) -> os.stat_result:
        mode = self._file(fd).mode
        return os.stat_result((mode, fd, 2, 1, os.getuid(), os.getgid(), 0, 0, 0, 0))

    def lseek(self, fd: int, *place: int) -> int:
        self._file(fd)
        raise os_error(errno.ESPIPE)

    def sendfile(self, out_fd: int, in_fd: int, offset: int, count: int) -> int:
        self._file(out_fd)
        data = os.pread(in_fd, min(count, SENDFILE_BYTES_MAX), offset)
        return self.write(out_fd, data) if data else 0


def ours(call: Callable[..., Any]) -> Callable[..., Any]:
    """Only for descriptors of the world."""

    def answer(fd: Any, *args: Any, **names: Any) -> Any:
        if not isinstance(fd, int) or fd < FIRST:
            return NotImplemented
        return call(fd, *args, **names)

    return answer


def pipe_answers(host: Host) -> dict[str, Callable[..., Any]]:
    """What a host answers about descriptors, by call."""
    calls = DescriptorCalls(host)
    names = (
        "read write close dup dup2 set_blocking get_blocking set_inheritable get_inheritable"
        " isatty fstat lseek sendfile"
    )
    return {
        "os.pipe": calls.pipe,
        "os.pipe2": calls.pipe,
        **{f"os.{name}": ours(getattr(calls, name)) for name in names.split()},
        "socket.dup": ours(calls.dup),
        "socket.close": ours(calls.close),
        "io.open": ours(open_descriptor),
    }
