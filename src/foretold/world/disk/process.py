"""The file side of one process on a host: its descriptors, working directory and umask.

It dies with the process. What was written by it stays on the disk; what it still had in Python's
buffers is gone, so a dead process accepts writes and does nothing with them: they are the last
flushes of buffers that are collected some time later.
"""

from __future__ import annotations

import errno
import os
import sys
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel.computer import computer_of
from foretold.kernel.file_patches import ELSEWHERE, RealPath
from foretold.world.disk.filesystem import FileSystem
from foretold.world.disk.lower import LowerFile, RealFiles
from foretold.world.disk.nodes import Directory, Inode
from foretold.world.disk.openfile import OpenFile
from foretold.world.disk.walk import NullInPath
from foretold.world.net import descriptors
from foretold.world.net.descriptors import FIRST
from foretold.world.oserrors import os_error

if TYPE_CHECKING:
    from foretold.world.disk.mapping import DiskMap
    from foretold.world.host import Host

FSYNC_STEPS: Final = 50
"""How many steps' time a sync takes on a healthy disk."""
READ_WHY: Final = (
    "The real machine has it, the simulated disk does not, and another machine may differ."
)

OF_THE_KERNEL: Final = ("/proc", "/sys")
"""What Linux says about a machine. Libraries look there for the number of processors or the use of
memory, and do without where it is missing, as it is in some containers."""


class Elsewhere(Exception):
    """The call is about a descriptor or a file of the real world."""


