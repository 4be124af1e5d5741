"""Time as an argument: a bubble asks its clock, and never the machine.

`millis` is the wall clock, which may be wrong and may jump. `nanos` is for elapsed time: it only
moves forward. One millisecond is 1,000,000 nanoseconds in every clock.
"""

import threading
import time
from typing import Protocol

from examples.luciferase.bugs import planted

NANOS_PER_MILLI = 1_000_000


class Clock(Protocol):
    """What a bubble knows about time."""

    def millis(self) -> int:
        """Milliseconds since 1970, as far as this machine knows."""

    def nanos(self) -> int:
        """Nanoseconds since some instant; never less than before."""


class SystemClock:
    """The machine's own clocks."""

    def millis(self) -> int:
        return time.time_ns() // NANOS_PER_MILLI

    def nanos(self) -> int:
        return time.monotonic_ns()


class TestClock:
    """A clock that a test moves. Absolute by default: it shows exactly what was set. In relative
    mode, which `set_skew` begins, it follows another clock at a distance.

    All methods may be called from several threads.
    """

    __test__ = False  # pytest collects classes by this prefix

    def __init__(self, millis: int = 0, base: Clock | None = None) -> None:
        self._lock = threading.Lock()
        self._nanos = millis * NANOS_PER_MILLI
        self._base = base or SystemClock()
        self._is_relative = False

    @property
    def mode(self) -> str:
        """`absolute` or `relative`."""
        return "relative" if self._is_relative else "absolute"

    def set_time(self, millis: int) -> None:
        """Show exactly this time from now on."""
        with self._lock:
            self._nanos, self._is_relative = millis * NANOS_PER_MILLI, False

    def set_skew(self, millis: int) -> None:
        """Show the time of the base clock plus this from now on."""
        with self._lock:
            self._nanos, self._is_relative = millis * NANOS_PER_MILLI, True

    def advance(self, millis: int) -> None:
        self.advance_nanos(millis * NANOS_PER_MILLI)

    def advance_nanos(self, nanos: int) -> None:
        if nanos < 0:
            raise ValueError(f"a clock does not advance by {nanos} ns; set_time moves it back")
        with self._lock:
            self._nanos += nanos

    def millis(self) -> int:
        with self._lock:
            if self._is_relative:
                return self._base.millis() + self._nanos // NANOS_PER_MILLI
            return self._nanos // NANOS_PER_MILLI

    def nanos(self) -> int:
        with self._lock:
            return self._nanos + (self._base.nanos() if self._is_relative else 0)


class RateLimiter:
    """A bucket of permits that fills with time."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self.clock = clock
        self.per_second = per_second
        self.burst = burst
        self._permits = float(burst)
        self._then_ns = self._now_ns()

    def take(self) -> bool:
        """Whether there is a permit; it is spent then."""
        now_ns = self._now_ns()
        gained = (now_ns - self._then_ns) / 1e9 * self.per_second
        self._permits = min(float(self.burst), self._permits + gained)
        self._then_ns = now_ns
        if self._permits < 1:
            return False
        self._permits -= 1
        return True

    def _now_ns(self) -> int:
        if planted("limiter_reads_wall_clock"):
            return time.time_ns()
        return self.clock.nanos()
