"""Types in C that reach the machine: sockets, raw files, selectors, maps, semaphores.

A type has no object of its own that every call goes through; so its methods are changed, or, where
those cannot be, the module's name for it.
"""

from __future__ import annotations

import _io
import _socket
import importlib
import itertools
import mmap
import select
import selectors
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel import fence, real
from foretold.kernel.computer import FIRST
from foretold.kernel.file_patches import ELSEWHERE
from foretold.kernel.swap import ModuleName, ProcessChange, Setting
from foretold.kernel.syscalls import reality
from foretold.kernel.syscalls.of_modules import SOCKET_WHY, STREAM, WAIT_WHY
from foretold.kernel.syscalls.of_os import PROCESS_INSTEAD, PROCESS_WHY
from foretold.kernel.syscalls.rows import words
from foretold.kernel.syscalls.showing import show_call, show_socket

# --- sockets ---------------------------------------------------------------------------------

_socket_init: Final = _socket.socket.__init__
_socket_new: Final = _socket.socket.__new__
_SPEAKING: Final = words(
    "connect connect_ex bind listen _accept shutdown send sendall sendto sendmsg sendmsg_afalg recv"
    " recv_into recvfrom recvfrom_into recvmsg recvmsg_into"
)


def _fenced_socket_init(self: _socket.socket, *args: Any, **names: Any) -> None:
    computer = fence.fenced_in()
    if computer is not None:
        computer.escaped(show_socket("socket.socket", args), SOCKET_WHY, STREAM)
    _socket_init(self, *args, **names)


def _stop_method(name: str) -> Setting:
    """A method that reaches out through a socket made before the run."""
    original = _socket.socket.__dict__[name]
    shown = f"socket.{name.lstrip('_')}"

    def stopped(self: _socket.socket, *args: Any) -> Any:
        computer = fence.fenced_in()
        if computer is not None and type(self) is not real.Socket and not fence.for_a_tool():
            computer.escaped(show_call(shown, args), SOCKET_WHY, STREAM)
        return original(self, *args)

    return Setting(_socket.socket, name, stopped)


def _simulated_socket_new(cls: type, *args: Any, **names: Any) -> Any:
    """`socket.socket(…)`, under whatever name it was imported, gives a socket of the world."""
    computer = fence.fenced_in()
    if computer is not None and cls is socket.socket:
        answer = computer.calls["socket.socket"]
        if answer is not None:
            return answer()
    return _socket_new(cls)


def _socket_changes() -> Iterator[ProcessChange]:
    yield Setting(socket.socket, "__new__", staticmethod(_simulated_socket_new))
    yield Setting(_socket.socket, "__init__", _fenced_socket_init)
    for name in sorted(_SPEAKING):
        if name in vars(_socket.socket):  # else: this system has no such method
            yield _stop_method(name)


# --- selectors -------------------------------------------------------------------------------

_real_epoll: Final = select.epoll
_real_epoll_poll: Final[Callable[..., Any]] = _real_epoll.poll


class epoll:  # noqa: N801  # it stands for select.epoll
    """`select.epoll` while we are installed. Inside a run, one of the world."""

    def __new__(cls, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        answer = None if computer is None else computer.calls["select.epoll"]
        return _real_epoll(*args, **names) if answer is None else answer(*args, **names)

    fromfd = _real_epoll.fromfd


def _stopped_init(self: object, *args: Any, **names: Any) -> None:
    """Its instances are complete after __new__: there is no other __init__ than object's."""
    _stop_epoll()


def _stopped_poll(self: Any, *args: Any, **names: Any) -> Any:
    _stop_epoll()
    return _real_epoll_poll(self, *args, **names)


def _stop_epoll() -> None:
    computer = fence.fenced_in()
    if computer is not None:
        computer.escaped("select.epoll()", WAIT_WHY, STREAM)


def _selector_changes() -> Iterator[ProcessChange]:
    yield Setting(_real_epoll, "__init__", _stopped_init)
    yield Setting(_real_epoll, "poll", _stopped_poll)
    yield ModuleName(select, "epoll", epoll)
    yield Setting(selectors.EpollSelector, "_selector_cls", epoll)


# --- files -----------------------------------------------------------------------------------

_file_init: Final = _io.FileIO.__init__
_KEYBOARD: Final = 0
"""The descriptor of standard input."""


def _fenced_file_init(
    self: _io.FileIO, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None
) -> None:
    """All of `open`, `io.open`, `Path.open`, `tokenize.open` come here; an opener opens itself."""
    computer = fence.fenced_in()
    if computer is not None and opener is None:
        write = not set("wax+").isdisjoint(mode)
        if isinstance(file, int):
            harmless = not closefd and file != _KEYBOARD
            reality.check_opening(computer, show_call("open", (file,)), file, harmless=harmless)
        else:
            shown = show_call("open", (file, mode) if write else (file,))
            fence.check_opening(computer, shown, file, write=write)
    _file_init(self, file, mode, closefd, opener)


class _Standing(type):
    """Of a class of ours that stands for a real one, which has made all its instances."""

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, cls.__mro__[-2])


