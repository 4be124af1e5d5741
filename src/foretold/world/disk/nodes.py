"""What has an inode number: files, directories, symbolic links, and the few devices."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.world.disk.content import Content, Space

if TYPE_CHECKING:
    from foretold.world.disk.openfile import OpenFile

BLOCK = 512
NS = 1_000_000_000
DEVICE_NUMBER = 0xFD01
DIRECTORY_SIZE = 4_096


class Inode:
    """What all of them have: a number, a mode, links, times."""

    __slots__ = (
        "atime_ns", "ctime_ns", "device", "gid", "mode", "mtime_ns", "nlink", "number", "uid",
    )  # fmt: skip

    def __init__(self, number: int, mode: int, now_ns: int) -> None:
        self.number = number
        self.device = DEVICE_NUMBER
        self.mode = mode
        self.nlink = 1
        self.uid, self.gid = os.getuid(), os.getgid()
        self.atime_ns = self.mtime_ns = self.ctime_ns = now_ns

    @property
    def size(self) -> int:
        return 0

    @property
    def blocks(self) -> int:
        return 0

    def stat(self) -> os.stat_result:
        """As `os.stat` gives it."""
        at, mt, ct = self.atime_ns, self.mtime_ns, self.ctime_ns
        named: dict[str, Any] = {
            "st_blksize": 4_096, "st_blocks": self.blocks, "st_rdev": 0,
            "st_atime": at / 1e9, "st_mtime": mt / 1e9, "st_ctime": ct / 1e9,
            "st_atime_ns": at, "st_mtime_ns": mt, "st_ctime_ns": ct,
        }  # fmt: skip
        owner = (self.mode, self.number, self.device, self.nlink, self.uid, self.gid)
        return os.stat_result((*owner, self.size, at // NS, mt // NS, ct // NS), named)


class File(Inode):
    """A regular file. It lives as long as a name or a descriptor leads to it."""

    __slots__ = ("content", "locked_by", "opens")

    def __init__(self, number: int, mode: int, now_ns: int, space: Space) -> None:
        super().__init__(number, stat.S_IFREG | mode, now_ns)
        self.content = Content(space)
        self.opens = 0
        self.locked_by: list[OpenFile] = []
        """Descriptions that hold an advisory lock (`flock`)."""

    @property
    def size(self) -> int:
        return self.content.size

    @property
    def blocks(self) -> int:
        return len(self.content.pages) * 4_096 // BLOCK

    def forget_if_unused(self) -> None:
        """Its room is free when the last name and the last descriptor are gone."""
        if not self.nlink and not self.opens:
            self.content.free()


class Directory(Inode):
    """Names. `entries` is what programs see, `durable` what is on the platter.

    Below a directory may lie one of the real machine (`backing`), whose names shine through unless
    they are `hidden`; `lower` keeps what was found there. See lower.py.
    """

    __slots__ = (
        "backing", "durable", "entries", "gone", "hidden", "lower", "name", "parent", "standard",
    )  # fmt: skip

    def __init__(
        self, number: int, mode: int, now_ns: int, parent: Directory | None, name: str = ""
    ) -> None:
        super().__init__(number, stat.S_IFDIR | mode, now_ns)
        self.parent = parent or self
        self.name = name
        """Its last name, if it has none any more."""
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.gone = False
        self.standard = False
        """Made with the disk: no program's doing."""
        self.backing: str | None = None
        self.hidden: set[str] = set()
        self.lower: dict[str, Inode] = {}
        self.nlink = 2

    @property
    def size(self) -> int:
        return DIRECTORY_SIZE

    @property
    def blocks(self) -> int:
        return DIRECTORY_SIZE // BLOCK

    @property
    def path(self) -> str:
        """The directory's absolute path."""
        parts: list[str] = []
        at = self
        while at.parent is not at:
            parts.append(at.name)
            at = at.parent
        return "/" + "/".join(reversed(parts))


class Symlink(Inode):
    """A name that stands for a path."""

    __slots__ = ("target",)

    def __init__(self, number: int, target: str, now_ns: int) -> None:
        super().__init__(number, stat.S_IFLNK | 0o777, now_ns)
        self.target = target

    @property
    def size(self) -> int:
        return len(os.fsencode(self.target))


class Device(Inode):
    """A file whose bytes come from elsewhere: /dev/zero, /dev/urandom, /dev/full."""

    __slots__ = ("read", "write")

    def __init__(
        self,
        number: int,
        now_ns: int,
        read: Callable[[int], bytes],
        write: Callable[[int], int],
    ) -> None:
        super().__init__(number, stat.S_IFCHR | 0o666, now_ns)
        self.read = read
        self.write = write
