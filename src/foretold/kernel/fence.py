"""Who may pass into the real world from inside a run, and what of the real disk may be read.

A real socket, process, thread, signal or file answers as reality happens to be, so the run could
not be replayed. What becomes of each builtin is in the table (syscalls/); here is who is exempt:
threads that are not of the run, the framework itself in a *passage*, and those who act for a person
(debuggers, tracebacks, the import system). And what belongs to the program as it stands on the real
disk: modules, sources for tracebacks, time zones, certificates.

Why not `sys.addaudithook`, which was made for this? A hook can never be taken out again, and from
then on each `id()`, `sys._getframe()` and `function.__code__` of the process calls it: 30 ns become
200, for all programs that once imported us. It also misses signals, `select`, and threads on 3.11.
"""

from __future__ import annotations

import importlib._bootstrap_external as import_system
import os
import sys
from _thread import get_ident
from collections.abc import Container, Iterator
from types import FrameType
from typing import Any, Final

from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.syscalls.of_os import WRITE_INSTEAD, WRITE_WHY
from foretold.kernel.syscalls.of_python import KEYBOARD_INSTEAD, KEYBOARD_WHY
from foretold.kernel.syscalls.rows import words
from foretold.kernel.syscalls.showing import show_call

# --- who may pass ----------------------------------------------------------------------------

passing: Final[dict[int, int]] = {}
"""The threads that are in a passage, and how deep."""


class _Passage:
    """Opens the fence for the thread that enters it; may be nested."""

    __slots__ = ()

    def __enter__(self) -> None:
        ident = get_ident()
        passing[ident] = passing.get(ident, 0) + 1

    def __exit__(self, *exc: object) -> None:
        ident = get_ident()
        if passing[ident] == 1:
            del passing[ident]
        else:
            passing[ident] -= 1


_PASSAGE: Final = _Passage()


def passage() -> _Passage:
    """`with fence.passage():` lets the framework itself reach the real world, in this thread.

    Clock and entropy stay simulated inside; the real ones are in `foretold.kernel.real`.
    """
    return _PASSAGE


def fenced_in() -> Computer | None:
    """The computer to complain to, or None if this thread may do as it likes."""
    ident = get_ident()
    computer = computer_of(ident)
    return None if ident in passing else computer


# Debuggers and tracebacks read files and the keyboard on behalf of the person who watches the run;
# pytest's capture moves the descriptors that it has made.
TOOLS: Final = frozenset({"linecache", "pdb", "bdb", "cmd", "_pytest.capture"})
_REMOTE_DEBUGGERS: Final = ("pydevd", "_pydevd", "debugpy")
_TOOL_FRAMES: Final = 8


def _callers() -> Iterator[str]:
    """The modules of those who called, ours left out."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_TOOL_FRAMES):
        if frame is not None:
            name = frame.f_globals.get("__name__")
            frame = frame.f_back
            if isinstance(name, str) and not name.startswith("foretold.kernel."):
                yield name


def for_a_runner() -> bool:
    """`asyncio.run` asks for Ctrl-C, and goes on without it where that gives a ValueError."""
    return "asyncio.runners" in _callers()


def for_a_tool() -> bool:
    """Whether a tool asks, for the person who watches the run."""
    return any(name in TOOLS or name.startswith(_REMOTE_DEBUGGERS) for name in _callers())


_SEE_REALITY: Final = TOOLS | {import_system.__name__, "_pytest.assertion.rewrite"}
"""The last one imports test modules in the import system's place."""
_REALITY_FRAMES: Final = 3


def sees_reality(frame: FrameType | None) -> bool:
    """Whether the caller is one that always sees the real disk."""
    left = _REALITY_FRAMES
    while left and frame is not None:
        if frame.f_globals.get("__name__") in _SEE_REALITY:
            return True
        frame, left = frame.f_back, left - 1
    return False


# --- files -----------------------------------------------------------------------------------

_FILE_WHY = "a file of the real machine may change, or be missing, when the run is replayed"
_LIST_WHY = "the real disk lists files in any order, and another machine has other files"
_READ_INSTEAD = "read it before the run: DATA = Path(…).read_text() at the top of the module"

_READABLE_ALWAYS: Final = (
    "/dev/null",
    "/etc/localtime", "/etc/timezone", "/etc/zoneinfo",
    "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo",
    "/etc/mime.types", "/etc/ssl", "/etc/pki", "/usr/share/ca-certificates",
    "/usr/share/locale", "/usr/lib/locale",
)  # fmt: skip
_SOURCE_ENDINGS: Final = (".py", ".pyc")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_allowed_by_user: Final[list[str]] = []
_roots: frozenset[str] = frozenset()


def allow_reading(*paths: str | os.PathLike[str]) -> None:
    """Files and folders that a run may read besides the usual ones, for the life of the process."""
    _allowed_by_user.extend(os.fspath(path) for path in paths)