_real_mmap: Final = mmap.mmap


class led_mmap(mmap.mmap, metaclass=_Standing):  # noqa: N801  # it stands for mmap.mmap
    """`mmap.mmap` while we are installed. A C type's `__new__` cannot be changed and changed back,
    so it is the module's name that leads here; a name that was imported earlier gives EBADF for a
    simulated descriptor."""

    def __new__(cls, fileno: int, length: int, *args: Any, **names: Any) -> Any:
        if cls is not led_mmap:  # a class of the program's own, made while we were installed
            return _real_mmap.__new__(cls, fileno, length, *args, **names)
        computer = fence.fenced_in()
        if computer is not None and fileno >= FIRST:
            answer = computer.calls["mmap.mmap"]
            result = ELSEWHERE if answer is None else answer(fileno, length, *args, **names)
            if result is not ELSEWHERE:
                return result
        elif computer is not None:
            shown = show_call("mmap.mmap", (fileno, length))
            reality.check_opening(computer, shown, fileno, harmless=False)
        return _real_mmap(fileno, length, *args, **names)


# --- semaphores of multiprocessing -----------------------------------------------------------


_names: Final = itertools.count()


def _semaphore_changes() -> Iterator[ProcessChange]:
    module: Any = importlib.import_module("_multiprocessing")
    kind: Any = module.SemLock
    original = kind.acquire

    class SemLock(kind, metaclass=_Standing):  # type: ignore[misc]  # C has it
        """Inside a run it has no name, as if processes were made by fork: a name would be the real
        machine's, and `multiprocessing` would start a process that removes it later."""

        def __new__(cls, sort: int, value: int, maxvalue: int, name: str, unlink: bool) -> Any:
            if fence.fenced_in() is None:
                return kind(sort, value, maxvalue, name, unlink)
            # For a moment it has one. The tape's may be that of a run in another process.
            return kind(sort, value, maxvalue, f"/foretold-{real.getpid()}-{next(_names)}", True)

    def acquire(self: Any, block: bool = True, timeout: float | None = None) -> bool:
        computer = fence.fenced_in()
        wait = None if computer is None else computer.calls["wait"]
        if wait is None:
            return bool(original(self, block, timeout))
        while not original(self, False):
            if not block or (timeout is not None and timeout <= 0):
                return False
            try:
                wait(lambda: not self._is_zero(), timeout)
            except TimeoutError:
                return False
        return True

    yield Setting(kind, "acquire", acquire)
    yield Setting(kind, "__enter__", acquire)
    yield ModuleName(module, "SemLock", SemLock)


# --- what is seldom imported -----------------------------------------------------------------


def late_changes(module: str) -> Iterator[ProcessChange]:
    """Those of the types of a module that has just been imported."""
    if module == "_remote_debugging":
        kind: Any = sys.modules[module].RemoteUnwinder
        original = kind.__init__

        def stopped(self: Any, *args: Any, **names: Any) -> None:
            computer = fence.fenced_in()
            if computer is not None:
                shown = show_call("_remote_debugging.RemoteUnwinder", args)
                computer.escaped(shown, PROCESS_WHY, PROCESS_INSTEAD)
            original(self, *args, **names)

        yield Setting(kind, "__init__", stopped)


CHANGES: Final[tuple[ProcessChange, ...]] = (
    *_socket_changes(),
    *_selector_changes(),
    Setting(_io.FileIO, "__init__", _fenced_file_init),
    ModuleName(mmap, "mmap", led_mmap),
    *_semaphore_changes(),
)
