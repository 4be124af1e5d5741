"""Every way in which Python code reads a clock, or waits on one, asks the computer of the run.

Inside, time is a whole number of nanoseconds; it becomes a float only where the original returns
one, by the same division, and `time_ns` and `datetime.now` never pass through one that could lose a
digit. Arguments that ask for no clock (`localtime(0)`) and wrong arguments go to the original, so
that results and errors are its own.

What follows by itself: `date.today` and `datetime.today` call `time.time`; `logging`, `email` and
`http` use the functions below.

What stays real: timeouts that the interpreter's C code measures itself. (Extension modules are led
to the world by their imports: native/extensions.py.)
"""

from __future__ import annotations

import datetime
import functools
import gc
import math
import os
import sys
import time
import warnings
from _thread import get_ident
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, Final, SupportsIndex

from foretold.kernel import real
from foretold.kernel.computer import Computer, computer_of
from foretold.kernel.swap import Setting, Swap

NS = 1_000_000_000

# --- seconds and nanoseconds ----------------------------------------------------------------


def _time() -> float:
    computer = computer_of(get_ident())
    return real.time() if computer is None else computer.wall_ns() / 1e9


def _time_ns() -> int:
    computer = computer_of(get_ident())
    return real.time_ns() if computer is None else computer.wall_ns()


def _monotonic() -> float:
    computer = computer_of(get_ident())
    return real.monotonic() if computer is None else computer.monotonic_ns() / 1e9


def _monotonic_ns() -> int:
    computer = computer_of(get_ident())
    return real.monotonic_ns() if computer is None else computer.monotonic_ns()


def _perf_counter() -> float:
    computer = computer_of(get_ident())
    return real.perf_counter() if computer is None else computer.monotonic_ns() / 1e9


def _perf_counter_ns() -> int:
    computer = computer_of(get_ident())
    return real.perf_counter_ns() if computer is None else computer.monotonic_ns()


def _process_time() -> float:
    computer = computer_of(get_ident())
    return real.process_time() if computer is None else computer.cpu_ns() / 1e9


def _process_time_ns() -> int:
    computer = computer_of(get_ident())
    return real.process_time_ns() if computer is None else computer.cpu_ns()


def _thread_time() -> float:
    computer = computer_of(get_ident())
    return real.thread_time() if computer is None else computer.cpu_ns() / 1e9


def _thread_time_ns() -> int:
    computer = computer_of(get_ident())
    return real.thread_time_ns() if computer is None else computer.cpu_ns()


def _times() -> os.times_result:
    computer = computer_of(get_ident())
    if computer is None:
        return real.times()
    cpu_s = computer.cpu_ns() / 1e9
    return os.times_result((cpu_s, 0.0, 0.0, 0.0, computer.monotonic_ns() / 1e9))


# --- clock_gettime --------------------------------------------------------------------------

# The coarse and alarm clocks have no name in `time`; their numbers are those of Linux.
_LINUX_CLOCKS: Final = (
    {"REALTIME_COARSE": 5, "MONOTONIC_COARSE": 6, "REALTIME_ALARM": 8, "BOOTTIME_ALARM": 9}
    if sys.platform == "linux"
    else {}
)


def _clock_ids(*names: str) -> frozenset[int]:
    known = {name: getattr(time, f"CLOCK_{name}", _LINUX_CLOCKS.get(name)) for name in names}
    return frozenset(number for number in known.values() if number is not None)


_WALL_CLOCKS: Final = _clock_ids("REALTIME", "REALTIME_COARSE", "REALTIME_ALARM", "TAI")
_MONOTONIC_CLOCKS: Final = _clock_ids(
    "MONOTONIC", "MONOTONIC_RAW", "MONOTONIC_COARSE", "BOOTTIME", "BOOTTIME_ALARM",
    "HIGHRES", "UPTIME", "UPTIME_RAW",
)  # fmt: skip


def _clock_ns(computer: Computer, clk_id: int) -> int:
    if clk_id in _WALL_CLOCKS:
        return computer.wall_ns()
    if clk_id in _MONOTONIC_CLOCKS:
        return computer.monotonic_ns()
    # No clock of that number: the original's error. A number that it does know is a processor
    # clock, of the process or of some thread (pthread_getcpuclockid).
    real.clock_gettime_ns(clk_id)
    return computer.cpu_ns()


def _clock_gettime(clk_id: int, /) -> float:
    computer = computer_of(get_ident())
    return real.clock_gettime(clk_id) if computer is None else _clock_ns(computer, clk_id) / 1e9


def _clock_gettime_ns(clk_id: int, /) -> int:
    computer = computer_of(get_ident())
    return real.clock_gettime_ns(clk_id) if computer is None else _clock_ns(computer, clk_id)


# --- calendar, where no instant is given -----------------------------------------------------


