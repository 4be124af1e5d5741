"""From a path to a node: components, `..`, symbolic links, and Linux' errors on the way."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from foretold.world.disk.nodes import Directory, Inode, Symlink
from foretold.world.oserrors import os_error

NAME_MAX: Final = 255
PATH_MAX: Final = 4_096
LINKS_MAX: Final = 40
SPECIAL: Final = (".", "..", "/")
_SHORT: Final = 63
"""A name of so many characters is short enough in any encoding."""


class NullInPath(ValueError):
    """No path has a zero byte; versions of Python word that differently."""


class Found(NamedTuple):
    """Where a path leads."""

    parent: Directory
    name: str
    """The last component; one of `SPECIAL` if the path ends in such a one."""
    node: Inode | None
    slash: bool
    """The path ended with a slash: it means a directory."""


def walk(
    root: Directory,
    base: Directory,
    path: str,
    entry: Callable[[Directory, str], Inode | None],
    *,
    follow: bool | None = True,
) -> Found:
    """Go where `path` leads. A last component that is missing is no error yet: node is None.

    `follow`: whether a symbolic link at the end is followed; None: not even if a slash follows it,
    as for those calls that change the directory and not the file.
    """
    _check(path)
    at = root if path.startswith("/") else base
    left = _parts(path)
    slash = path.endswith("/")
    last = "/" if not left else ""
    links = 0
    while left:
        name = left.pop()
        if name in (".", ".."):
            at, last = (at.parent if name == ".." else at), name
            continue
        if len(name) > _SHORT and len(os.fsencode(name)) > NAME_MAX:
            raise os_error(errno.ENAMETOOLONG)
        node = entry(at, name)
        if isinstance(node, Symlink) and (left or follow or (slash and follow is not None)):
            links += 1
            if links > LINKS_MAX:
                raise os_error(errno.ELOOP)
            if not left:
                slash = slash or node.target.endswith("/")
            left += _parts(node.target)
            at = root if node.target.startswith("/") else at
            last = "/"
            continue
        if not left:
            if (
                slash
                and follow is not None
                and node is not None
                and not isinstance(node, Directory)
            ):
                raise os_error(errno.ENOTDIR)
            return Found(at, name, node, slash)
        if node is None:
            raise os_error(errno.ENOENT)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR)
        at = node
    return Found(at.parent, last, at, slash)


def _check(path: str) -> None:
    if not path:
        raise os_error(errno.ENOENT)
    if "\0" in path:
        raise NullInPath("embedded null byte")
    if len(path) >= PATH_MAX or (len(path) > PATH_MAX // 4 and len(os.fsencode(path)) >= PATH_MAX):
        raise os_error(errno.ENAMETOOLONG)


def _parts(path: str) -> list[str]:
    """The components, last first."""
    return [part for part in path.split("/") if part][::-1]
