"""TLS that can be replayed: OpenSSL's random numbers come from the tape while a run is active.

Key shares, nonces and signatures are all made of them, so with a source of our own a handshake is
the same to the byte (the length of an ECDSA signature varies otherwise, and with it every size and
time after it). OpenSSL lets a program set its source (`RAND_set_rand_method`). It is one for the
whole process: threads that are not of the run get real randomness from it.

Where Python's OpenSSL does not show that function, TLS works but sizes may differ between runs.
"""

from __future__ import annotations

import ctypes
import sys
from _thread import get_ident
from typing import Any, Final

from foretold.kernel import real
from foretold.kernel.computer import computer_of


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


_METHOD: Final = _RandMethod(None, _address(_FILL), None, None, _address(_FILL), _address(_READY))


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
            self._library.RAND_set_rand_method(ctypes.byref(_METHOD))

    def undo(self) -> None:
        if self._library is not None and self._before is not None:
            self._library.RAND_set_rand_method(self._before)
            self._before = None
