"""What ends C code that computes for ever and lets no other thread of Python run.

Nobody but the kernel can: timers of the process's own processor time, which the watchdog puts off
whenever it gets to run. When it has not for as long as a run may take, the first timer sends the
watchdog's signal, which some C code asks for (regular expressions do); the second one lets
`faulthandler` print where every thread stands; the third one kills. Processor time, because a
process that was stopped, or a machine that was asleep, must not be taken for one that hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import signal
from typing import Any, Final

from foretold.kernel import fence

_CPU_CLOCK: Final = 2  # CLOCK_PROCESS_CPUTIME_ID of <time.h>
_SHOWS: Final = signal.SIGRTMIN + 12
GAP_S = 1.0
"""Between two of them."""


class _Event(ctypes.Structure):
    """`struct sigevent`, by which a timer says what it sends."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_byte * 64),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec`: how often, and when first."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class LastResort:
    """The timers of this process; a fork has none of its parent's."""

    def __init__(self, warns: int) -> None:
        self._signals = (warns, int(_SHOWS), int(signal.SIGKILL))
        self._timers: list[ctypes.c_void_p] = []
        self._set: Any = None

    def begin(self, shows_on: int) -> None:
        """Make the timers, where the system has them."""
        self._timers = []
        libc: Any = ctypes.CDLL(None)
        if not hasattr(libc, "timer_create"):
            return
        self._set = libc.timer_settime
        for number in self._signals:
            event, timer = _Event(signo=number), ctypes.c_void_p()
            if libc.timer_create(_CPU_CLOCK, ctypes.byref(event), ctypes.byref(timer)):
                return
            self._timers.append(timer)
        self.show_on(shows_on)

    def show_on(self, descriptor: int) -> None:
        """Where the second timer prints."""
        if self._timers:
            errors = (AttributeError, OSError, ValueError, RuntimeError)
            with fence.passage(), contextlib.suppress(*errors):
                faulthandler.register(_SHOWS, file=descriptor, all_threads=True)

    def put_off(self, after_s: float) -> None:
        """Nothing happens for so many seconds of processor time; 0: for ever."""
        for number, timer in enumerate(self._timers):
            first_s = after_s + number * GAP_S if after_s else 0.0
            whole = int(first_s)
            times = _Times(0, 0, whole, int((first_s - whole) * 1e9))
            self._set(timer, 0, ctypes.byref(times), None)
