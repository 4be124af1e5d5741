"""What belongs to the interpreter, and not to the machine: its collector, its hooks, its settings.

A run shares them with the test runner. What a program sets is kept for the run alone: the collector
stays off (collections at moments that depend on the heap would not repeat), no watchdog is started,
and functions for the end of the process are not called, since the process of a run is gone with it.
A few numbers that the interpreter itself reads are really set, and put back when the run ends.
"""

from __future__ import annotations

import _locale
import _socket
import _thread
import _tracemalloc
import atexit
import faulthandler
import functools
import gc
import os
import sys
import time
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Final

from foretold.kernel import environment_patches, fence
from foretold.kernel.computer import computer_of
from foretold.kernel.swap import Swap, copy_of

_KEEPS_FOR_ITSELF: Final = frozenset({"weakref"})
"""Modules that register once for the life of the process, whenever they are first used."""


class _Kept:
    """What the programs of one run have set."""

    def __init__(self) -> None:
        self.collects = True
        self.threshold: tuple[int, ...] = (700, 10, 10)
        self.shows_crashes = False
        self.at_exit: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []


_kept = _Kept()

# --- the collector ---------------------------------------------------------------------------


def _enable() -> None:
    _kept.collects = True


def _disable() -> None:
    _kept.collects = False


def _set_threshold(first: int, /, *others: int) -> None:
    _kept.threshold = (first, *others, *_kept.threshold[1 + len(others) :])[:3]


def _nothing(*args: Any, **names: Any) -> None:
    """It is noted, and has no effect in a run."""


# --- crashes and the end ---------------------------------------------------------------------


def _show_crashes(*args: Any, **names: Any) -> None:
    _kept.shows_crashes = True


def _show_no_crashes() -> bool:
    before, _kept.shows_crashes = _kept.shows_crashes, False
    return before


def _register(function: Any, /, *args: Any, **names: Any) -> Any:
    if not callable(function):
        raise TypeError("the first argument must be callable")
    _kept.at_exit.append((function, args, names))
    return function


def _unregister(function: Any, /) -> None:
    _kept.at_exit[:] = [each for each in _kept.at_exit if each[0] != function]


def _run_exitfuncs() -> None:
    while _kept.at_exit:
        function, args, names = _kept.at_exit.pop()
        function(*args, **names)


_ANSWERS: Final[dict[Any, Callable[..., Any]]] = {
    gc.enable: _enable,
    gc.disable: _disable,
    gc.isenabled: lambda: _kept.collects,
    gc.set_threshold: _set_threshold,
    gc.get_threshold: lambda: _kept.threshold,
    gc.freeze: _nothing,
    gc.unfreeze: _nothing,
    faulthandler.enable: _show_crashes,
    faulthandler.disable: _show_no_crashes,
    faulthandler.is_enabled: lambda: _kept.shows_crashes,
    faulthandler.register: _nothing,
    faulthandler.unregister: lambda *_: False,
    faulthandler.dump_traceback_later: _nothing,
    faulthandler.cancel_dump_traceback_later: _nothing,
    atexit.register: _register,
    atexit.unregister: _unregister,
    vars(atexit)["_clear"]: lambda: _kept.at_exit.clear(),
    vars(atexit)["_run_exitfuncs"]: _run_exitfuncs,
    vars(atexit)["_ncallbacks"]: lambda: len(_kept.at_exit),
}


def _led(builtin: Any, answer: Callable[..., Any]) -> Swap:
    original = copy_of(builtin)
    of_atexit = builtin.__module__ == "atexit"

    def led(*args: Any, **names: Any) -> Any:
        ident = get_ident()
        computer = computer_of(ident)
        if computer is None or ident in fence.passing:
            return original(*args, **names)
        if of_atexit:
            caller = sys._getframe(1).f_globals.get("__name__")
            if computer.is_importing or caller in _KEEPS_FOR_ITSELF:
                return original(*args, **names)
        return answer(*args, **names)

    return Swap(builtin, led)


# --- numbers that are put back ---------------------------------------------------------------

_before: Final[dict[Callable[..., Any], Any]] = {}
"""What was set before a program of the run has set it; by the function that puts it back."""


def _put_back_later(
    builtin: Any, get: Callable[..., Any], *args: Any
) -> tuple[Any, Callable[..., Any]]:
    """A function that sets something. What was set before, `get(*args)` says."""
    original, get = copy_of(builtin), copy_of(get)
    put_back = functools.partial(original, *args)

    def put(*given: Any, **names: Any) -> Any:
        if put_back not in _before:
            _before[put_back] = get(*args)
        return original(*given, **names)

    return builtin, put


_ANSWERS.update(
    (
        _put_back_later(_socket.setdefaulttimeout, _socket.getdefaulttimeout),
        _put_back_later(sys.setswitchinterval, sys.getswitchinterval),
        _put_back_later(sys.setrecursionlimit, sys.getrecursionlimit),
        _put_back_later(sys.set_int_max_str_digits, sys.get_int_max_str_digits),
        _put_back_later(sys.setdlopenflags, sys.getdlopenflags),
        _put_back_later(_thread.stack_size, _thread.stack_size),
        _put_back_later(_locale.setlocale, _locale.setlocale, _locale.LC_ALL),
    )
)

# --- memory that is traced, the time zone ----------------------------------------------------

_start_tracing, _stop_tracing = copy_of(_tracemalloc.start), copy_of(_tracemalloc.stop)
_set_zone: Final = copy_of(time.tzset)


def _trace_again(limit: int) -> None:
    _stop_tracing()
    if limit:
        _start_tracing(limit)


def _remember_tracing() -> None:
    limit = _tracemalloc.get_traceback_limit() if _tracemalloc.is_tracing() else 0
    _before.setdefault(_trace_again, limit)


def _trace(*limit: int) -> None:
    _remember_tracing()
    _start_tracing(*limit)


def _trace_no_more() -> None:
    _remember_tracing()
    _stop_tracing()


def _live_in(zone: str | bytes | None) -> None:
    """The C library's clock is set to this zone, and Python's names of it."""
    if zone is None:
        environment_patches.real_unsetenv("TZ")
    else:
        environment_patches.real_putenv("TZ", zone)
    _set_zone()


def _tzset() -> None:
    """A process has one zone, so all hosts live in the one that was set last."""
    _before.setdefault(_live_in, environment_patches.real_table().get(b"TZ"))
    _live_in(os.environ.get("TZ"))


_ANSWERS.update({_tracemalloc.start: _trace, _tracemalloc.stop: _trace_no_more, time.tzset: _tzset})
CHANGES: Final = tuple(_led(builtin, answer) for builtin, answer in _ANSWERS.items())

# --- per run ---------------------------------------------------------------------------------

_finalizers: Final[Any] = weakref.finalize
_first_finalizer = 0


def begin_run() -> None:
    """Nothing is set yet."""
    global _kept, _first_finalizer
    _kept = _Kept()
    _first_finalizer = next(_finalizers._index_iter)


def end_run() -> None:
    """All numbers are as they were; what the run has left to be finalised goes with it."""
    _kept.at_exit.clear()
    while _before:
        put_back, value = _before.popitem()
        put_back(value)
    for info in _made_in_run():
        info.atexit = False


def _made_in_run() -> Iterator[Any]:
    for info in reversed(_finalizers._registry.values()):
        if info.index < _first_finalizer:
            return
        yield info
