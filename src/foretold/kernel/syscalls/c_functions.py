"""C functions that a program calls by name, with ctypes.

`ctypes.CDLL(None).getpid()` goes past every builtin. So in a run each call of a C function looks
where the function lies. What extension modules may call as well, clocks and sockets among them, is
answered or refused as it is for them (`native/hooks.c`). Of the rest of the C library only what
works in memory may be called, and what nobody can overlook, because it ends this process; of
Python's own library all but the few that ask the machine. Functions of other libraries call the C
library themselves, and are led to the host there. What a function *is* is known by its address,
whatever name led to it.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.native import extensions
from foretold.kernel.swap import Setting
from foretold.kernel.syscalls.table import row_of

_C_LIBRARY: Final = re.compile(
    r"(libc|libpthread|librt|libdl|ld-linux\S*|ld-musl\S*|linux-(vdso|gate)\d*)[-.]"
)
_PYTHON: Final = re.compile(r"(lib)?python\d")
_IN_MEMORY: Final = re.compile(
    r"_*(str|mem|wcs|wmem|isw|tow|mbs|mbrto|mbto|wcrto|wcto|ato|hton|ntoh|inet_|dl|cxa_|ctype_)\w*"
    r"|is(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)"
    r"|to(lower|upper|ascii)|l?l?abs|l?l?div|qsort(_r)?|bsearch|bcmp|bcopy|bzero|ffsl?l?|swab"
    r"|malloc\w*|calloc|realloc(array)?|c?free|posix_memalign|aligned_alloc|memalign|valloc|mall\w+"
    r"|(v?f?printf|v?sn?printf|v?asprintf|v?sscanf|puts|fputs|putchar|putc|fputc|fflush)(_chk)?"
    r"|__\w+_chk|__errno_location|errno|gnu_get_libc_\w+|setjmp|_setjmp|longjmp|pthread_(self|equal)"
    r"|_*(munmap|mprotect|madvise)|l?l?r?(rint|round)[fl]?|frexp[fl]?|ldexp[fl]?|modf[fl]?|finite[fl]?|copysign[fl]?|scalbn[fl]?"
)
"""What the C library computes, prints or allocates, and what it does to memory."""
_MAPS: Final = re.compile(r"_*mmap(64)?")
"""Memory, if it maps no file: its fifth argument is no descriptor then."""
_LOUD: Final = re.compile(r"raise|gsignal|abort|_exit|_Exit|pause|pthread_mutex_\w+")
"""What ends this process, interrupts it, or hangs until the watchdog ends it: that is reported."""
_ASKS_THE_MACHINE: Final = re.compile(
    r"_?PyTime_\w*(Time|Clock|Monotonic|PerfCounter)\w*|_?PyOS_(URandom|Readline|setsig|InputHook)\w*"
    r"|_?PyThread_(start|exit|hang)\w*|PyErr_SetInterrupt\w*|_?Py_(Exit|Finalize\w*|FatalError\w*|Main"
    r"|BytesMain|NewInterpreter\w*|Initialize\w*|fopen\w*|open\w*|read|write|dup|stat|fstat\w*)"
    r"|_?PyInterpreterState_(New|Delete)|PyRun_Interactive\w*|PyUnstable_PerfMap_\w+"
)
"""The functions of Python's own library that do."""


class _Place(ctypes.Structure):
    """The C library's Dl_info."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


_kind: Final[Any] = vars(_ctypes)["CFuncPtr"]
_call: Final[Callable[..., Any]] = _kind.__call__
_dladdr: Final[Any] = ctypes.CDLL(None).dladdr
_dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Place))
_addressof: Final = ctypes.addressof
_word_at: Final = ctypes.c_void_p.from_address
_executable: Final = os.path.realpath(sys.executable)


def _library(path: str) -> str:
    name = os.path.basename(path)
    if _C_LIBRARY.match(name):
        return "C"
    return "Python" if _PYTHON.match(name) or path == _executable else ""


def _refused_name(address: int | None) -> str | None:
    """What lies there, if it may not be called; None for what may."""
    place = _Place()
    with fence.passage():
        judged = extensions.judges(address)
        if judged is not None:
            return None if judged else "a system call or a thread"
        if not address or not _call(_dladdr, address, ctypes.byref(place)) or not place.name:
            return None  # a callback, or a function that has no name
        name = os.fsdecode(place.name)
        library = _library(os.path.realpath(os.fsdecode(place.file)))
    if library == "C":
        return None if _IN_MEMORY.fullmatch(name) or _LOUD.fullmatch(name) else name
    return name if library == "Python" and _ASKS_THE_MACHINE.fullmatch(name) else None


_known: Final[dict[int | None, str | None]] = {}


def _guarded(self: Any, *args: Any, **names: Any) -> Any:
    computer = fence.fenced_in()
    if computer is not None:
        address = _word_at(_addressof(self)).value
        if address not in _known:
            _known[address] = _refused_name(address)
        name = _known[address]
        if name is not None and not _is_ours() and not _is_memory(name, args):
            row = row_of("_ctypes", "CFuncPtr")
            assert row is not None, "the table has it"
            computer.escaped(f"ctypes: {name}(…)", row.why, row.instead)
    return _call(self, *args, **names)


def _is_memory(name: str, args: tuple[Any, ...]) -> bool:
    fd = args[4] if len(args) > 4 and _MAPS.fullmatch(name) else 0
    return getattr(fd, "value", fd) == -1


def _is_ours() -> bool:
    return str(sys._getframe(2).f_globals.get("__name__")).startswith("foretold.")


CHANGES: Final = (Setting(_kind, "__call__", _guarded),)
