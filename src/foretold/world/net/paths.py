"""What `os` says about the files of unix sockets, which lie beside the host's disk.

They are asked for what the disk does not have. Each answer returns NotImplemented for a path that
is none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.world.net.unixnames import NamedFile, key_of

if TYPE_CHECKING:
    from foretold.world.net.unixnames import UnixNames


def path_answers(names: UnixNames) -> dict[str, Callable[..., Any]]:
    """What is answered about their paths, by call."""

    def named(path: Any) -> NamedFile | None:
        return names.files.get(key_of(path)) if names.files and not isinstance(path, int) else None

    def stat(path: Any, **how: Any) -> Any:
        found = named(path)
        return NotImplemented if found is None else found.stat()

    def unlink(path: Any, **how: Any) -> Any:
        if named(path) is None:
            return NotImplemented
        del names.files[key_of(path)]
        return None

    def chmod(path: Any, mode: int, **how: Any) -> Any:
        found = named(path)
        if found is None:
            return NotImplemented
        found.mode = found.mode & ~0o7777 | mode & 0o7777
        return None

    def untouched(path: Any, *args: Any, **how: Any) -> Any:
        return NotImplemented if named(path) is None else None

    def access(path: Any, *args: Any, **how: Any) -> Any:
        return NotImplemented if named(path) is None else True

    def rename(source: Any, target: Any, **how: Any) -> Any:
        found = named(source)
        if found is None:
            return NotImplemented
        del names.files[key_of(source)]
        names.files[key_of(target)] = found
        return None

    return {
        **dict.fromkeys(("stat", "lstat"), stat),
        **dict.fromkeys(("unlink", "remove"), unlink),
        **dict.fromkeys(("rename", "replace"), rename),
        **dict.fromkeys(("chown", "lchown", "utime"), untouched),
        "chmod": chmod,
        "access": access,
    }
