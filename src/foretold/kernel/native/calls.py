"""C functions that stand in for those of libc, in the libraries that are led to us.

A call from a thread of a run goes to the computer of that thread (`answer("native")`), as a method
of the same name with pointers as numbers; whatever else calls gets the original. There is C above
these functions, so none of them ever raises: an `OSError` becomes -1 and an errno, and what ends a
run or a thread is told to the world and raised as soon as the library has returned to Python.
"""

from __future__ import annotations

import ctypes
import errno
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from foretold.kernel import fence
from foretold.kernel.native import extensions
from foretold.kernel.threads.baton import strand_of

_int, _uint, _long, _pointer = ctypes.c_int, ctypes.c_uint, ctypes.c_long, ctypes.c_void_p
_size, _ssize = ctypes.c_size_t, ctypes.c_ssize_t


class _Prototype(NamedTuple):
    """How a function is declared in C, and what it returns when it fails."""

    result: Any
    arguments: tuple[Any, ...]
    failure: int | None = -1


_SHAPES: Final[dict[str, _Prototype]] = {
    "socket": _Prototype(_int, (_int, _int, _int)),
    "connect": _Prototype(_int, (_int, _pointer, _uint)),
    "send": _Prototype(_ssize, (_int, _pointer, _size, _int)),
    "recv": _Prototype(_ssize, (_int, _pointer, _size, _int)),
    "close": _Prototype(_int, (_int,)),
    "poll": _Prototype(_int, (_pointer, ctypes.c_ulong, _int)),
    "fcntl": _Prototype(_int, (_int, _int, _long)),
    "getsockopt": _Prototype(_int, (_int, _int, _int, _pointer, _pointer)),
    "setsockopt": _Prototype(_int, (_int, _int, _int, _pointer, _uint)),
    "getsockname": _Prototype(_int, (_int, _pointer, _pointer)),
    "getaddrinfo": _Prototype(_int, (_pointer, _pointer, _pointer, _pointer)),
    "gettimeofday": _Prototype(_int, (_pointer, _pointer)),
    "time": _Prototype(_long, (_pointer,)),
    "getenv": _Prototype(_pointer, (_pointer,), None),
    "fopen": _Prototype(_pointer, (_pointer, _pointer), None),
    "stat": _Prototype(_int, (_pointer, _pointer)),
    "__xstat": _Prototype(_int, (_int, _pointer, _pointer)),
    "gss_acquire_cred": _Prototype(_uint, (_pointer,) * 8, 7 << 16),
    "pthread_mutex_lock": _Prototype(_int, (_pointer,), errno.EDEADLK),
    "pthread_mutex_unlock": _Prototype(_int, (_pointer,), errno.EPERM),
}
NAMES: Final = frozenset(_SHAPES)
LOCKS: Final = frozenset({"pthread_mutex_lock", "pthread_mutex_unlock"})


def _stand_in(name: str, original: Callable[..., Any], failure: int | None) -> Callable[..., Any]:
    method = name.strip("_")

    def called(*args: Any) -> Any:
        calls: Any = None
        strand = strand_of(get_ident())
        if strand is not None:
            strand.in_c += 1  # what the handler of a signal raises could not pass through C
        try:
            computer = fence.fenced_in()
            give = None if computer is None else computer.answer("native")
            if give is None:
                return original(*args)
            calls = give()
            result = getattr(calls, method)(*args)
            return original(*args) if result is NotImplemented else result
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
        except BaseException as error:
            if calls is not None:
                extensions.note_failure(calls, error)
            ctypes.set_errno(errno.EIO)
        finally:
            if strand is not None:
                strand.in_c -= 1
        return failure

    return called


class NativeStandIn:
    """One such function, as C can call it. It lives as long as the process."""

    def __init__(self, name: str, original_address: int) -> None:
        shape = _SHAPES[name]
        kind = ctypes.CFUNCTYPE(shape.result, *shape.arguments, use_errno=True)
        original = kind(original_address)
        self._callback = kind(_stand_in(name, original, shape.failure))
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        assert address is not None, "a function has an address"
        self.address = extensions.bracket(address)
