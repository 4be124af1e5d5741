"""Nothing leaves the world unseen: what would touch reality from inside a run raises instead.

A real socket, process, thread, signal or file answers as reality happens to be, so the run could
not be replayed. Each way out is stopped at the builtin itself, whatever name led to it, and the
error says which call it was, why it cannot be replayed, and what to write instead.

Stopped: processes, signals, waiting on descriptors, sockets and name look-ups, files
outside the readable set, changes to the file system, the keyboard, setting the system's clock. (A
computer with a disk of its own answers for files before they come here: file_patches.py.)

Not stopped: reading what belongs to the program as it stands on disk (modules, sources for
tracebacks, time zones, certificates); descriptors opened before the run, so that logging and
captured output go on; `stat`; C libraries that open files by themselves (sqlite3 is led to the
simulated disk). And nothing is stopped in threads that are not of the run.

Why not `sys.addaudithook`, which was made for this? A hook can never be taken out again, and from
then on each `id()`, `sys._getframe()` and `function.__code__` of the process calls it: 30 ns become
200, for all programs that once imported us. It also misses signals, `select`, and threads on 3.11.
"""

from __future__ import annotations

import _io
import _socket
import enum
import importlib
import os
import select
import signal
import socket
import sys
from _thread import get_ident
from collections.abc import Callable, Container, Iterator, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.swap import Setting, Swap, copy_of

# --- who may pass ----------------------------------------------------------------------------

_passing: Final[dict[int, int]] = {}


class _Passage:
    """Opens the fence for the thread that enters it; may be nested."""

    __slots__ = ()

    def __enter__(self) -> None:
        ident = get_ident()
        _passing[ident] = _passing.get(ident, 0) + 1

    def __exit__(self, *exc: object) -> None:
        ident = get_ident()
        if _passing[ident] == 1:
            del _passing[ident]
        else:
            _passing[ident] -= 1


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
    return None if ident in _passing else computer


# Debuggers and tracebacks read files and the keyboard on behalf of the person who watches the run.
TOOLS: Final = frozenset({"linecache", "pdb", "bdb", "cmd"})
_TOOL_FRAMES = 5


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_TOOL_FRAMES):
        if frame is not None:
            yield frame
            frame = frame.f_back


def _for_a_runner() -> bool:
    """`asyncio.run` asks for Ctrl-C, and goes on without it where that gives a ValueError."""
    return any(frame.f_globals.get("__name__") == "asyncio.runners" for frame in _callers())


def _for_a_tool() -> bool:
    return any(frame.f_globals.get("__name__") in TOOLS for frame in _callers())


# --- how a call is shown ---------------------------------------------------------------------

_SHOWN_CHARS_MAX = 60
_SHOWN_ITEMS_MAX = 4


def _show(value: object) -> str:
    """A value as it would stand in the source, without addresses: they differ in each run."""
    if isinstance(value, enum.Enum):
        text = value.name
    elif isinstance(value, tuple | list):
        items = [_show(item) for item in value[:_SHOWN_ITEMS_MAX]]
        items += ["…"] if len(value) > _SHOWN_ITEMS_MAX else []
        text = f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)})"
    elif isinstance(value, str | bytes | int | float | None):
        text = repr(value)
    elif isinstance(value, os.PathLike):
        text = repr(os.fspath(value))
    elif isinstance(value, dict):
        text = "{…}"  # an environment, mostly
    else:
        text = getattr(value, "__qualname__", f"<{type(value).__name__}>")
    return text if len(text) <= _SHOWN_CHARS_MAX else text[: _SHOWN_CHARS_MAX - 1] + "…"


def _show_call(name: str, args: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(_show, args))})"


def _show_start(name: str, args: Sequence[Any]) -> str:
    """The start of a thread, as it stands in the program rather than in `threading`."""
    thread = getattr(args[0], "__self__", None) if args else None
    if hasattr(thread, "_bootstrap"):
        return f"threading.Thread(target={_show(getattr(thread, '_target', None))}).start()"
    return _show_call(name, args[:1])


