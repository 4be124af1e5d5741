"""Descriptor numbers of simulated sockets, and who watches them.

They are numbers that no real descriptor of this process has, so that a mistake cannot touch a real
file. `select.select` and `select.poll` inside a run look them up here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from foretold.world.net.selector import WorldSelector

FIRST = 1 << 24
"""Above any real descriptor: Linux allows at most 2**20 by default."""


class Watchable(Protocol):
    """A socket as a selector sees it."""

    def readable(self) -> bool: ...
    def writable(self) -> bool: ...


class Descriptors:
    """One host's table. The lowest free number is given out, as POSIX demands."""

    def __init__(self) -> None:
        self.sockets: dict[int, Watchable] = {}
        """Who has which descriptor."""
        self._watchers: dict[int, list[WorldSelector]] = {}
        self._free: list[int] = []
        self._next = FIRST

    def give(self, sock: Watchable) -> int:
        if self._free:
            self._free.sort(reverse=True)
            fd = self._free.pop()
        else:
            fd = self._next
            self._next += 1
        self.sockets[fd] = sock
        return fd

    def take_back(self, fd: int) -> None:
        if self.sockets.pop(fd, None) is not None:
            self._free.append(fd)

    def replace(self, fd: int, sock: Watchable) -> None:
        """Another object speaks for the same descriptor from now on (`socket(fileno=…)`)."""
        self.sockets[fd] = sock

    def socket(self, fd: int) -> Watchable | None:
        return self.sockets.get(fd)

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

    def all(self) -> list[Watchable]:
        return list(self.sockets.values())
