"""What `os` says about the files of unix sockets, which lie beside the host's disk.

Each answer returns NotImplemented for a path that is none of them: then the real call goes on, as
far as the fence lets it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.kernel.fence import passage
from foretold.world.net.unixnames import NamedFile, key_of

if TYPE_CHECKING:
    from foretold.world.host import Host


def path_answers(host: Host) -> dict[str, Callable[..., Any]]:
    """What a host answers about paths, by call."""
    names = host.stack.unix

    def named(path: Any) -> NamedFile | None:
        return names.files.get(key_of(path)) if names.files and not isinstance(path, int) else None

    def stat(path: Any, **how: Any) -> Any:
        if isinstance(path, int):
            return host.answer("os.fstat")(path)  # type: ignore[misc]  # every host answers that
        found = named(path)
        return NotImplemented if found is None else found.stat()

    def unlink(path: Any, **how: Any) -> Any:
        if named(path) is None:
            return _missing(path)
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
        **dict.fromkeys(("os.stat", "os.lstat"), stat),
        **dict.fromkeys(("os.unlink", "os.remove"), unlink),
        **dict.fromkeys(("os.rename", "os.replace"), rename),
        **dict.fromkeys(("os.chown", "os.lchown", "os.utime"), untouched),
        "os.chmod": chmod,
        "os.access": access,
    }


def _missing(path: Any) -> Any:
    """To remove what is not there changes nothing, on no disk: that may be told."""
    with passage():
        if not isinstance(path, int) and not os.path.lexists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return NotImplemented
