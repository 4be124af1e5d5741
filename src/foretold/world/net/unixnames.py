"""The names of unix sockets: files of their host, and abstract ones.

They are not on the host's disk (no directory lists them, no crash takes them); `os.stat`,
`os.unlink` and their like ask here for what they do not find there.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.net.socketfile import SocketFile
    from foretold.world.net.stack import Stack

PATH_BYTES_MAX = 108


class NamedFile:
    """The file of a unix socket: it outlives the socket, until somebody unlinks it."""

    def __init__(self, owner: SocketFile, inode: int, now_ns: int) -> None:
        self.owner: SocketFile | None = owner
        self.inode = inode
        self.mode = 0o140755
        self.now_ns = now_ns

    def stat(self) -> os.stat_result:
        """As `os.stat` would show it."""
        seconds = self.now_ns / 1e9
        times = [int(seconds)] * 3
        named: dict[str, Any] = {}
        for name in ("st_atime", "st_mtime", "st_ctime"):
            named |= {name: seconds, f"{name}_ns": self.now_ns}
        return os.stat_result(
            (self.mode, self.inode, 1, 1, os.getuid(), os.getgid(), 0, *times), named
        )


def encoded(address: Any) -> bytes:
    """An address as it would reach the kernel, with Python's own errors."""
    if isinstance(address, str):
        data = os.fsencode(address)
    else:
        data = bytes(memoryview(address))  # its TypeError is the real one's
    if len(data) > PATH_BYTES_MAX or (len(data) == PATH_BYTES_MAX and data[:1] != b"\0"):
        raise OSError("AF_UNIX path too long")
    return data


class UnixNames:
    """The unix sockets of one host by their names."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.files: dict[str, NamedFile] = {}
        self.abstract: dict[bytes, SocketFile] = {}
        self._inodes = 1_000
        self._automatic = 0

    @functools.cached_property
    def answers(self) -> dict[str, Callable[..., Any]]:
        """What `os` says of them, by the names of its calls."""
        from foretold.world.net.paths import path_answers

        return path_answers(self)

    def bind(self, owner: SocketFile, address: Any) -> Any:
        """Give a socket its name; returns it as `getsockname` shows it."""
        data = encoded(address)
        if data[:1] in (b"", b"\0"):
            return self._bind_abstract(owner, data)
        path = key_of(data)
        if path in self.files or os.path.lexists(path):  # a socket's, or any other on the disk
            raise os_error(errno.EADDRINUSE)
        self._inodes += 1
        self.files[path] = NamedFile(owner, self._inodes, self._stack.kernel.clock.read_wall_ns())
        return os.fsdecode(data)

    def _bind_abstract(self, owner: SocketFile, name: bytes) -> bytes:
        automatic = not name
        while not name or (automatic and name in self.abstract):
            self._automatic += 1
            name = b"\0%05x" % self._automatic
        if name in self.abstract:
            raise os_error(errno.EADDRINUSE)
        self.abstract[name] = owner
        return name

    def find(self, address: Any) -> SocketFile:
        """The socket that has this name."""
        data = encoded(address)
        if data[:1] in (b"", b"\0"):
            owner = self.abstract.get(data)
        else:
            named = self.files.get(key_of(data))
            if named is None:
                raise os_error(errno.ENOENT)
            owner = named.owner
        if owner is None:
            raise os_error(errno.ECONNREFUSED)
        return owner

    def released(self, owner: SocketFile) -> None:
        """The socket is closed: its abstract name is free, its file is stale."""
        name = owner.bound
        if isinstance(name, bytes):
            if self.abstract.get(name) is owner:
                del self.abstract[name]
        else:
            for named in self.files.values():  # it may have been renamed
                if named.owner is owner:
                    named.owner = None

    def process_died(self) -> None:
        """The files stay, and nobody answers there."""
        self.abstract.clear()
        for named in self.files.values():
            named.owner = None


def key_of(path: Any) -> str:
    """A path as this host's table keeps it."""
    return os.path.abspath(os.fsdecode(path))
