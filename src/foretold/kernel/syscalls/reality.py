"""Descriptors of the real machine, in the hands of a program inside a run.

Those that were open before the run belong to the test runner: its log, its captured output, its
connection to other workers. A program may go on writing to them, as a log is written, and look at
what they are. It may not read, close or move them, nor change how they behave: what a real one
holds is not on the tape, and the next run would find it another one.

Those that the run itself was given (the program's own files, which lie on the real disk) it may do
with what it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from foretold.kernel import fence, real
from foretold.kernel.computer import FIRST, Computer
from foretold.kernel.syscalls.rows import words
from foretold.kernel.syscalls.showing import show_call

Call = Callable[..., Any]
given: Final[set[int]] = set()
"""The real descriptors that the run in progress was given."""

_ALLOWED: Final = words(
    "os.write os.writev os.pwrite os.pwritev os.truncate os.ftruncate os.fsync os.fdatasync"
    " os.fstat os.stat os.get_inheritable os.get_blocking os.fstatvfs os.statvfs os.fpathconf"
    " os.pathconf os.dup socket.dup os.isatty io.open"
)
"""What may be done with any of them."""
WITH_TWO: Final = frozenset(("os.dup2", "os.sendfile", "os.copy_file_range", "os.splice"))
"""Calls about two descriptors."""
_NO_TERMINAL: Final = words(
    "os.ttyname os.tcgetpgrp os.tcsetpgrp fcntl.ioctl termios.tcgetattr termios.tcsetattr"
    " termios.tcsendbreak termios.tcdrain termios.tcflush termios.tcflow termios.tcgetwinsize"
    " termios.tcsetwinsize"
)
"""What is asked of terminals: the answer is that of the host, whatever is real."""
_WHY: Final = "this descriptor is the test runner's own, and what it holds is not on the tape"
_INSTEAD: Final = (
    "os.open(path, flags) or os.pipe() inside the run: their descriptors are simulated"
)


def number_of(thing: Any) -> int:
    """The descriptor of what was given; below all for what is none: the original has the error."""
    if isinstance(thing, int):
        return int(thing)
    fileno = getattr(thing, "fileno", None)
    found = fileno() if callable(fileno) else -1
    return found if isinstance(found, int) else -1


def second(fd: int, args: tuple[Any, ...], names: dict[str, Any]) -> int:
    """The simulated one of two, or the first."""
    other = args[1] if len(args) > 1 else [*names.values(), fd][min(1, len(names))]
    return other if isinstance(other, int) and other >= FIRST else fd


def give(result: Any) -> None:
    """The run has opened a real file: one of the program's own."""
    if type(result) is int:
        given.add(result)
    elif hasattr(result, "fileno"):
        given.add(result.fileno())


def on_real(
    computer: Computer, name: str, fd: int, original: Call, args: tuple[Any, ...], names: Any
) -> Any:
    """A call about a real descriptor."""
    if name in _NO_TERMINAL and computer.calls[name] is not None:
        return computer.calls[name](*args, **names)  # type: ignore[misc]  # not None
    _check(computer, name, fd, args or tuple(names.values()))
    result = original(*args, **names)
    if name in ("os.close", "socket.close"):
        given.discard(fd)
    elif name in ("os.dup", "socket.dup", "os.dup2"):
        given.add(result)
    return result


def _check(computer: Computer, name: str, fd: int, args: tuple[Any, ...]) -> None:
    if name in _ALLOWED or fd < 0:
        return
    fds = [each for each in args[:2] if type(each) is int] if name in WITH_TWO else [fd]
    if all(each in given or not _is_open(each) for each in fds) or fence.for_a_tool():
        return
    computer.escaped(show_call(name, args[:2]), _WHY, _INSTEAD)


def _is_open(fd: int) -> bool:
    """Whether the process has such a descriptor; of others the original says that they are bad."""
    try:
        real.get_inheritable(fd)
    except OSError:
        return False
    return True


def check_bases(
    computer: Computer, name: str, args: tuple[Any, ...], names: dict[str, Any]
) -> None:
    """A path that begins at a real directory, which must be one of the program's own."""
    bases = [names.get(key) for key in ("dir_fd", "src_dir_fd", "dst_dir_fd")]
    if any(type(fd) is int and fd < FIRST and fd not in given and _is_open(fd) for fd in bases):
        computer.escaped(show_call(name, args[:2]), _WHY, _INSTEAD)


def check_opening(computer: Computer, call: str, fd: int, *, harmless: bool) -> None:
    """`open` or `mmap` of a real descriptor."""
    if not harmless and fd >= 0 and fd not in given and _is_open(fd) and not fence.for_a_tool():
        computer.escaped(call, _WHY, _INSTEAD)


def begin_run() -> None:
    """No real descriptor was given to this run."""
    given.clear()
