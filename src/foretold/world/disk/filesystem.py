"""A file system in memory: paths and what can be done with them, with Linux' semantics and errors.

It knows neither host nor run: time, faults and the program's own files are handed to it. The acting
user may do everything, as root may; modes are kept and shown.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from foretold.world.disk.content import Space
from foretold.world.disk.journal import Journal
from foretold.world.disk.nodes import Directory, File, Inode, Symlink
from foretold.world.disk.openfile import FILE_SIZE_MAX, OpenFile
from foretold.world.disk.walk import SPECIAL, Found, walk
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.disk.lower import RealFiles
    from foretold.world.disk.trouble import DiskTrouble

ROOT_NUMBER: Final = 2
_FIRST_NUMBER: Final = 11  # ext4 keeps those below for itself
_PLAIN_CHARS: Final = 1_000
"""No path of so many characters is too long for Linux."""
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class FileSystem:
    def __init__(self, now_ns: Callable[[], int] = lambda: 0) -> None:
        self.now_ns = now_ns
        self.space = Space()
        self.journal = Journal()
        self.lower: RealFiles | None = None
        self.trouble: DiskTrouble | None = None
        self.order: Callable[[list[str]], list[str]] = sorted
        """In which order a directory lists its names."""
        self._next_number = _FIRST_NUMBER
        self.root = Directory(ROOT_NUMBER, 0o755, now_ns(), None)
        self.root.standard = True

    # --- looking ---------------------------------------------------------------------------------

    def entry(self, directory: Directory, name: str) -> Inode | None:
        """What a name leads to, here."""
        node = directory.entries.get(name)
        if node is None and self.lower is not None and directory.backing is not None:
            return self.lower.find(directory, name)
        return node

    def find(self, path: str, base: Directory, *, follow: bool | None = True) -> Found:
        return walk(self.root, base, path, self.entry, follow=follow)

    def plain_node(self, path: str, base: Directory) -> Inode | None:
        """A file or directory that plain names lead to, as most do; None says nothing yet."""
        if not path or len(path) > _PLAIN_CHARS or path[-1] == "/":
            return None
        at: Any = self.root if path[0] == "/" else base
        for name in path.split("/"):
            if name:
                if type(at) is not Directory:
                    return None
                at = at.entries.get(name)
        return at if type(at) is File or type(at) is Directory else None

    def node(self, path: str, base: Directory, *, follow: bool = True) -> Inode:
        """What is there, or ENOENT."""
        node = self.find(path, base, follow=follow).node
        if node is None:
            raise os_error(errno.ENOENT)
        return node

    def directory(self, path: str, base: Directory) -> Directory:
        node = self.node(path, base)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR)
        return node

    def names(self, directory: Directory) -> list[str]:
        """All names in a directory, in the order in which this disk lists them."""
        names = list(directory.entries)
        if self.lower is not None and directory.backing is not None:
            below = self.lower.names(directory)
            if below:  # the order of an installation is no matter of this run
                return sorted(names + below)
        return self.order(names)

    def walk_all(self) -> Iterator[tuple[str, Inode]]:
        """Every path that was made here, in a fixed order. Not what lies below."""
        left: list[tuple[str, Directory]] = [("", self.root)]
        while left:
            prefix, directory = left.pop()
            found = dict(directory.lower) | directory.entries
            for name in sorted(found, reverse=True):
                if isinstance(node := found[name], Directory):
                    left.append((f"{prefix}/{name}", node))
            for name in sorted(directory.entries):
                yield f"{prefix}/{name}", directory.entries[name]

    # --- names -----------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int, base: Directory) -> Directory:
        found = self.find(path, base, follow=None)
        if found.node is not None:
            raise os_error(errno.EEXIST)
        made = Directory(self.next_number(), mode & 0o1777, self.now_ns(), found.parent, found.name)
        self._enter(found, made, "mkdir")
        found.parent.nlink += 1
        return made

    def rmdir(self, path: str, base: Directory) -> None:
        found = self.find(path, base, follow=None)
        if found.name in SPECIAL:
            number = {".": errno.EINVAL, "..": errno.ENOTEMPTY, "/": errno.EBUSY}[found.name]
            raise os_error(number)
        directory = self._owned(found)
        if not isinstance(directory, Directory):
            raise os_error(errno.ENOTDIR)
        if self.names(directory):
            raise os_error(errno.ENOTEMPTY)
        self._change("rmdir", (found.parent, found.name, None))
        directory.gone = True
        directory.nlink = 0
        found.parent.nlink -= 1

    def unlink(self, path: str, base: Directory) -> None:
        found = self.find(path, base, follow=None)
        if isinstance(found.node, Directory):
            raise os_error(errno.EISDIR)
        if found.slash and found.node is not None:
            raise os_error(errno.ENOTDIR)
        node = self._owned(found)
        self._change("unlink", (found.parent, found.name, None))
        self._dropped(node)

    def link(
        self, source: str, target: str, bases: tuple[Directory, Directory], *, follow: bool
    ) -> None:
        old = self.find(source, bases[0], follow=follow)
        if old.node is None:
            raise os_error(errno.ENOENT)
        new = self.find(target, bases[1], follow=None)
        if new.node is not None:
            raise os_error(errno.EEXIST)
        if new.slash:
            raise os_error(errno.ENOENT)
        if isinstance(old.node, Directory):
            raise os_error(errno.EPERM)
        node = self._owned(old)
        self._enter(new, node, "link")
        node.nlink += 1
        node.ctime_ns = self.now_ns()

    def symlink(self, target: str, path: str, base: Directory) -> None:
        if not target:
            raise os_error(errno.ENOENT)
        found = self.find(path, base, follow=None)
        if found.node is not None:
            raise os_error(errno.EEXIST)
        if found.slash:
            raise os_error(errno.ENOENT)
        self._enter(found, Symlink(self.next_number(), target, self.now_ns()), "symlink")

    def readlink(self, path: str, base: Directory) -> str:
        node = self.node(path, base, follow=False)
        if not isinstance(node, Symlink):
            raise os_error(errno.EINVAL)
        return node.target

    def rename(self, source: str, target: str, bases: tuple[Directory, Directory]) -> None:
        old = self.find(source, bases[0], follow=None)
        new = self.find(target, bases[1], follow=None)
        if old.name in SPECIAL or new.name in SPECIAL:
            raise os_error(errno.EBUSY)
        self._check_rename(old, new)
        node = self._owned(old)
        replaced = None if new.node is None else self._owned(new)
        if replaced is node:
            return
        self._check_parent(new.parent)
        gone = (old.parent, old.name, None)
        self._change("rename", gone, (new.parent, new.name, node))
        node.ctime_ns = self.now_ns()
        if isinstance(node, Directory):
            node.parent, node.name = new.parent, new.name
            old.parent.nlink -= 1
            new.parent.nlink += 1
        if replaced is not None:
            self._dropped(replaced)
            if isinstance(replaced, Directory):
                replaced.gone = True
                new.parent.nlink -= 1

    def _check_rename(self, old: Found, new: Found) -> None:
        if old.node is None:
            raise os_error(errno.ENOENT)
        moves_directory = isinstance(old.node, Directory)
        if (old.slash or new.slash) and not moves_directory:
            raise os_error(errno.ENOTDIR)
        if moves_directory and _is_inside(new.parent, old.node):
            raise os_error(errno.EINVAL)
        if new.node is None or new.node is old.node:
            return
        if isinstance(new.node, Directory):
            if _is_inside(old.parent, new.node):
                raise os_error(errno.ENOTEMPTY)
            if not moves_directory:
                raise os_error(errno.EISDIR)
            if self.names(new.node):
                raise os_error(errno.ENOTEMPTY)
        elif moves_directory:
            raise os_error(errno.ENOTDIR)

    # --- files -----------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int, base: Directory) -> OpenFile | Inode:
        """Open a file or a directory. A file of the real disk that is only read is given back as
        it is: whoever asks opens that."""
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return self._open_unnamed(path, flags, mode, base)
        creates = bool(flags & os.O_CREAT)
        if creates and flags & os.O_DIRECTORY:
            raise os_error(errno.EINVAL)
        exclusive = creates and bool(flags & os.O_EXCL)
        if (
            creates
            and path.endswith("/")
            and self.find(path, base, follow=None).name not in SPECIAL
        ):
            raise os_error(errno.EISDIR)
        found = self.find(path, base, follow=not (exclusive or flags & os.O_NOFOLLOW))
        if found.node is None:
            if not creates:
                raise os_error(errno.ENOENT)
            node: Inode = File(self.next_number(), mode & 0o7777, self.now_ns(), self.space)
            self._enter(found, node, "create")
            return OpenFile(self, node, flags, path)
        if exclusive:
            raise os_error(errno.EEXIST)
        return self._open_found(found, flags, path)

    def _open_found(self, found: Found, flags: int, path: str) -> OpenFile | Inode:
        node = found.node
        writes = bool(flags & WRITES)
        if isinstance(node, Directory):
            if writes or flags & os.O_CREAT:
                raise os_error(errno.EISDIR)
        elif flags & os.O_DIRECTORY:
            raise os_error(errno.ENOTDIR)
        elif isinstance(node, Symlink):
            raise os_error(errno.ELOOP)
        elif writes:
            node = self._owned(found)
        assert node is not None, "the caller has looked"
        if not isinstance(node, Directory | File) and found.name in found.parent.lower:
            return node
        opened = OpenFile(self, node, flags, path)
        if flags & os.O_TRUNC and isinstance(node, File):
            self.truncate_node(node, 0)
        return opened

    def _open_unnamed(self, path: str, flags: int, mode: int, base: Directory) -> OpenFile:
        directory = self.directory(path, base)
        if flags & os.O_ACCMODE == os.O_RDONLY:
            raise os_error(errno.EINVAL)
        self._check_parent(directory)
        node = File(self.next_number(), mode & 0o7777, self.now_ns(), self.space)
        node.nlink = 0
        return OpenFile(self, node, flags, path)

    def truncate(self, path: str, size: int, base: Directory) -> None:
        found = self.find(path, base)
        if isinstance(found.node, Directory):
            raise os_error(errno.EISDIR)
        node = self._owned(found)
        if not isinstance(node, File):
            raise os_error(errno.EINVAL)
        self.truncate_node(node, size)

    def truncate_node(self, node: File, size: int) -> None:
        if size < 0:
            raise os_error(errno.EINVAL)
        if size > FILE_SIZE_MAX:
            raise os_error(errno.EFBIG)
        self.before("truncate", node)
        node.content.truncate(size)
        node.mtime_ns = node.ctime_ns = self.now_ns()

    def chmod(self, node: Inode, mode: int) -> None:
        node.mode = stat.S_IFMT(node.mode) | (mode & 0o7777)
        node.ctime_ns = self.now_ns()

    def own(self, path: str, base: Directory, *, follow: bool = True) -> Inode:
        """What is there, as a node that may be changed."""
        return self._owned(self.find(path, base, follow=follow))

    # --- durability ------------------------------------------------------------------------------

    def sync_node(self, node: Inode) -> None:
        """`fsync`. Of a file: its content and size, not the name that leads to it."""
        try:
            self.before("fsync", node)
        except OSError:
            if isinstance(node, File):
                node.content.give_up()
            raise
        if self.trouble is not None and self.trouble.is_lying():
            return
        if isinstance(node, File):
            node.content.commit()
        elif isinstance(node, Directory):
            self.journal.commit_directory(node)

    def sync_all(self) -> None:
        """`sync`: everything."""
        self.before("fsync", None)
        if self.trouble is None or not self.trouble.is_lying():
            self.make_durable()

    def make_durable(self) -> None:
        """As if a long time had passed: everything is on the platter."""
        self.journal.commit(len(self.journal.pending))
        for _, node in self.walk_all():
            if isinstance(node, File):
                node.content.commit()

    def plant(self, directory: Directory, name: str, node: Inode) -> None:
        """Put something there that was there always."""
        directory.entries[name] = directory.durable[name] = node

    def new_directory(self, parent: Directory, name: str, mode: int = 0o755) -> Directory:
        """A directory that was there always."""
        made = Directory(self.next_number(), mode, self.now_ns(), parent, name)
        parent.nlink += 1
        self.plant(parent, name, made)
        return made

    def new_file(self, mode: int) -> File:
        """A file without a name."""
        return File(self.next_number(), mode, self.now_ns(), self.space)

    # --- inside ----------------------------------------------------------------------------------

    def before(self, what: str, node: Inode | None) -> None:
        if self.trouble is not None:
            self.trouble.before(what, node)

    def before_write(
        self, file: File, offset: int, data: bytes | memoryview
    ) -> tuple[File, int, bytes | memoryview]:
        if self.trouble is None:
            return file, offset, data
        self.trouble.before("write", file)
        return self.trouble.before_write(file, offset, data)

    def next_number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _owned(self, found: Found) -> Inode:
        if found.node is None:
            raise os_error(errno.ENOENT)
        if self.lower is not None and found.name in found.parent.lower:
            return self.lower.lift(found.parent, found.name, found.node)
        return found.node

    def _check_parent(self, directory: Directory) -> None:
        if directory.gone:
            raise os_error(errno.ENOENT)

    def _enter(self, found: Found, node: Inode, what: str) -> None:
        """A new name for a node."""
        self._check_parent(found.parent)
        if self.space.limit is not None and self.space.used >= self.space.limit:
            raise os_error(errno.ENOSPC)
        self.before("create", None)
        self._change(what, (found.parent, found.name, node))

    def _change(self, what: str, *changes: tuple[Directory, str, Inode | None]) -> None:
        self.before("names", None)
        now_ns = self.now_ns()
        for directory, _, _ in changes:
            directory.mtime_ns = directory.ctime_ns = now_ns
        self.journal.add(what, *changes)

    def _dropped(self, node: Inode) -> None:
        """One name less."""
        node.nlink -= 1
        node.ctime_ns = self.now_ns()
        if isinstance(node, File):
            node.forget_if_unused()


def _is_inside(directory: Directory, ancestor: Inode) -> bool:
    """Whether `directory` is `ancestor` or lies below it."""
    at = directory
    while at is not ancestor:
        if at.parent is at:
            return False
        at = at.parent
    return True
