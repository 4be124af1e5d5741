"""`select.select`, `select.poll` and `select.epoll` over simulated descriptors.

With a time limit they wait in virtual time, as a blocking call does; `selectors.DefaultSelector`
and its siblings are the standard library's own, on top of these.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import select
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from foretold.world.net.descriptors import FIRST, OpenDescriptor, number_of, refuse_real
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.host import Host

R = TypeVar("R")
ALWAYS = select.EPOLLERR | select.EPOLLHUP
"""Reported whether they were asked for or not."""
READS = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
WRITES = select.EPOLLOUT | select.EPOLLERR
EVENTS = 0xFFFF
"""The bits that are events; those above say how to report them."""


def look_or_wait(host: Host, look: Callable[[], R], timeout_s: float | None) -> R:
    """What `look` finds now, or else as soon as it finds something, at most so many seconds."""
    host.catch_up()
    found = look()
    if not any_of(found) and timeout_s != 0:
        with contextlib.suppress(TimeoutError):
            host.block_until(lambda: any_of(look()), timeout_s)
        found = look()
    return found


def any_of(found: Any) -> bool:
    """Whether a look has found anything, in one list or in three."""
    return any(found) if isinstance(found, tuple) else bool(found)


def select_on(host: Host, readers: Any, writers: Any, others: Any, timeout: Any = None) -> Any:
    """`select.select`."""
    if timeout is not None and not isinstance(timeout, int | float):
        raise TypeError("timeout must be a float or None")
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    groups = [_files_of(host, group) for group in (readers, writers, others)]
    wanted = (READS, WRITES, select.EPOLLPRI)

    def look() -> tuple[list[Any], ...]:
        return tuple(
            [thing for thing, file in group if file.events() & mask]
            for group, mask in zip(groups, wanted, strict=True)
        )

    return look_or_wait(host, look, timeout)


def _files_of(host: Host, things: Iterable[Any]) -> list[tuple[Any, OpenDescriptor]]:
    if not hasattr(things, "__iter__"):
        raise TypeError("arguments 1-3 must be sequences")
    found = []
    for thing in things:
        fd = number_of(thing)
        if fd < FIRST:
            refuse_real(host, f"select.select() on the real descriptor {fd}")
        file = host.descriptors.file(fd)
        if file is None:
            raise os_error(errno.EBADF)
        found.append((thing, file))
    return found


class Poll:
    """`select.poll()`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._wanted: dict[int, int] = {}

    def _number(self, fd: Any) -> int:
        number = number_of(fd)
        if number < FIRST:
            refuse_real(self._host, f"select.poll() on the real descriptor {number}")
        return number

    def register(
        self, fd: Any, eventmask: int = select.POLLIN | select.POLLPRI | select.POLLOUT
    ) -> None:
        self._wanted[self._number(fd)] = eventmask

    def modify(self, fd: Any, eventmask: int) -> None:
        number = self._number(fd)
        if number not in self._wanted:
            raise os_error(errno.ENOENT)
        self._wanted[number] = eventmask

    def unregister(self, fd: Any) -> None:
        number = number_of(fd)
        if number not in self._wanted:
            raise KeyError(number)
        del self._wanted[number]

    def poll(self, timeout: Any = None) -> list[tuple[int, int]]:
        if timeout is not None and not isinstance(timeout, int | float):
            raise TypeError("timeout must be an integer or None")
        seconds = None if timeout is None or timeout < 0 else timeout / 1_000
        return look_or_wait(self._host, self._look, seconds)

    def _look(self) -> list[tuple[int, int]]:
        found = []
        for fd, mask in self._wanted.items():
            file = self._host.descriptors.file(fd)
            ready = select.POLLNVAL if file is None else file.events() & (mask | ALWAYS)
            if ready:
                found.append((fd, ready))
        return found


class _Interest:
    """One descriptor that an epoll watches."""

    def __init__(self, file: OpenDescriptor, mask: int) -> None:
        self.file, self.mask = file, mask
        self.seen = 0
        """What was reported already, for edge-triggered ones."""

    def news(self) -> int:
        ready = self.file.events() & (self.mask & EVENTS | ALWAYS) if self.mask else 0
        if self.mask & select.EPOLLET:
            self.seen &= ready
            return ready & ~self.seen
        return ready

    def reported(self, ready: int) -> None:
        self.seen |= ready
        if self.mask & select.EPOLLONESHOT:
            self.mask = 0


class Epoll(OpenDescriptor):
    """`select.epoll()`. It forgets a descriptor whose file was closed, as Linux does."""

    def __init__(self, host: Host, sizehint: int = -1, flags: int = 0) -> None:
        super().__init__(host)
        self._watched: dict[int, _Interest] = {}
        self._fd = host.descriptors.give(self)

    @classmethod
    def fromfd(cls, fd: int) -> Epoll:
        raise os_error(errno.EOPNOTSUPP)

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed epoll object")

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def fileno(self) -> int:
        self._check()
        return self._fd

    def close(self) -> None:
        if not self.closed:
            fd, self._fd = self._fd, -1
            self.table.take_back(fd)

    def __enter__(self) -> Epoll:
        self._check()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _target(self, fd: Any) -> tuple[int, OpenDescriptor]:
        self._check()
        number = number_of(fd)
        if number < FIRST:
            refuse_real(self.host, f"select.epoll() on the real descriptor {number}")
        file = self.table.file(number)
        if file is None:
            raise os_error(errno.EBADF)
        return number, file

    def _interest(self, number: int, file: OpenDescriptor) -> _Interest | None:
        found = self._watched.get(number)
        return found if found is not None and found.file is file else None

    def register(
        self, fd: Any, eventmask: int = select.EPOLLIN | select.EPOLLPRI | select.EPOLLOUT
    ) -> None:
        number, file = self._target(fd)
        if self._interest(number, file) is not None:
            raise os_error(errno.EEXIST)
        self._watched[number] = _Interest(file, eventmask)

    def modify(self, fd: Any, eventmask: int) -> None:
        number, file = self._target(fd)
        if self._interest(number, file) is None:
            raise os_error(errno.ENOENT)
        self._watched[number] = _Interest(file, eventmask)

    def unregister(self, fd: Any) -> None:
        number, file = self._target(fd)
        if self._interest(number, file) is None:
            raise os_error(errno.ENOENT)
        del self._watched[number]

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        self._check()
        if maxevents < -1 or not maxevents:
            raise ValueError(f"maxevents must be greater than 0, got {maxevents}")
        forever = timeout is None or timeout < 0
        found = look_or_wait(self.host, self._look, None if forever else timeout)
        found = found if operator.index(maxevents) < 0 else found[:maxevents]
        for fd, ready in found:
            self._watched[fd].reported(ready)
        return found

    def _look(self) -> list[tuple[int, int]]:
        for fd in [fd for fd, each in self._watched.items() if not each.file.fds]:
            del self._watched[fd]
        return [(fd, ready) for fd, each in self._watched.items() if (ready := each.news())]

    # It is a descriptor itself, and may be watched by another.

    def events(self) -> int:
        return select.EPOLLIN if self._look() else 0

    def readable(self) -> bool:
        return bool(self._look())

    def writable(self) -> bool:
        return False
