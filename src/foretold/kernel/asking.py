"""Calls about descriptors and paths: the simulated computer is asked first, then the real one.

Unlike what `fence.py` stops, these are harmless for what is real and open already (a log file, the
captured output), so that they go on as they are. Only a descriptor or a path of the world itself is
answered by the world; for all others its answer is `NotImplemented`.
"""

from __future__ import annotations

import _io
import _socket
import os
import select
import selectors
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.swap import Change, ModuleName, Setting, Swap, copy_of

_OS_CALLS: Final = (
    "pipe pipe2 read write close dup dup2 set_blocking get_blocking set_inheritable get_inheritable"
    " fstat isatty lseek sendfile stat lstat access"
)
_SOCKET_CALLS: Final = "dup close"


def ask_first(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The builtin as it behaves while we are installed."""

    def asked(*args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        if computer is not None:
            answer = computer.answer(name)
            if answer is not None:
                result = answer(*args, **names)
                if result is not NotImplemented:
                    return result
        return original(*args, **names)

    return asked


_real_epoll: Final = select.epoll


class epoll:  # noqa: N801  # it stands for select.epoll
    """`select.epoll` while we are installed. Inside a run, one of the world."""

    def __new__(cls, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        answer = None if computer is None else computer.answer("select.epoll")
        return _real_epoll(*args, **names) if answer is None else answer(*args, **names)

    fromfd = _real_epoll.fromfd


def _epoll_changes() -> Iterator[Change]:
    yield ModuleName(select, "epoll", epoll)
    yield Setting(selectors.EpollSelector, "_selector_cls", epoll)


def tls_changes() -> Iterator[Change]:
    """`SSLContext.wrap_socket` asks the computer for a socket of its own."""
    ssl: Any = sys.modules["ssl"]
    create = ssl.SSLSocket.__dict__["_create"].__func__
    wrap = ssl.SSLContext._wrap_socket

    def made(cls: type, sock: Any, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        answer = None if computer is None else computer.answer("ssl.SSLSocket")
        kind = cls if answer is None else answer(cls, sock)
        return create(kind, sock, *args, **names)

    def wrapped(self: Any, sock: Any, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        answer = None if computer is None else computer.answer("ssl._wrap_socket")
        result = NotImplemented if answer is None else answer(self, sock, *args, **names)
        return wrap(self, sock, *args, **names) if result is NotImplemented else result

    yield Setting(ssl.SSLSocket, "_create", classmethod(made))
    yield Setting(ssl.SSLContext, "_wrap_socket", wrapped)


def _swaps() -> Iterator[Change]:
    for name in _OS_CALLS.split():
        builtin = getattr(os, name)
        yield Swap(builtin, ask_first(f"os.{name}", copy_of(builtin)))
    for name in _SOCKET_CALLS.split():
        builtin = getattr(_socket, name)
        yield Swap(builtin, ask_first(f"socket.{name}", copy_of(builtin)))
    yield Swap(_io.open, ask_first("io.open", copy_of(_io.open)))


CHANGES: Final[tuple[Change, ...]] = (*_swaps(), *_epoll_changes())
