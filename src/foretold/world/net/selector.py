"""A selector over simulated sockets, as asyncio's selector loop wants one.

Level-triggered like epoll: a descriptor that is ready is reported again at every poll until it is
not. Only those that may be ready are looked at, so a thousand idle connections cost nothing.
"""

from __future__ import annotations

import errno
import os
import selectors
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foretold.world.net.descriptors import Descriptors, OpenDescriptor

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class WorldSelector(selectors.BaseSelector):
    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self.keys: dict[int, selectors.SelectorKey] = {}
        """Who is registered, by descriptor."""
        self._files: dict[int, OpenDescriptor | None] = {}
        """What each descriptor stood for when it was registered. One that was closed since, and
        perhaps given to another, is not heard of again; epoll does the same."""
        self.stirred: dict[int, None] = {}
        """Descriptors that may be ready, in the order in which they became so."""
        self.on_stir: Callable[[], object] | None = None
        """Told at the next one, if its loop is thought to wait."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = self._fd(fileobj)
        if fd in self.keys:
            raise KeyError(f"{fileobj!r} (FD {fd}) is already registered")
        key = self.keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._files[fd] = self._descriptors.file(fd)
        self._descriptors.watch(fd, self)
        self.stir(fd)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        fd = self._fd(fileobj)
        key = self.keys.pop(fd, None)
        if key is None:
            raise KeyError(f"{fileobj!r} is not registered")
        self._descriptors.unwatch(fd, self)
        self.stirred.pop(fd, None)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = self._fd(fileobj)
        if fd not in self.keys:
            raise KeyError(f"{fileobj!r} is not registered")
        if events != self.keys[fd].events and self._descriptors.file(fd) is not self._files[fd]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        key = self.keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self.stir(fd)
        return key

    def look_again(self, fd: int) -> None:
        """A callback of `fd` has run: what is still ready is to be found at the next poll."""
        key = self.keys.get(fd)
        if key is not None:
            file = self._descriptors.files.get(fd)
            if key.events != READ or (file is not None and file.readable()):
                self.stir(fd)

    def stir(self, fd: int) -> None:
        """This one may have become ready."""
        self.stirred[fd] = None
        if self.on_stir is not None:
            self.on_stir()

    def poll(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Which are ready now. Those that are not are forgotten until they stir again."""
        found = []
        keys, files = self.keys, self._descriptors.files
        for fd in list(self.stirred):
            key = keys[fd]
            file = files.get(fd)
            if file is None or file is not self._files[fd]:
                ready = 0
            elif key.events == READ:
                ready = READ if file.readable() else 0
            else:
                ready = WRITE if file.writable() else 0
                if key.events & READ and file.readable():
                    ready |= READ
            if ready:
                found.append((key, ready))
            else:
                del self.stirred[fd]
        return found

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self.poll()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return _KeysByFile(self, self.keys)

    def key_of(self, fileobj: Any) -> selectors.SelectorKey | None:
        """The registration of a descriptor or a socket, or None."""
        if isinstance(fileobj, int):
            return self.keys.get(fileobj)
        try:
            return self.keys.get(self._fd(fileobj))
        except ValueError:
            return None

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        try:
            return self.keys[self._fd(fileobj)]
        except KeyError:
            raise KeyError(f"{fileobj!r} is not registered") from None

    def close(self) -> None:
        for fd in list(self.keys):
            self._descriptors.unwatch(fd, self)
        self.keys.clear()
        self.stirred.clear()

    def _fd(self, fileobj: Any) -> int:
        if isinstance(fileobj, int):
            return fileobj
        fd = int(fileobj.fileno())
        if fd < 0:
            for key in self.keys.values():  # closed before it was unregistered
                if key.fileobj is fileobj:
                    return key.fd
            raise ValueError(f"Invalid file descriptor: {fd}")
        return fd


class _KeysByFile(Mapping[Any, selectors.SelectorKey]):
    """What `get_map` gives: as the standard library's, it finds sockets as well as numbers."""

    def __init__(self, selector: WorldSelector, keys: dict[int, selectors.SelectorKey]) -> None:
        self._selector, self._keys = selector, keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __getitem__(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._selector.key_of(fileobj)
        if key is None:
            raise KeyError(fileobj)
        return key
