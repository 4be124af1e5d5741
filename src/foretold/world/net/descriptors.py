"""Descriptor numbers of simulated sockets and pipes, what they stand for, and who watches them.

They are numbers that no real descriptor of this process has, so that a mistake cannot touch a real
file. As in Linux, a number leads to an *open file*, and several numbers may lead to the same one
(`dup`): it is closed with the last of them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from foretold.world.net.tcp import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.net.selector import WorldSelector

FIRST = 1 << 24
"""Above any real descriptor: Linux allows at most 2**20 by default."""
NATIVE_FIRST = 1 << 25
"""Sockets that a C library holds have numbers from here on: see native.py."""


class OpenFile:
    """What a descriptor stands for. Each kind says when it is ready, and what its end brings."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.table = host.descriptors  # of this process: another may follow on the host
        self.fds: list[int] = []
        self.nonblocking = False
        self.mode = 0
        """Its kind and rights, for `fstat`."""
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

    def released(self) -> None:
        """No descriptor leads here any more."""

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """A call waits for it: it is not released before that is over."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            if not self.fds and not self.users:
                self.released()

    def stir(self) -> None:
        """It may have become ready."""
        for fd in self.fds:
            self.table.stir(fd)


class Descriptors:
    """One process's table. The lowest free number is given out, as POSIX demands."""

    def __init__(self) -> None:
        self.files: dict[int, OpenFile] = {}
        """What each descriptor stands for."""
        self.process_is_over = False
        """Its kernel has closed them all, or lost its power."""
        self._watchers: dict[int, list[WorldSelector]] = {}
        self._free: list[int] = []
        self._next = FIRST

    def give(self, file: OpenFile) -> int:
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

    def put(self, fd: int, file: OpenFile) -> None:
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

    def take_back(self, fd: int) -> None:
        """`close`: the number is free, and the file is released with its last one."""
        file = self.files.pop(fd, None)
        if file is None:
            return
        self.stir(fd)
        if fd < NATIVE_FIRST:
            self._free.append(fd)
        file.fds.remove(fd)
        if not file.fds and not file.users:
            file.released()

    def file(self, fd: int) -> OpenFile | None:
        return self.files.get(fd)

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
            selector.stirred[fd] = None


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
        "when a real descriptor becomes ready is up to the real machine, not to the tape",
        "os.pipe(), socket.socketpair() or asyncio.open_connection(…) inside the run: "
        "their descriptors are simulated",
    )
