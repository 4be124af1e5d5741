"""Files: all calls of `os`, `io` and `fcntl` that name a file or a descriptor, led to the computer.

A computer with a disk of its own answers them (`answer("files")`); each call is one method there,
under the name that it has in `os`. The method may also say that the call is not for it:

    ELSEWHERE        a descriptor of the real world: go on as if nobody had asked
    RealPath(path)   a file of the program itself, to be read from the real disk under this path

Some callers always see the real disk, whatever the program has written: Python's import system,
pytest's in its place, and the tools that show source lines (`linecache`) or debug. Where the
computer has no disk, the fence stands (fence.py) as it does for everything else.
"""

from __future__ import annotations

import builtins
import fcntl
import importlib._bootstrap_external as import_system
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FrameType
from typing import Any, Final

from foretold.kernel import asking, fence
from foretold.kernel.computer import Computer
from foretold.kernel.swap import Change, ModuleName, Swap, copy_of

ELSEWHERE: Final = object()


class RealPath:
    """The answer is on the real disk, under this path."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


_IN_OS: Final = (
    # by path
    "open stat lstat access listdir scandir readlink statvfs mkdir rmdir remove unlink rename"
    " replace link symlink truncate chmod chown lchown utime chdir getcwd getcwdb"
    " getxattr setxattr removexattr listxattr pathconf"
    # by descriptor
    " close read write pread pwrite readv writev preadv pwritev lseek fstat fsync fdatasync"
    " ftruncate dup dup2 isatty fchmod fchown fchdir fstatvfs posix_fallocate posix_fadvise"
    " sendfile copy_file_range get_inheritable set_inheritable get_blocking set_blocking lockf"
    " fpathconf"
    # of the process
    " sync umask"
)
_IN_FCNTL: Final = "fcntl flock lockf"

_TOOLS: Final = fence.TOOLS | {"_pytest.assertion.rewrite"}
"""The last one imports test modules in the import system's place."""
_TOOL_FRAMES: Final = 3
_IMPORT_SYSTEM: Final = vars(import_system)


def _sees_reality(frame: FrameType | None) -> bool:
    """Whether the caller is one that always sees the real disk."""
    for _ in range(_TOOL_FRAMES):
        if frame is None:
            return False
        names = frame.f_globals
        if names is _IMPORT_SYSTEM or names.get("__name__") in _TOOLS:
            return True
        frame = frame.f_back
    return False


def _led(name: str, beyond: Callable[..., Any]) -> Callable[..., Any]:
    """A call that the computer's disk answers; `beyond` is what it does without one."""

    def led(*args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        if computer is None:
            return beyond(*args, **names)
        if _sees_reality(sys._getframe(1)):
            with fence.passage():
                return beyond(*args, **names)
        files = computer.answer("files")
        if files is None:
            return beyond(*args, **names)
        result = files(name, args, names)
        if result is ELSEWHERE:
            return beyond(*args, **names)
        if type(result) is RealPath:
            if args:
                args = (result.path, *args[1:])
            else:
                names["file" if name == "io_open" else "path"] = result.path
            names.pop("dir_fd", None)
            with fence.passage():
                return beyond(*args, **names)
        return result

    return led


_OTHERS: Final[tuple[Change, ...]] = (*fence.CHANGES, *asking.CHANGES)


def _changes() -> Iterator[Swap]:
    others = {
        id(change.function): change.replacement for change in _OTHERS if isinstance(change, Swap)
    }
    wanted = [(name, getattr(os, name, None)) for name in _IN_OS.split()]
    wanted += [(f"fcntl_{name}", getattr(fcntl, name)) for name in _IN_FCNTL.split()]
    wanted.append(("io_open", builtins.open))
    for name, builtin in wanted:
        if isinstance(builtin, BuiltinFunctionType):  # else: this system has no such call
            beyond = others.get(id(builtin)) or copy_of(builtin)
            yield Swap(builtin, _led(name, beyond))


class _AnyMap(type):
    """While `mmap.mmap` is ours, what the real one has made is still an instance of it."""

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, _real_mmap)


_real_mmap: Final = mmap.mmap


class led_mmap(mmap.mmap, metaclass=_AnyMap):  # noqa: N801  # it stands for mmap.mmap
    """`mmap.mmap` while we are installed. A C type's `__new__` cannot be changed and changed back,
    so it is the module's name that leads here; a name that was imported earlier gives EBADF for a
    simulated descriptor."""

    def __new__(cls, fileno: int, length: int, *args: Any, **names: Any) -> Any:
        if cls is not led_mmap:  # a class of the program's own, made while we were installed
            return _real_mmap.__new__(cls, fileno, length, *args, **names)
        computer = fence.fenced_in()
        files = None if computer is None else computer.answer("files")
        if files is not None:
            result = files("mmap", (fileno, length, *args), names)
            if result is not ELSEWHERE:
                return result
        return _real_mmap(fileno, length, *args, **names)


CHANGES: Final = tuple(_changes())
_LED: Final = frozenset(id(swap.function) for swap in CHANGES)


ALL_CHANGES: Final[tuple[Change, ...]] = (
    *(c for c in _OTHERS if not isinstance(c, Swap) or id(c.function) not in _LED),
    *CHANGES,
    ModuleName(mmap, "mmap", led_mmap),
)
"""Those of the fence, of sockets and pipes (asking.py), and ours. Where others change a builtin as
well, ours asks theirs."""


# --- per run ---------------------------------------------------------------------------------

TEMPORARY: Final = "/tmp"
_tempdir_before: str | bytes | None = None
_has_disk = False


def begin_run(computer: Computer) -> None:
    """Temporary files go to the simulated disk's directory for them."""
    global _has_disk, _tempdir_before
    _has_disk = computer.answer("files") is not None
    if _has_disk:
        _tempdir_before, tempfile.tempdir = tempfile.tempdir, TEMPORARY


def end_run() -> None:
    """Put the directory for temporary files back."""
    global _has_disk
    if _has_disk:
        tempfile.tempdir = _tempdir_before  # type: ignore[assignment]  # typeshed: str alone
        _has_disk = False


def real_temporary_directory() -> str:
    """Where temporary files of the real machine lie, as far as anybody has asked."""
    return os.fsdecode(_tempdir_before) if _tempdir_before else TEMPORARY
