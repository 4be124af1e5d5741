"""One dispatch for all builtins of the table: from the call of a program to the computer's answer.

    a thread that is not of the run, or in a passage     the builtin itself
    a call about a descriptor of the real machine        the builtin, if it is harmless: reality.py
    a caller that always sees the real disk              the builtin (imports, tools)
    all else                                             `computer.calls[name]`, or `EscapedWorld`

An answer may also say that the call is not for it:

    ELSEWHERE        it is about something of the real machine
    RealPath(path)   a file of the program itself, to be read from the real disk under this path

A builtin that another module of the kernel replaces as a whole (clocks, randomness, imports, locks)
is not led here.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType
from typing import Any, Final

from foretold.kernel import clock_patches, entropy_patches, environment_patches, fence, interrupt
from foretold.kernel.computer import FIRST, Computer, computer_of
from foretold.kernel.file_patches import ELSEWHERE, RealPath
from foretold.kernel.swap import ProcessChange, Swap, copy_of
from foretold.kernel.syscalls import interpreter, reality
from foretold.kernel.syscalls.of_os import FILES_BY_DESCRIPTOR, FILES_BY_PATH, FILES_OF_PROCESS
from foretold.kernel.syscalls.rows import CallRow, Fate, public_name, words
from foretold.kernel.syscalls.showing import show_call
from foretold.kernel.syscalls.table import TABLE
from foretold.kernel.threads import listing, start

Call = Callable[..., Any]
_passing: Final = fence.passing
_passage: Final = fence.passage()


def _refuse(computer: Computer, name: str, row: CallRow, args: tuple[Any, ...]) -> None:
    if name == "signal.signal" and fence.for_a_runner():
        raise ValueError("no signal reaches a simulated computer")
    if name == "builtins.input":
        if fence.for_a_tool():
            return
        name = "input"
    computer.escaped((row.show or show_call)(name, args), row.why, row.instead)


def _lead(name: str, row: CallRow, original: Call) -> Call:
    """A call that is about neither files nor descriptors."""

    def led(*args: Any, **names: Any) -> Any:
        ident = get_ident()
        computer = computer_of(ident)
        if computer is None or ident in _passing:
            return original(*args, **names)
        answer = computer.calls[name]
        if answer is not None:
            return answer(*args, **names)
        if row.instead:
            _refuse(computer, name, row, args)
        return original(*args, **names)

    return led


def _lead_descriptor(name: str, original: Call) -> Call:
    """A call about a descriptor, or about two."""
    two, spins = name in reality.WITH_TWO, not name.startswith("socket.")

    def led(*args: Any, **names: Any) -> Any:
        ident = get_ident()
        computer = computer_of(ident)
        if computer is None or ident in _passing:
            return original(*args, **names)
        if spins:
            computer.spin()
        fd: Any = args[0] if args else next(iter(names.values()), None)
        if type(fd) is not int:
            fd = reality.number_of(fd)
        if two and fd < FIRST:
            fd = reality.second(fd, args, names)
        if fd < FIRST:
            return reality.on_real(computer, name, fd, original, args, names)
        answer = computer.calls[name]
        result = ELSEWHERE if answer is None else answer(*args, **names)
        return original(*args, **names) if result is ELSEWHERE else result

    return led


def _lead_path(name: str, original: Call) -> Call:
    """A call about a path, or about a descriptor in its place."""

    def led(*args: Any, **names: Any) -> Any:
        ident = get_ident()
        computer = computer_of(ident)
        if computer is None or ident in _passing:
            return original(*args, **names)
        if fence.sees_reality(sys._getframe(1)):
            with _passage:
                return original(*args, **names)
        computer.spin()
        path = args[0] if args else names.get("path")
        if type(path) is int and path < FIRST and name != "os.umask":
            return reality.on_real(computer, name, path, original, args, names)
        answer = computer.calls[name]
        result = ELSEWHERE if answer is None else answer(*args, **names)
        if type(result) is RealPath:
            return _on_real_disk(name, result.path, original, args, names)
        if result is ELSEWHERE:
            reality.check_bases(computer, name, args, names)
            fence.check_without_disk(computer, name, args, names)
            return original(*args, **names)
        return result

    return led


def _on_real_disk(
    name: str, path: str, original: Call, args: tuple[Any, ...], names: dict[str, Any]
) -> Any:
    if args:
        args = (path, *args[1:])
    else:
        names["file" if name == "io.open" else "path"] = path
    names.pop("dir_fd", None)
    with _passage:
        result = original(*args, **names)
    reality.give(result)
    return result


# --- which builtin is led how ----------------------------------------------------------------

_BY_PATH: Final = frozenset(
    (*FILES_BY_PATH.split(), *FILES_OF_PROCESS.split(), "io.open", "io.open_code")
)
_BY_DESCRIPTOR: Final = frozenset(
    (*FILES_BY_DESCRIPTOR.split(), "readinto", "splice", "ttyname", "tcgetpgrp", "tcsetpgrp")
)
_MODULES_BY_DESCRIPTOR: Final = ("fcntl", "termios")


def _led(module: str, name: str, row: CallRow, builtin: Call) -> Swap:
    original = copy_of(builtin)
    full = public_name(module, name)
    if row.kind is Fate.ANSWERED:
        if (module == "posix" and name in _BY_PATH) or full in _BY_PATH:
            return Swap(builtin, _lead_path(full, original))
        descriptor = module == "posix" and name in _BY_DESCRIPTOR
        if descriptor or module in _MODULES_BY_DESCRIPTOR or full in ("socket.close", "socket.dup"):
            return Swap(builtin, _lead_descriptor(full, original))
    return Swap(builtin, _lead(full, row, original))


_OTHERS: Final[tuple[Iterable[ProcessChange], ...]] = (
    clock_patches.CHANGES,
    entropy_patches.CHANGES,
    environment_patches.CHANGES,
    interpreter.CHANGES,
    interrupt.CHANGES,
    listing.CHANGES,
    start.CHANGES,
)
_REPLACED: Final = frozenset(
    id(change.function) for changes in _OTHERS for change in changes if isinstance(change, Swap)
)

LATE: Final = words(
    "readline _curses _tkinter nis ossaudiodev spwd _xxsubinterpreters _interpreters"
    " _remote_debugging"
)
"""Modules that are not imported for this: to import some of them changes the terminal, or costs."""
_ADOPTED: Final = ("_ssl", "_sqlite3")
"""Modules that others replace when they are imported."""


def swaps_of(module: str) -> Iterator[Swap]:
    """The swaps that make the rows of one module true."""
    try:
        found = sys.modules[module] if module in LATE else importlib.import_module(module)
    except (KeyError, ImportError):
        return  # this Python or system has no such module, or nobody has imported it yet
    for name, row in TABLE[module].items():
        builtin = getattr(found, name, None)
        # else: this Python or system has no such call, or it is a type: types.py
        if row.kind is Fate.HARMLESS or type(builtin) is not BuiltinFunctionType:
            continue
        if module == "builtins" and builtin is builtins.open:
            continue  # it is `_io.open`
        if id(builtin) not in _REPLACED:
            yield _led(module, name, row, builtin)


CHANGES: Final[tuple[ProcessChange, ...]] = tuple(
    swap
    for module in TABLE
    if module not in LATE and module not in _ADOPTED
    for swap in swaps_of(module)
)
