"""Pipes and event counters, and what `open` makes of their descriptors."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from foretold.kernel.computer import computer_of
from foretold.world.net.descriptors import OpenDescriptor
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

PIPE_BYTES = 65_536
ATOMIC_BYTES = 4_096
"""PIPE_BUF: so many bytes are written together or not at all."""
EVENT_BYTES = 8
EVENTS_MAX = 0xFFFF_FFFF_FFFF_FFFE


class PipeEnd(OpenDescriptor):
    """One end of a pipe. Both share the bytes between them."""

    opened_for: int

    def __init__(self, host: Host, content: bytearray) -> None:
        super().__init__(host)
        self.mode = stat.S_IFIFO | 0o600
        self.access = self.opened_for
        self.content = content
        self.other: PipeEnd | None = None

    def released(self) -> None:
        if self.other is not None:
            self.other.other = None
            self.other.stir()


class ReadEnd(PipeEnd):
    opened_for = os.O_RDONLY

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
            raise os_error(errno.EAGAIN)
        data = bytes(self.content[:size])
        del self.content[:size]
        if self.other is not None:
            self.other.stir()
        return data

    def write(self, data: bytes) -> int:
        raise os_error(errno.EBADF)

    def waiting(self) -> int:
        return len(self.content)


class WriteEnd(PipeEnd):
    opened_for = os.O_WRONLY

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
            raise os_error(errno.EPIPE)
        if self.room < min(len(data), ATOMIC_BYTES):
            raise os_error(errno.EAGAIN)
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


class EventCounter(OpenDescriptor):
    """What `os.eventfd` gives: a number that is added to, and taken as a whole or by one."""

    def __init__(self, host: Host, value: int, flags: int) -> None:
        super().__init__(host)
        self.mode = 0o600
        self.nonblocking = bool(flags & os.EFD_NONBLOCK)
        self._by_one = bool(flags & os.EFD_SEMAPHORE)
        self._value = value

    def readable(self) -> bool:
        return self._value > 0

    def writable(self) -> bool:
        return self._value < EVENTS_MAX

    def events(self) -> int:
        return select.EPOLLIN * self.readable() | select.EPOLLOUT * self.writable()

    def read(self, size: int) -> bytes:
        if size < EVENT_BYTES:
            raise os_error(errno.EINVAL)
        if not self._value:
            raise os_error(errno.EAGAIN)
        taken = 1 if self._by_one else self._value
        self._value -= taken
        self.stir()
        return taken.to_bytes(EVENT_BYTES, "little")

    def write(self, data: bytes) -> int:
        added = int.from_bytes(data[:EVENT_BYTES], "little")
        if len(data) < EVENT_BYTES or added > EVENTS_MAX:
            raise os_error(errno.EINVAL)
        if self._value + added > EVENTS_MAX:
            raise os_error(errno.EAGAIN)
        self._value += added
        self.stir()
        return len(data)