class Process:
    """What the calls of one process share."""

    def __init__(self, host: Host, fs: FileSystem, real: RealFiles) -> None:
        self.host = host
        self.fs = fs
        self.real = real
        self.maps: list[DiskMap] = []
        """Files that it has mapped into its memory."""
        self.descriptors: descriptors.Descriptors = host.descriptors
        """What its descriptors stand for: its files are there, and its sockets and pipes."""
        self.dead = False
        self.umask_bits = 0o022
        self.cwd = fs.directory(real.working_directory, fs.root)

    def die(self) -> None:
        """Its files are closed. Somebody may still hold one, in a global name perhaps: that keeps
        neither the host nor its world alive."""
        self.settle_maps()  # the kernel has seen each change of a shared mapping
        self.dead = True
        files = self.descriptors.files
        mine = {fd: each for fd, each in files.items() if isinstance(each, OpenFile)}
        for fd in mine:
            del files[fd]
        for opened in {id(each): each for each in mine.values()}.values():
            opened.released()
        self.maps.clear()
        del self.host, self.fs, self.real, self.cwd, self.descriptors

    def answer_of(self, name: str) -> Callable[..., Any]:
        """Who answers a call of the standard library about a path."""
        method: Callable[..., Any] = getattr(self, name)
        files = self.descriptors.files

        def answer(*args: Any, **names: Any) -> Any:
            if args and type(args[0]) is int and name != "umask":
                found = files.get(args[0])
                if found is None or not isinstance(found, OpenFile):
                    return self._about_no_file(name, args[0], found)
            try:
                return method(*args, **names)
            except Elsewhere:
                return ELSEWHERE
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    other = self._ask_others(name, args, names)
                    if other is not NotImplemented:
                        return other
                if error.filename is None:
                    self._name_files(error, name, args, names)
                raise
            except NullInPath:
                if name == "io_open" or sys.version_info < (3, 13):
                    raise ValueError("embedded null byte") from None
                raise ValueError(f"{name}: embedded null character in path") from None

        return answer

    def _about_no_file(self, name: str, fd: int, found: descriptors.OpenDescriptor | None) -> Any:
        """A pipe or a socket where a path could stand."""
        if found is None:
            raise os_error(errno.EBADF)
        if name == "stat":
            return found.stat(fd)
        raise os_error(errno.ENOTDIR if name in ("listdir", "scandir", "chdir") else errno.EINVAL)

    def _ask_others(self, name: str, args: tuple[Any, ...], names: dict[str, Any]) -> Any:
        """What is no file may be something else that has a path on this host."""
        answer = self.host.stack.unix.answers.get(name)
        return NotImplemented if answer is None else answer(*args, **names)

    def _name_files(
        self, error: OSError, name: str, args: tuple[Any, ...], names: dict[str, Any]
    ) -> None:
        if name in _ONE_PATH and (args or "path" in names):
            error.filename = _named(args[0] if args else names["path"])
        elif name in _TWO_PATHS:
            both = (*args, *(names[key] for key in ("src", "dst") if key in names))[:2]
            error.filename, error.filename2 = map(_named, both)

    # --- from what a program says to what it means -----------------------------------------------

    def base(self, dir_fd: int | None) -> Directory:
        """Where a relative path begins."""
        if dir_fd is None:
            return self.cwd
        node = self.opened(dir_fd).node
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR)
        return node

    def opened(self, fd: int) -> OpenFile:
        """The file that a descriptor stands for. Real ones are elsewhere, others are no files."""
        if not isinstance(fd, int):
            raise TypeError(f"an integer is required (got type {type(fd).__name__})")
        found = self.descriptors.files.get(fd)
        if not isinstance(found, OpenFile):
            if found is None and fd < FIRST:
                raise Elsewhere
            raise os_error(errno.EBADF if found is None else errno.EINVAL)
        if self.maps:
            self.settle_maps()
        return found

    def settle_maps(self) -> None:
        """What was changed in mappings is in their files."""
        for each in self.maps:
            each.give()

    def give(self, opened: OpenFile) -> int:
        """A descriptor for an open file."""
        opened.process = self  # type: ignore[assignment]  # all processes are Calls
        return self.descriptors.give(opened)

    def node_at(self, path: Any, dir_fd: int | None, *, follow: bool = True) -> Inode:
        """What a path or a descriptor leads to, to be looked at."""
        if isinstance(path, int):
            return self.opened(path).node
        return self.fs.node(text(path), self.base(dir_fd), follow=follow)

    def own_node_at(self, path: Any, dir_fd: int | None = None, *, follow: bool = True) -> Inode:
        """What a path or a descriptor leads to, to be changed."""
        if isinstance(path, int):
            return self.opened(path).node
        return self.fs.own(text(path), self.base(dir_fd), follow=follow)

    def absolute(self, path: Any, dir_fd: int | None = None) -> str:
        """The path as the real machine would name it; only by its text."""
        return os.path.normpath(os.path.join(self.base(dir_fd).path, text(path)))

    def missing(
        self, call: str, path: Any, dir_fd: int | None, number: int | None
    ) -> RealPath | None:
        """Something that is to be read is not on this disk. If it is a source, it is read from the
        real one; if the real machine has it, a word is due. None: it is not there.

        Who calls this raises its error itself. An error that is raised from here would be held by
        this frame, and hold it: a cycle, which keeps what the program's own frames refer to."""
        if number != errno.ENOENT:
            return None
        where = self.absolute(path, dir_fd)
        if self.real.is_source(where) and not self._was_removed(where):
            return RealPath(where)
        if self.real.is_missed(where):
            host = self.host
            instead = f"world.host({host.name!r}).disk.write({where!r}, b'…')"
            if not where.startswith(OF_THE_KERNEL):
                instead += "  # put it on the simulated disk"
                host.escaped(f"{call}({where!r})", READ_WHY, instead)
            host.kernel.notes[
                f"{call}({where!r}): a host has no /proc and no /sys, so this is missing there. A "
                f"program that needs it can use {instead}"
            ] = None
        return None

    def _was_removed(self, path: str) -> bool:
        try:
            found = self.fs.find(path, self.fs.root)
        except OSError:
            return False
        return found.name in found.parent.hidden

    # --- what it costs ---------------------------------------------------------------------------

    def passes(self, call: str, n: int = 0) -> None:
        """A call takes its time, and stands in the trace. By its size alone: what is written may
        hold addresses, as logs do, and paths may hold pytest's numbers. Not so what a module's top
        level reads: the next run finds the module there."""
        for each in self.maps:  # what was written to files is in their mappings
            each.take()
        computer = computer_of(get_ident())
        if computer is not None and computer.is_importing:
            return
        clock = self.host.kernel.clock
        clock.ns += clock.step_ns * (FSYNC_STEPS if call in ("fsync", "fdatasync") else 1)
        self.host.kernel.trace.note(f"disk {self.host.name} {call} {n}")


_ONE_PATH: Final = frozenset(
    {
        *("open", "io_open", "stat", "lstat", "access", "listdir", "scandir", "readlink"),
        *("statvfs", "mkdir", "rmdir", "remove", "unlink", "truncate", "chmod", "chown", "lchown"),
        *("chdir", "getxattr", "setxattr", "removexattr", "listxattr"),
        *(("utime",) if sys.version_info >= (3, 13) else ()),  # before, its errors had no path
    }
)
_TWO_PATHS: Final = frozenset(["rename", "replace", "link", "symlink"])


def text(path: Any) -> str:
    """A path as text, whatever it was given as."""
    return os.fsdecode(path)


def _named(path: Any) -> Any:
    return path if isinstance(path, int) else os.fspath(path)


def real_path(node: Inode) -> RealPath | None:
    """Where on the real disk a node is, if it is there."""
    return RealPath(node.path) if isinstance(node, LowerFile) else None