def _show_process(name: str, args: Sequence[Any]) -> str:
    return _show_call("subprocess.Popen", args[:1])


def _show_signal(name: str, args: Sequence[Any]) -> str:
    return _show_call(name, [_member(signal.Signals, number) for number in args[:1]])


def _show_two(name: str, args: Sequence[Any]) -> str:
    return _show_call(name, args[:2])


def _show_socket(name: str, args: Sequence[Any]) -> str:
    module = sys.modules.get("socket")
    kinds = (module.AddressFamily, module.SocketKind) if module else (int, int)
    return _show_call(name, [_member(*pair) for pair in zip(kinds, args, strict=False)])


def _member(kind: type, number: Any) -> Any:
    try:
        return kind(number)
    except ValueError:
        return number  # flags make numbers that have no name: SOCK_STREAM | SOCK_CLOEXEC


# --- what is never allowed -------------------------------------------------------------------


class _Ban(NamedTuple):
    """Builtins of one module that may not be called in a run, and what to say then."""

    module: str
    names: str
    why: str
    instead: str
    show: Callable[[str, Sequence[Any]], str] = _show_call


_THREAD_WHY = "the operating system decides when a real thread runs, not the tape"
_PROCESS_WHY = "another process runs in real time, and its answers are not on the tape"
_PROCESS_INSTEAD = 'world.host("worker").start(main)  # a process of the simulated world'
_SIGNAL_WHY = "a real signal reaches this process at a real moment, and reaches the test runner too"
_SIGNAL_INSTEAD = "task.cancel()  # what a handler of SIGTERM would bring about"
_WAIT_WHY = "it waits in real time for a real descriptor, while virtual time stands still"
_SOCKET_WHY = "the real network answers when and as it likes"
_NAMES_WHY = "the answer depends on the real network and on this machine's settings"
_STREAM = "await asyncio.open_connection(host, port)  # the simulated network"

_BANS: Final = (
    _Ban("_thread", "start_new_thread start_new start_joinable_thread", _THREAD_WHY,
         "asyncio.create_task(work())  # a coroutine", _show_start),  # a world answers it
    _Ban("posix", "fork forkpty system posix_spawn posix_spawnp execv execve",
         _PROCESS_WHY, _PROCESS_INSTEAD),
    _Ban("_posixsubprocess", "fork_exec", _PROCESS_WHY, _PROCESS_INSTEAD, _show_process),
    _Ban("posix", "kill killpg", _SIGNAL_WHY,
         "task.cancel()  # to end a part of the program"),
    _Ban("posix", "_exit abort", "it ends the test runner, not only the simulated process",
         "raise SystemExit  # ends the run"),
    _Ban("_signal", "signal raise_signal siginterrupt", _SIGNAL_WHY, _SIGNAL_INSTEAD, _show_signal),
    _Ban("_signal", "setitimer alarm pthread_kill pidfd_send_signal set_wakeup_fd pthread_sigmask",
         _SIGNAL_WHY, _SIGNAL_INSTEAD),
    _Ban("_signal", "pause sigwait sigwaitinfo sigtimedwait", _SIGNAL_WHY,
         "await asyncio.Event().wait()"),
    _Ban("select", "select poll", _WAIT_WHY, _STREAM),
    _Ban("_socket", "socketpair", _SOCKET_WHY, _STREAM),
    _Ban("_socket", "getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr getnameinfo",
         _NAMES_WHY, "await loop.getaddrinfo(host, port)  # the simulated network", _show_two),
    _Ban("time", "clock_settime clock_settime_ns", "it sets the clock of the real machine",
         "world.clock.set_time(epoch_s)  # or world.clock.skew(seconds)"),
)  # fmt: skip

_PUBLIC_NAMES: Final = {"posix": "os", "_signal": "signal", "_socket": "socket"}