def _paths_of_libraries() -> Iterator[str]:
    """What modules that are already imported will want to read."""
    modules = sys.modules
    if "zoneinfo" in modules:
        yield from modules["zoneinfo"].TZPATH
    if "mimetypes" in modules:
        yield from modules["mimetypes"].knownfiles
    if "ssl" in modules:
        yield from filter(None, modules["ssl"].get_default_verify_paths()[:2])


def _find_roots() -> frozenset[str]:
    places = [
        *sys.path,
        *(sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.__file__)),
        *_READABLE_ALWAYS,
        *_paths_of_libraries(),
        *_allowed_by_user,
    ]
    roots = {resolve(place) for place in places for resolve in (os.path.abspath, os.path.realpath)}
    return frozenset(roots - {os.sep})  # started in /: that does not make all files readable


def is_below(path: str, roots: Container[str]) -> bool:
    """Whether the path is one of these, or lies below one."""
    while path not in roots:
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent
    return True


def is_readable(path: Any) -> bool:
    """Whether a run may read this file or list this folder: it belongs to the program."""
    global _roots
    if isinstance(path, int):
        return True  # a descriptor that is open already
    with _PASSAGE:
        text = os.path.abspath(os.fsdecode(path))
        if text.endswith(_SOURCE_ENDINGS) or is_below(text, _roots):
            return True
        _roots = _find_roots()  # sys.path may have changed
        return is_below(text, _roots) or is_below(os.path.realpath(text), _roots)


def check_opening(computer: Computer, call: str, path: Any, *, write: bool) -> None:
    """A real file is about to be opened, past every simulated disk."""
    allowed = os.fsdecode(path) == os.devnull if write else is_readable(path)
    if not allowed and not for_a_tool():
        why, instead = (WRITE_WHY, WRITE_INSTEAD) if write else (_FILE_WHY, _READ_INSTEAD)
        computer.escaped(call, why, instead)


_WRITERS: Final = words(
    "os.mkdir os.rmdir os.remove os.unlink os.rename os.replace os.link os.symlink os.truncate"
    " os.chmod os.chown os.lchown os.utime os.chdir os.setxattr os.removexattr"
)


def check_without_disk(
    computer: Computer, name: str, args: tuple[Any, ...], names: dict[str, Any]
) -> None:
    """A call about a path of the real machine: the computer has no disk, or the path begins at a
    real directory that is open."""
    path = args[0] if args else names.get("path", ".")
    if isinstance(path, int):
        return
    if name in _WRITERS:
        computer.escaped(show_call(name, args[:2]), WRITE_WHY, WRITE_INSTEAD)
    if name == "os.open":
        flags = args[1] if len(args) > 1 else names.get("flags", 0)
        write = bool(flags & _WRITE_FLAGS)
        check_opening(computer, show_call(name, args[:1]), path, write=write)
    elif name in ("os.listdir", "os.scandir") and not is_readable(path or "."):
        computer.escaped(show_call(name, args), _LIST_WHY, _READ_INSTEAD)


# --- the keyboard ----------------------------------------------------------------------------


def _check_keyboard(call: str) -> None:
    computer = fenced_in()
    if computer is not None and not for_a_tool():
        computer.escaped(call, KEYBOARD_WHY, KEYBOARD_INSTEAD)


_READERS: Final = frozenset({"read", "read1", "readinto", "readinto1", "readline", "readlines"})


class FencedStdin:
    """`sys.stdin` during a run: all of the real one, but not its content."""

    def __init__(self, stream: Any, name: str = "sys.stdin") -> None:
        self._stream = stream
        self._name = name

    @property
    def buffer(self) -> FencedStdin:
        return FencedStdin(self._stream.buffer, "sys.stdin.buffer")

    def __getattr__(self, name: str) -> Any:
        if name in _READERS:
            _check_keyboard(f"{self._name}.{name}()")
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        _check_keyboard(f"for line in {self._name}")
        return iter(self._stream)

    def __next__(self) -> Any:
        _check_keyboard(f"next({self._name})")
        return next(self._stream)


# --- per run ---------------------------------------------------------------------------------

_STDIN: Final = ("stdin", "__stdin__")
_stdin_before: dict[str, Any] = {}
_bytecode_before = False


def begin_run() -> None:
    """Fence the keyboard, and let imports write no compiled modules: a write like any other."""
    global _bytecode_before
    _bytecode_before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    for name in _STDIN:
        stream = _stdin_before[name] = getattr(sys, name)
        if stream is not None:
            setattr(sys, name, FencedStdin(stream))


def end_run() -> None:
    """Give the keyboard back, unless someone put another stream there meanwhile."""
    sys.dont_write_bytecode = _bytecode_before
    for name, stream in _stdin_before.items():
        if isinstance(getattr(sys, name), FencedStdin):
            setattr(sys, name, stream)
    _stdin_before.clear()
