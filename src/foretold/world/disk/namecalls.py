"""The calls of `os` that take a path: what `os.mkdir`, `os.stat`, `os.scandir` … do in a run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from foretold.kernel.file_patches import RealPath
from foretold.world.disk.content import PAGE
from foretold.world.disk.lower import SOURCE_ENDINGS
from foretold.world.disk.nodes import Directory, Symlink
from foretold.world.disk.process import Process, real_path, text
from foretold.world.oserrors import os_error

_BLOCKS: Final = (1 << 40) // PAGE
"""How large a disk without a limit says it is: a terabyte."""
_LINK_IS_LINKAT: Final = "os.name" in (os.link.__text_signature__ or "")  # type: ignore[attr-defined]  # builtins have it
"""Since 3.14 `os.link` follows (CPython's issue 81793); its signature tells which it is."""


class NameCalls(Process):
    """By path. Where `os` takes a descriptor as well, so do these."""

    # --- looking ---------------------------------------------------------------------------------

    def stat(
        self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result | RealPath:
        if type(path) is str and dir_fd is None:
            plain = self.fs.plain_node(path, self.cwd)
            if plain is not None:
                return plain.stat()
        try:
            node = self.node_at(path, dir_fd, follow=follow_symlinks)
        except FileNotFoundError:
            if not text(path).endswith(SOURCE_ENDINGS):
                raise
            where = self.absolute(path, dir_fd)
            if self.real.is_source(where) and not self._was_removed(where):
                return RealPath(where)
            raise
        return real_path(node) or node.stat()

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result | RealPath:
        return self.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def access(
        self,
        path: Any,
        mode: int,
        *,
        dir_fd: int | None = None,
        effective_ids: bool = False,
        follow_symlinks: bool = True,
    ) -> bool | RealPath:
        try:
            node = self.node_at(path, dir_fd, follow=follow_symlinks)
        except OSError:
            return self._ask_others("access", (path, mode), {}) is True
        if mode & os.X_OK and not isinstance(node, Directory):
            return bool(node.mode & 0o111)
        return True

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> str | bytes:
        node = self.fs.node(text(path), self.base(dir_fd), follow=False)
        if not isinstance(node, Symlink):
            raise os_error(errno.EINVAL)
        return os.fsencode(node.target) if isinstance(path, bytes) else node.target

    def _listed(self, path: Any, call: str) -> Directory:
        if isinstance(path, int):
            node = self.opened(path).node
        else:
            try:
                node = self.fs.node(text(path), self.cwd)
            except OSError as error:
                self.missing(call, path, None, error.errno)
                raise
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR)
        return node

    def listdir(self, path: Any = None) -> list[Any]:
        directory = self._listed("." if path is None else path, "os.listdir")
        self.passes("listdir")
        names = self.fs.names(directory)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def scandir(self, path: Any = None) -> Scan:
        where = "." if path is None else path
        directory = self._listed(where, "os.scandir")
        self.passes("scandir")
        prefix: Any = "" if isinstance(where, int) else os.fspath(where)
        names: list[Any] = self.fs.names(directory)
        if isinstance(prefix, bytes):
            names = [os.fsencode(name) for name in names]
        return Scan([ScannedEntry(self, directory, prefix, name) for name in names])

    def statvfs(self, path: Any) -> os.statvfs_result:
        self.node_at(path, None)
        limit = self.fs.space.limit
        blocks = _BLOCKS if limit is None else limit
        free = max(0, blocks - self.fs.space.used)
        return os.statvfs_result(
            (PAGE, PAGE, blocks, free, free, 1 << 24, 1 << 24, 1 << 24, 0, 255)
        )

    def pathconf(self, path: Any, name: Any) -> int:
        self.node_at(path, None)
        known = {"PC_NAME_MAX": 255, "PC_PATH_MAX": 4_096, "PC_LINK_MAX": 65_000}
        numbers = {os.pathconf_names[each]: value for each, value in known.items()}
        return numbers.get(os.pathconf_names.get(name, name), -1)

    # --- names -----------------------------------------------------------------------------------

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self.passes("mkdir")
        self.fs.mkdir(text(path), mode & ~self.umask_bits, self.base(dir_fd))

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.passes("rmdir")
        self.fs.rmdir(text(path), self.base(dir_fd))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.passes("unlink")
        self.fs.unlink(text(path), self.base(dir_fd))

    remove = unlink

    def rename(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        self.passes("rename")
        self.fs.rename(text(src), text(dst), (self.base(src_dir_fd), self.base(dst_dir_fd)))

    replace = rename

    def link(
        self,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        self.passes("link")
        # Without descriptors older Pythons call link(2), which on Linux does not follow.
        at = _LINK_IS_LINKAT or src_dir_fd is not None or dst_dir_fd is not None
        follow = follow_symlinks and at
        bases = (self.base(src_dir_fd), self.base(dst_dir_fd))
        self.fs.link(text(src), text(dst), bases, follow=follow)

    def symlink(
        self,
        src: Any,
        dst: Any,
        target_is_directory: bool = False,
        *,
        dir_fd: int | None = None,
    ) -> None:
        self.passes("symlink")
        self.fs.symlink(text(src), text(dst), self.base(dir_fd))

    # --- what a file is like ---------------------------------------------------------------------

    def truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            self.opened(path).truncate(length)
        else:
            self.fs.truncate(text(path), length, self.cwd)
        self.passes("truncate")

    def chmod(
        self, path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> None:
        self.fs.chmod(self.own_node_at(path, dir_fd, follow=follow_symlinks), mode)

    def chown(
        self,
        path: Any,
        uid: int,
        gid: int,
        *,
        dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        node = self.own_node_at(path, dir_fd, follow=follow_symlinks)
        node.uid = node.uid if uid == -1 else uid
        node.gid = node.gid if gid == -1 else gid
        node.ctime_ns = self.fs.now_ns()

    def lchown(self, path: Any, uid: int, gid: int) -> None:
        self.chown(path, uid, gid, follow_symlinks=False)

    def utime(
        self,
        path: Any,
        times: Any = None,
        *,
        ns: tuple[int, int] | None = None,
        dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        node = self.own_node_at(path, dir_fd, follow=follow_symlinks)
        now_ns = self.fs.now_ns()
        if times is not None:
            if not isinstance(times, tuple) or len(times) != 2:
                raise TypeError("utime: 'times' must be either a tuple of two ints or None")
            ns = (int(times[0] * 1e9), int(times[1] * 1e9))
        node.atime_ns, node.mtime_ns = (now_ns, now_ns) if ns is None else ns
        node.ctime_ns = now_ns

    def listxattr(self, path: Any = None, *, follow_symlinks: bool = True) -> list[str]:
        self.node_at("." if path is None else path, None, follow=follow_symlinks)
        return []

    def getxattr(self, path: Any, attribute: Any, *, follow_symlinks: bool = True) -> bytes:
        self.node_at(path, None, follow=follow_symlinks)
        raise os_error(errno.ENODATA)

    def setxattr(self, path: Any, *args: Any, **names: Any) -> None:
        self.node_at(path, None)
        raise os_error(errno.ENOTSUP)

    removexattr = setxattr

    # --- where the process is --------------------------------------------------------------------

    def chdir(self, path: Any) -> None:
        node = self.node_at(path, None)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR)
        self.cwd = node

    def getcwd(self) -> str:
        if self.cwd.gone:
            raise os_error(errno.ENOENT)
        return self.cwd.path

    def getcwdb(self) -> bytes:
        return os.fsencode(self.getcwd())

    def umask(self, mask: int) -> int:
        before, self.umask_bits = self.umask_bits, mask & 0o777
        return before


class ScannedEntry:
    """What `os.scandir` gives: `os.DirEntry`, which cannot be made from Python."""

    __slots__ = ("_calls", "_directory", "name", "path")

    def __init__(self, calls: NameCalls, directory: Directory, prefix: Any, name: Any) -> None:
        self._calls = calls
        self._directory = directory
        self.name = name
        self.path = os.path.join(prefix, name) if prefix else name

    def _stat(self, *, follow: bool) -> os.stat_result:
        fs = self._calls.fs
        node = fs.node(text(self.name), self._directory, follow=follow)
        found = real_path(node)
        if found is not None:
            from foretold.kernel import fence

            with fence.passage():
                return os.stat(found.path)
        return node.stat()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        try:
            return self._stat(follow=follow_symlinks)
        except OSError as error:
            error.filename = self.path
            raise

    def _is(self, kind: int, *, follow: bool) -> bool:
        try:
            node = self._calls.fs.node(text(self.name), self._directory, follow=follow)
        except FileNotFoundError:
            return False
        return stat.S_IFMT(node.mode) == kind

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFDIR, follow=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFREG, follow=follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_IFLNK, follow=False)

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return self._stat(follow=False).st_ino

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Scan:
    """The iterator of `os.scandir`."""

    def __init__(self, entries: list[ScannedEntry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[ScannedEntry]:
        return self

    def __next__(self) -> ScannedEntry:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
