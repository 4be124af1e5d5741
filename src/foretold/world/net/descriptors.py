"""The table of descriptors of a process: files, sockets, pipes; and who watches them.

They are numbers that no real descriptor of this process has, so that a mistake cannot touch a real
file. As in Linux, a number leads to an *open file*, and several numbers may lead to the same one
(`dup`): it is closed with the last of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from foretold.kernel.computer import FIRST
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.net.selector import WorldSelector

__all__ = ["FIRST", "NATIVE_FIRST", "Descriptors", "OpenDescriptor", "number_of", "refuse_real"]

NATIVE_FIRST = 1 << 25
"""Sockets that a C library holds have numbers from here on: see native.py."""


class OpenDescriptor:
    """What a descriptor stands for. Each kind says when it is ready, and what its end brings."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.table = host.descriptors  # of this process: another may follow on the host
        self.fds: list[int] = []
        self.nonblocking = False
        self.mode = 0
        """Its kind and rights, for `fstat`."""
        self.access = os.O_RDWR
        """For what it is open, for `fcntl`."""
        self.appending = False
        """A flag that Linux keeps for whoever sets it; it has no effect here."""
        self.users = 0
        """Calls that wait for it: Linux keeps it open for them, though nobody has its number."""

    def readable(self) -> bool:
        """As EPOLLIN, EPOLLHUP or EPOLLERR would say."""
        raise NotImplementedError

    def writable(self) -> bool:
        """As EPOLLOUT would say."""
        raise NotImplementedError

    def events(self) -> int:
        """All that `epoll` would report."""
        raise NotImplementedError

    def read(self, size: int) -> bytes:
        """As `os.read`, or BlockingIOError."""
        raise os_error(errno.EINVAL)

    def write(self, data: bytes) -> int:
        """As `os.write`, or BlockingIOError."""
        raise os_error(errno.EINVAL)

    # What a call of `os` does with it: it waits, unless it may not

    def take(self, size: int) -> bytes:
        """`os.read`."""
        while size:
            try:
                return self.read(size)
            except BlockingIOError:
                if self.nonblocking:
                    raise
                self.host.block_until(self.readable, None)
        return b""

    def put(self, data: bytes) -> int:
        """`os.write`."""
        left = data
        while True:
            try:
                left = left[self.write(left) :]
            except BlockingIOError:
                if self.nonblocking:
                    raise
                self.host.block_until(self.writable, None)
                continue
            if not left or self.nonblocking:
                return len(data) - len(left)

    def take_at(self, size: int, offset: int) -> bytes:
        """`os.pread`. Only a file on a disk has places."""
        raise os_error(errno.ESPIPE)

    def put_at(self, data: bytes, offset: int) -> int:
        """`os.pwrite`."""
        raise os_error(errno.ESPIPE)

    def seek(self, offset: int, whence: int) -> int:
        raise os_error(errno.ESPIPE)

    def cut(self, size: int) -> None:
        """`os.ftruncate`."""
        raise os_error(errno.EINVAL)

    def flush(self) -> None:
        """`os.fsync`."""
        raise os_error(errno.EINVAL)

    def lock(self, operation: int) -> None:
        """`fcntl.flock`."""
        raise os_error(errno.EINVAL)

    def stat(self, fd: int) -> os.stat_result:
        user, group = self.host.identity.users[0], self.host.identity.groups[0]
        return os.stat_result((self.mode, fd, 2, 1, user, group, 0, 0, 0, 0))

    def waiting(self) -> int:
        """How many bytes can be read now, for `ioctl`."""
        raise os_error(errno.ENOTTY)

    @property
    def flags(self) -> int:
        """What `fcntl` tells of how it was opened, and what was set since."""
        return self.access | os.O_NONBLOCK * self.nonblocking | os.O_APPEND * self.appending

    def set_flags(self, flags: int) -> None:
        self.nonblocking = bool(flags & os.O_NONBLOCK)
        self.appending = bool(flags & os.O_APPEND)

    def released(self) -> None:
        """No descriptor leads here any more."""

    def one_user_less(self) -> None:
        """Somebody who kept it open lets go of it."""
        self.users -= 1
        if not self.fds and not self.users:
            self.released()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A call waits for it: it is not released before that is over."""
        self.users += 1
        try:
            yield
        finally:
            self.one_user_less()

    def stir(self) -> None:
        """It may have become ready."""
        for fd in self.fds:
            self.table.stir(fd)


class Descriptors:
    """One process's table. The lowest free number is given out, as POSIX demands."""

    def __init__(self) -> None:
        self.files: dict[int, OpenDescriptor] = {}
        """What each descriptor stands for."""
        self.inheritable: set[int] = set()
        """Those that a program started by this one would have too, if there were such programs."""
        self.process_is_over = False
        """Its kernel has closed them all, or lost its power."""
        self._watchers: dict[int, list[WorldSelector]] = {}
        self._free: list[int] = []
        self._next = FIRST

    def give(self, file: OpenDescriptor) -> int:
        """A number for an open file: its first, or one more."""
        if self._free:
            self._free.sort(reverse=True)
            fd = self._free.pop()
        else:
            fd = self._next
            self._next += 1
        self.files[fd] = file
        file.fds.append(fd)
        return fd

    def give_from(self, least: int, file: OpenDescriptor) -> int:
        """The lowest free number that is not below `least`."""
        fd = max(least, FIRST)
        while fd in self.files:
            fd += 1
        self.put(fd, file)
        return fd

    def put(self, fd: int, file: OpenDescriptor) -> None:
        """`dup2`: this very number."""
        if fd in self.files:
            self.take_back(fd)
        if fd in self._free:
            self._free.remove(fd)
        while self._next <= fd:
            if self._next < fd:
                self._free.append(self._next)
            self._next += 1
        self.files[fd] = file
        file.fds.append(fd)

    def renumber(self, fd: int, number: int) -> None:
        """An open file gets another number instead, which nobody else has."""
        file = self.files.pop(fd)
        self._free.append(fd)
        self.files[number] = file
        file.fds[file.fds.index(fd)] = number

    def take_back(self, fd: int) -> bool:
        """`close`: the number is free, and the file is released with its last one. False if nobody
        has this number."""
        file = self.files.pop(fd, None)
        if file is None:
            return False
        self.stir(fd)
        self.inheritable.discard(fd)
        if fd < NATIVE_FIRST:
            self._free.append(fd)
        file.fds.remove(fd)
        if not file.fds and not file.users:
            file.released()
        return True

    def file(self, fd: int) -> OpenDescriptor | None:
        return self.files.get(fd)

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        """Whether a program started by this one has it too."""
        (self.inheritable.add if inheritable else self.inheritable.discard)(fd)

    def watch(self, fd: int, selector: WorldSelector) -> None:
        self._watchers.setdefault(fd, []).append(selector)

    def unwatch(self, fd: int, selector: WorldSelector) -> None:
        watching = self._watchers.get(fd)
        if watching and selector in watching:
            watching.remove(selector)
            if not watching:
                del self._watchers[fd]

    def stir(self, fd: int) -> None:
        """Tell all who watch that this one may have become ready."""
        for selector in self._watchers.get(fd, ()):
            selector.stir(fd)


def number_of(thing: object) -> int:
    """The descriptor that a call of `select` was given, with the errors of the real ones."""
    if isinstance(thing, int):
        fd = int(thing)
    else:
        fileno: Callable[[], int] | None = getattr(thing, "fileno", None)
        if fileno is None:
            raise TypeError("argument must be an int, or have a fileno() method.")
        fd = fileno()
    if fd < 0:
        raise ValueError(f"file descriptor cannot be a negative integer ({fd})")
    return fd


def refuse_real(host: Host, call: str) -> NoReturn:
    """A real descriptor where only those of the world make sense."""
    host.escaped(
        call,
        "the real machine, not the tape, decides when a real descriptor becomes ready",
        "os.pipe(), socket.socketpair() or asyncio.open_connection(…) inside the run: "
        "their descriptors are simulated",
    )