def _stop(original: Callable[..., Any], ban: _Ban) -> Callable[..., Any]:
    """The builtin as it behaves while we are installed."""
    name = f"{_PUBLIC_NAMES.get(ban.module, ban.module)}.{original.__name__}"

    def stopped(*args: Any, **names: Any) -> Any:
        computer = fenced_in()
        if computer is not None:
            answer = computer.answer(name)
            if answer is not None:
                return answer(*args, **names)
            if name == "signal.signal" and _for_a_runner():
                raise ValueError("no signal reaches a simulated computer")
            computer.escaped(ban.show(name, args), ban.why, ban.instead)
        return original(*args, **names)

    return stopped


def _swaps_of(ban: _Ban) -> Iterator[Swap]:
    module = importlib.import_module(ban.module)
    for name in ban.names.split():
        builtin = getattr(module, name, None)
        if builtin is not None:  # else: this Python or system has no such way out
            yield Swap(builtin, _stop(copy_of(builtin), ban))


# --- sockets and selectors: C types ----------------------------------------------------------

_socket_init: Final = _socket.socket.__init__


def _fenced_socket_init(self: _socket.socket, *args: Any, **names: Any) -> None:
    computer = fenced_in()
    if computer is not None:
        computer.escaped(_show_socket("socket.socket", args), _SOCKET_WHY, _STREAM)
    _socket_init(self, *args, **names)


def _stop_method(name: str) -> Setting:
    """A method that reaches out through a socket made before the run."""
    original = _socket.socket.__dict__[name]

    def stopped(self: _socket.socket, *args: Any) -> Any:
        computer = fenced_in()
        if computer is not None:
            computer.escaped(_show_call(f"socket.{name}", args), _SOCKET_WHY, _STREAM)
        return original(self, *args)

    return Setting(_socket.socket, name, stopped)


def _stop_selector(kind: type) -> Setting:
    # Its instances are complete after __new__: there is no other __init__ than object's.
    def stopped(self: object, *args: Any, **names: Any) -> None:
        computer = fenced_in()
        if computer is not None:
            computer.escaped(f"select.{kind.__name__}()", _WAIT_WHY, _STREAM)

    return Setting(kind, "__init__", stopped)


_socket_new: Final = _socket.socket.__new__


def _simulated_socket_new(cls: type, *args: Any, **names: Any) -> Any:
    """`socket.socket(…)`, under whatever name it was imported, gives a socket of the world."""
    computer = fenced_in()
    if computer is not None and cls is socket.socket:
        answer = computer.answer("socket.socket")
        if answer is not None:
            return answer()
    return _socket_new(cls)


def _socket_settings() -> Iterator[Setting]:
    yield Setting(socket.socket, "__new__", staticmethod(_simulated_socket_new))
    yield Setting(_socket.socket, "__init__", _fenced_socket_init)
    for name in ("connect", "connect_ex", "bind"):
        yield _stop_method(name)
    for name in ("epoll", "kqueue", "devpoll"):
        if hasattr(select, name) and isinstance(getattr(select, name), type):
            yield _stop_selector(getattr(select, name))


# --- files -----------------------------------------------------------------------------------

_FILE_WHY = "a file of the real machine may change, or be missing, when the run is replayed"
_WRITE_WHY = "what one run leaves on the real disk is found by the next run"
_LIST_WHY = "the real disk lists its files in any order, and other ones elsewhere"
_READ_INSTEAD = "read it before the run: DATA = Path(…).read_text() at the top of the module"
_WRITE_INSTEAD = "keep it in memory: io.BytesIO() or io.StringIO()"

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
    text = os.path.abspath(os.fsdecode(path))
    if text.endswith(_SOURCE_ENDINGS) or is_below(text, _roots):
        return True
    _roots = _find_roots()  # sys.path may have changed
    return is_below(text, _roots) or is_below(os.path.realpath(text), _roots)


def _may_open(path: Any, *, write: bool) -> bool:
    if isinstance(path, int):
        return True
    if write:
        return os.fsdecode(path) == os.devnull
    return is_readable(path)


def _complain(computer: Computer, call: str, *, write: bool) -> NoReturn:
    why, instead = (_WRITE_WHY, _WRITE_INSTEAD) if write else (_FILE_WHY, _READ_INSTEAD)
    computer.escaped(call, why, instead)


_file_init: Final = _io.FileIO.__init__