def _gmtime(seconds: float | None = None, /) -> time.struct_time:
    computer = computer_of(get_ident())
    if computer is None or seconds is not None:
        return real.gmtime(seconds)
    return real.gmtime(computer.wall_ns() // NS)


def _localtime(seconds: float | None = None, /) -> time.struct_time:
    computer = computer_of(get_ident())
    if computer is None or seconds is not None:
        return real.localtime(seconds)
    return real.localtime(computer.wall_ns() // NS)


def _ctime(seconds: float | None = None, /) -> str:
    computer = computer_of(get_ident())
    if computer is None or seconds is not None:
        return real.ctime(seconds)
    return real.ctime(computer.wall_ns() // NS)


def _strftime(format: str, /, *instant: Any) -> str:
    computer = computer_of(get_ident())
    if computer is None or instant:
        return real.strftime(format, *instant)
    return real.strftime(format, real.localtime(computer.wall_ns() // NS))


def _asctime(*instant: Any) -> str:
    computer = computer_of(get_ident())
    if computer is None or instant:
        return real.asctime(*instant)
    return real.asctime(real.localtime(computer.wall_ns() // NS))


# --- sleep -----------------------------------------------------------------------------------

_SLEEP_NS_MAX: Final = 2**63 - 1  # what the original can represent


def _sleep_length_ns(seconds: Any) -> int | None:
    """Nanoseconds, rounded up as the original does; None for what the original refuses."""
    if isinstance(seconds, float):
        # The first comparison is false for nan.
        ns = math.ceil(seconds * 1e9) if 0 <= seconds * 1e9 < _SLEEP_NS_MAX else -1
    elif isinstance(seconds, SupportsIndex):
        ns = seconds.__index__() * NS
    else:
        return None
    return ns if 0 <= ns <= _SLEEP_NS_MAX else None


def _sleep(seconds: Any, /) -> None:
    computer = computer_of(get_ident())
    ns = None if computer is None else _sleep_length_ns(seconds)
    if computer is None or ns is None:
        real.sleep(seconds)  # in a run: only with an argument that makes it raise at once
    else:
        computer.sleep_ns(ns)


# --- datetime --------------------------------------------------------------------------------

DateTime = datetime.datetime

_real_now: Final = DateTime.__dict__["now"]
_real_utcnow: Final = DateTime.__dict__["utcnow"]
_fromtimestamp: Final = DateTime.__dict__["fromtimestamp"]
_plain_fromtimestamp: Final = DateTime.fromtimestamp

# Below 2**33 seconds (the year 2242) neighbouring floats lie less than a microsecond apart, and
# `fromtimestamp`, which rounds to the nearest microsecond, gives back the one that went in.
_EXACT_US_MAX: Final = 2**33 * 1_000_000
_UTCNOW_WARNING: Final = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version."
    " Use timezone-aware objects to represent datetimes in UTC:"
    " datetime.datetime.now(datetime.UTC)."
)


def _now_on(computer: Computer, cls: type[DateTime], tz: Any) -> Any:
    us = computer.wall_ns() // 1_000
    # Not `cls.fromtimestamp`: a subclass may have its own, which `now` does not call.
    make = _plain_fromtimestamp if cls is DateTime else _fromtimestamp.__get__(None, cls)
    if -_EXACT_US_MAX < us < _EXACT_US_MAX:
        return make(us / 1e6, tz)
    return make(us // 1_000_000, tz).replace(microsecond=us % 1_000_000)


def _utcnow_on(computer: Computer, cls: type[DateTime]) -> Any:
    if sys.version_info >= (3, 12):
        warnings.warn(_UTCNOW_WARNING, DeprecationWarning, stacklevel=3)
    seconds, ns = divmod(computer.wall_ns(), NS)
    return cls(*real.gmtime(seconds)[:6], ns // 1_000)


def _now(cls: type[DateTime], tz: Any = None) -> Any:
    computer = computer_of(get_ident())
    if computer is None:
        return _real_now.__get__(None, cls)(tz)
    return _now_on(computer, cls, tz)


def _utcnow(cls: type[DateTime]) -> Any:
    computer = computer_of(get_ident())
    if computer is None:
        return _real_utcnow.__get__(None, cls)()
    return _utcnow_on(computer, cls)


_BOUND: Final[dict[str, Callable[..., Any]]] = {"now": _now, "utcnow": _utcnow}
_OWN: Final = (real.datetime_now, real.datetime_utcnow)


def is_bound_clock(builtin: BuiltinFunctionType) -> bool:
    """Whether it is a `now` or `utcnow` of somebody's, not ours."""
    return (
        builtin.__name__ in _BOUND
        and isinstance(builtin.__self__, type)
        and issubclass(builtin.__self__, DateTime)
        and not any(builtin is own for own in _OWN)
    )


def builtins_on_the_heap(among: list[Any] | None = None) -> list[BuiltinFunctionType]:
    """All builtin functions and methods that exist as objects of their own."""
    heap = gc.get_objects() if among is None else among
    return [thing for thing in heap if type(thing) is BuiltinFunctionType]


def find_bound_methods(among: list[BuiltinFunctionType] | None = None) -> list[Swap]:
    """Swaps, not yet applied, for each `datetime.now` or `utcnow` that someone bound earlier.

    `field(default_factory=datetime.utcnow)` keeps the method as it was when the class was made: an
    object of its own, reachable from nowhere in particular. The garbage collector knows them all,
    except those that `gc.freeze()` has put out of its sight: look before freezing. It looks at each
    object of the heap, some 15 ms for half a million, so it is not done for each run.
    """
    builtins = builtins_on_the_heap() if among is None else among
    return [
        Swap(builtin, functools.partial(_BOUND[builtin.__name__], builtin.__self__))
        for builtin in builtins
        if is_bound_clock(builtin)
    ]


# --- all of them -----------------------------------------------------------------------------

_IN_TIME: Final = (
    _time, _time_ns, _monotonic, _monotonic_ns, _perf_counter, _perf_counter_ns,
    _process_time, _process_time_ns, _thread_time, _thread_time_ns,
    _clock_gettime, _clock_gettime_ns,
    _gmtime, _localtime, _ctime, _strftime, _asctime, _sleep,
)  # fmt: skip

CHANGES: Final[tuple[Swap | Setting, ...]] = (
    *(Swap(getattr(time, patched.__name__[1:]), patched) for patched in _IN_TIME),
    Swap(os.times, _times),
    Setting(DateTime, "now", classmethod(_now)),
    Setting(DateTime, "utcnow", classmethod(_utcnow)),
)
