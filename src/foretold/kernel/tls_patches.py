"""TLS that can be replayed: OpenSSL's random numbers come from the tape while a run is active.

Key shares, nonces and signatures are all made of them, so with a source of our own a handshake is
the same to the byte (the length of an ECDSA signature varies otherwise, and with it every size and
time after it). OpenSSL lets a program set its source (`RAND_set_rand_method`). It is one for the
whole process: threads that are not of the run get real randomness from it.

Where Python's OpenSSL does not show that function, TLS works but sizes may differ between runs.

OpenSSL opens files by itself, past the host's disk. A certificate that lies there is handed over in
memory; a log of keys would be a real file, and is refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel import fence, real
from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.swap import ProcessChange, Setting
from foretold.kernel.syscalls.of_os import WRITE_WHY


class _RandMethod(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("seed", "bytes", "cleanup", "add", "pseudorand", "status")
    ]


def _fill(buffer: int, size: int) -> int:
    """OpenSSL asks for random bytes. Must never raise: there is C above it."""
    try:
        computer = computer_of(get_ident())
        data = real.urandom(size) if computer is None else computer.entropy(size)
        ctypes.memmove(buffer, data, size)
    except BaseException:  # an error goes back as OpenSSL's own: no randomness to be had
        return 0
    return 1


_FILL: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(_fill)
_READY: Final = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


METHOD: Final = _RandMethod(None, _address(_FILL), None, None, _address(_FILL), _address(_READY))


def _library(user: str | None) -> Any:
    """The OpenSSL that a library uses, or None if it hides the function."""
    path = user or getattr(sys.modules.get("_ssl"), "__file__", None)
    if path is None:
        return None
    library = ctypes.CDLL(path)
    if not hasattr(library, "RAND_set_rand_method"):
        return None
    library.RAND_set_rand_method.argtypes = [ctypes.c_void_p]
    library.RAND_get_rand_method.restype = ctypes.c_void_p
    return library


class TlsRandom:
    """OpenSSL's source of randomness, ours by `apply`, its own again by `undo`: that of the library
    at this path, or of Python's own ssl module."""

    def __init__(self, user: str | None = None) -> None:
        self._library = _library(user)
        self._before: int | None = None

    @property
    def works(self) -> bool:
        return self._library is not None

    def apply(self) -> None:
        if self._library is not None:
            self._before = self._library.RAND_get_rand_method()
            self._library.RAND_set_rand_method(ctypes.byref(METHOD))

    def undo(self) -> None:
        if self._library is not None and self._before is not None:
            self._library.RAND_set_rand_method(self._before)
            self._before = None


def tls_changes() -> Iterator[ProcessChange]:
    """`SSLContext.wrap_socket` asks the computer for a socket of its own. A connection to a host
    that the world has scripted is verified by the authority that the world has for it."""
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

    wrap_bio = ssl.SSLContext._wrap_bio

    def wrapped_bio(self: Any, *args: Any, **names: Any) -> Any:
        tls = wrap_bio(self, *args, **names)
        computer = fence.fenced_in()
        trusted = None if computer is None else computer.answer("ssl.trusted")
        if trusted is not None and not tls.server_side and self.verify_mode != ssl.CERT_NONE:
            other = trusted(tls.server_hostname)
            tls.context = tls.context if other is None else other
        return tls

    yield Setting(ssl.SSLContext, "_wrap_bio", wrapped_bio)
    yield Setting(ssl.SSLSocket, "_create", classmethod(made))
    yield Setting(ssl.SSLContext, "_wrap_socket", wrapped)
    for name in ("load_cert_chain", "load_verify_locations"):
        yield Setting(ssl.SSLContext, name, _with_files_of_host(getattr(ssl.SSLContext, name)))
    yield Setting(ssl.SSLContext, "keylog_filename", _keylog(ssl.SSLContext.keylog_filename))


# --- files -------------------------------------------------------------------------------------


def _with_files_of_host(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def loaded(self: Any, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        if computer is None:
            return load(self, *args, **names)
        with contextlib.ExitStack() as opened:
            shown = functools.partial(_in_memory, computer, opened)
            given = {name: shown(value) for name, value in names.items() if name in _FILES}
            return load(self, *map(shown, args[:2]), *args[2:], **(names | given))

    return loaded


_FILES: Final = ("certfile", "keyfile", "cafile")


def _in_memory(computer: Computer, opened: contextlib.ExitStack, path: Any) -> Any:
    """A path by which OpenSSL reads what is in a file of the host's disk; else the path itself."""
    if not isinstance(path, str | bytes | os.PathLike):
        return path
    has_file = computer.answer("files.has")
    if has_file is None or not has_file(os.fsdecode(path)):
        return path  # it may be a real one
    with open(path, "rb") as file:
        content = file.read()
    with fence.passage():
        number = os.memfd_create("certificate")
        opened.callback(_close, number)
        os.write(number, content)
    return f"/proc/self/fd/{number}"


def _close(number: int) -> None:
    with fence.passage():
        os.close(number)


def _keylog(there: Any) -> property:
    def put(self: Any, path: Any) -> None:
        computer = fence.fenced_in()
        if computer is not None and path is not None:
            call = f"SSLContext.keylog_filename = {path!r}"
            computer.escaped(call, WRITE_WHY, "leave it, and SSLKEYLOGFILE, unset in the run")
        there.__set__(self, path)

    return property(there.__get__, put)