def _fenced_file_init(
    self: _io.FileIO, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None
) -> None:
    """All of `open`, `io.open`, `Path.open`, `tokenize.open` come here; an opener opens itself."""
    computer = fenced_in()
    if computer is not None and opener is None:
        write = not set("wax+").isdisjoint(mode)
        if not _may_open(file, write=write) and not _for_a_tool():
            shown = _show_call("open", (file, mode) if write else (file,))
            _complain(computer, shown, write=write)
    _file_init(self, file, mode, closefd, opener)


_os_open: Final = copy_of(os.open)


def _fenced_os_open(path: Any, flags: int, *args: Any, **names: Any) -> int:
    computer = fenced_in()
    if computer is not None:
        write = bool(flags & _WRITE_FLAGS)
        if not _may_open(path, write=write) and not _for_a_tool():
            _complain(computer, _show_call("os.open", (path,)), write=write)
    return _os_open(path, flags, *args, **names)


def _stop_listing(original: Callable[..., Any]) -> Callable[..., Any]:
    def stopped(path: Any = None) -> Any:
        computer = fenced_in()
        if computer is not None and not is_readable("." if path is None else path):
            shown = _show_call(f"os.{original.__name__}", () if path is None else (path,))
            computer.escaped(shown, _LIST_WHY, _READ_INSTEAD)
        return original(path)

    return stopped


def _stop_writing(original: Callable[..., Any]) -> Callable[..., Any]:
    name = f"os.{original.__name__}"

    def stopped(*args: Any, **names: Any) -> Any:
        computer = fenced_in()
        if computer is not None and not (args and isinstance(args[0], int)):
            answer = computer.answer(name)
            result = NotImplemented if answer is None else answer(*args, **names)
            if result is not NotImplemented:  # a file of the world
                return result
            _complain(computer, _show_call(name, args[:2]), write=True)
        return original(*args, **names)

    return stopped


_WRITERS: Final = (
    "mkdir rmdir remove unlink rename replace link symlink truncate chmod chown lchown utime"
    " mkfifo mknod chdir chroot setxattr removexattr"
)


def _file_changes() -> Iterator[Swap | Setting]:
    yield Setting(_io.FileIO, "__init__", _fenced_file_init)
    yield Swap(os.open, _fenced_os_open)
    for builtin in (os.listdir, os.scandir):
        yield Swap(builtin, _stop_listing(copy_of(builtin)))
    for name in _WRITERS.split():
        if hasattr(os, name):
            yield Swap(getattr(os, name), _stop_writing(copy_of(getattr(os, name))))


# --- the keyboard ----------------------------------------------------------------------------

_KEYBOARD_WHY = "what is typed is not on the tape"
_KEYBOARD_INSTEAD = 'foretold.choose(["yes", "no"], "answer")'
_real_input: Final = copy_of(input)


def _check_keyboard(call: str) -> None:
    computer = fenced_in()
    if computer is not None and not _for_a_tool():
        computer.escaped(call, _KEYBOARD_WHY, _KEYBOARD_INSTEAD)


def _fenced_input(*prompt: object) -> str:
    _check_keyboard(_show_call("input", prompt))
    return _real_input(*prompt)


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

_stdin_before: Any = None
_bytecode_before = False


def begin_run() -> None:
    """Fence the keyboard, and let imports write no compiled modules: a write like any other."""
    global _stdin_before, _bytecode_before
    _stdin_before, _bytecode_before = sys.stdin, sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    if _stdin_before is not None:
        sys.stdin = FencedStdin(_stdin_before)


def end_run() -> None:
    """Give the keyboard back, unless someone put another stream there meanwhile."""
    global _stdin_before
    sys.dont_write_bytecode = _bytecode_before
    if isinstance(sys.stdin, FencedStdin):
        sys.stdin = _stdin_before
    _stdin_before = None


CHANGES: Final[tuple[Swap | Setting, ...]] = (
    *(swap for ban in _BANS for swap in _swaps_of(ban)),
    *_socket_settings(),
    *_file_changes(),
    Swap(input, _fenced_input),
)
