"""Virtual time, and the clocks that a program can be given.

Inside, time is a whole number of nanoseconds. It passes while code runs: every step and every
read of a clock moves it on, because a clock that stands still changes programs (two timestamps
would compare equal that in production never do).
"""

from __future__ import annotations

import datetime
import threading
from typing import Literal, Protocol, runtime_checkable

from foretold.errors import UsageError

NS = 1_000_000_000
EPOCH_S_DEFAULT = 1_767_225_600  # 2026-01-01T00:00:00Z
MONOTONIC_S_DEFAULT = 1_000
"""Not zero: a machine has been up for a while, and programs use 0 for "never"."""


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds, the nearest."""
    if isinstance(seconds, int):
        return seconds * NS
    return round(seconds * NS)


class VirtualClock:
    """One host's time. `ns` is its monotonic clock; the wall clock is an offset to it."""

    __slots__ = (
        "drift_ppm",
        "drift_since_ns",
        "exact",
        "idle_ns",
        "ns",
        "read_in_c",
        "read_ns",
        "reads",
        "start_ns",
        "step_ns",
        "wall_offset_ns",
    )

    def __init__(
        self, *, epoch_s: float = EPOCH_S_DEFAULT, monotonic_s: float = MONOTONIC_S_DEFAULT
    ) -> None:
        self.ns = self.start_ns = to_ns(monotonic_s)
        self.wall_offset_ns = to_ns(epoch_s) - self.ns
        self.idle_ns = 0
        """How much of the time the host has spent waiting: no processor was busy with that."""
        self.step_ns = 1_000
        self.read_ns = 1_000
        self.exact = False
        self.reads = 0
        """How often the program has looked: what it does then may depend on the pace."""
        self.read_in_c = False
        """Whether C code has looked, which moves no time."""
        self.drift_ppm = 0.0
        self.drift_since_ns = self.ns

    def make_exact(self) -> None:
        """Time moves only where the program waits: for tests that assert exact instants."""
        self.step_ns = self.read_ns = 0
        self.exact = True

    def read_monotonic_ns(self) -> int:
        self.reads += 1
        self.ns += self.read_ns
        return self.ns

    def read_wall_ns(self) -> int:
        self.reads += 1
        self.ns += self.read_ns
        return self.ns + self.wall_offset_ns

    def wait_until(self, ns: int) -> None:
        """The host does nothing before this instant, if that is still to come."""
        if ns > self.ns:
            self.idle_ns += ns - self.ns
            self.ns = ns

    def read_cpu_ns(self) -> int:
        """How long the host's processors were busy with its program: all time but what it waited.
        Threads share it."""
        return self.read_monotonic_ns() - self.start_ns - self.idle_ns

    def wall_now_ns(self) -> int:
        """The wall clock, for who is no program: time does not move."""
        return self.ns + self.wall_offset_ns

    def drifted_ns(self) -> int:
        """How far the wall clock has drifted since `drift`."""
        return 0

    def drift(self, ppm: float) -> int:
        """From now on the wall clock goes wrong by so many microseconds a second. Returns by how
        much it has until now, which stays."""
        drifted_ns = self.drifted_ns()
        self.wall_offset_ns += drifted_ns
        self.drift_ppm, self.drift_since_ns = ppm, self.ns
        # A clock that does not drift, hence nearly every one, pays nothing for those that do.
        self.__class__ = DriftingClock if ppm else VirtualClock
        return drifted_ns

    @property
    def elapsed_ns(self) -> int:
        return self.ns - self.start_ns


class DriftingClock(VirtualClock):
    """A clock whose quartz is too fast or too slow."""

    __slots__ = ()

    def drifted_ns(self) -> int:
        return round((self.ns - self.drift_since_ns) * self.drift_ppm / 1e6)

    def read_wall_ns(self) -> int:
        self.reads += 1
        self.ns += self.read_ns
        return self.wall_now_ns()

    def wall_now_ns(self) -> int:
        return self.ns + self.wall_offset_ns + self.drifted_ns()


@runtime_checkable
class Clock(Protocol):
    """A clock that a program is handed, for those who like to pass their clock explicitly."""

    def now(self) -> float:
        """Seconds since 1970, as `time.time()`."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back, as `time.monotonic()`."""


class SystemClock:
    """The machine's own clock: what production passes where a test passes another.

    Inside a run it shows the world's time, as everything does.
    """

    def now(self) -> float:
        import time

        return time.time()

    def monotonic(self) -> float:
        import time

        return time.monotonic()


class ManualClock:
    """A clock moved by hand (S4.1), independent of any world.

    `absolute`: stands where it was set and moves only when told to. `relative`: follows another
    clock at a distance, the skew. Moving it backwards by `advance` is refused; `set_time` and
    `set_skew` may go either way, as an administrator or a bad NTP server would. Threads may share
    it.
    """

    def __init__(
        self,
        time_s: float = 0,
        *,
        mode: Literal["absolute", "relative"] = "absolute",
        base: Clock | None = None,
    ) -> None:
        if mode not in ("absolute", "relative"):
            raise UsageError(f'mode is "absolute" or "relative", got {mode!r}')
        if mode == "absolute" and base is not None:
            raise UsageError('only a relative clock has a base: write mode="relative"')
        self.mode = mode
        self._base: Clock = base if base is not None else SystemClock()
        self._ns = to_ns(time_s)
        self._monotonic_ns = 0
        self._skew_ns = 0
        self._lock = threading.Lock()

    def _base_ns(self) -> int:
        return to_ns(self._base.now()) if self.mode == "relative" else 0

    def set_time(self, time_s: float) -> None:
        """Show `time_s` from now on."""
        self._ns = to_ns(time_s) - self._base_ns()

    def set_skew(self, skew_s: float) -> None:
        """Be this far ahead (or behind, if negative) of what would be shown without it."""
        self._skew_ns = to_ns(skew_s)

    def advance(self, seconds: float) -> None:
        self.advance_nanos(to_ns(seconds))

    def advance_nanos(self, nanos: int) -> None:
        if nanos < 0:
            raise UsageError("time does not run backwards: use set_time to set the clock back")
        with self._lock:
            self._ns += nanos
            self._monotonic_ns += nanos

    def now_ns(self) -> int:
        return self._base_ns() + self._ns + self._skew_ns

    def now(self) -> float:
        return self.now_ns() / NS

    def monotonic(self) -> float:
        base = self._base.monotonic() if self.mode == "relative" else 0.0
        return base + self._monotonic_ns / NS

    def datetime(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.now(), datetime.UTC)
