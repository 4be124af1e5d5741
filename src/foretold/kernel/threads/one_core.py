"""All threads of a run on one core of the machine, where that is quicker.

Only one of them runs at a time, so that a second core is of no use to them. But the system wakes a
thread on a core that idles, and to wake that core takes longer than most of what a thread does
until it hands over again: on one core, hosts and threads run up to twice as fast.

The others are not to suffer, nor we from them: a core that we hold on to while somebody else works
there is slower than the system's own choice. Whether that was so is seen at the end of each run, by
the time for which we had no processor. Then the system chooses for a while, each time for longer.
The same happens where runs wait for a server: they gain nothing. No result depends on any of this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from foretold.kernel import real

SHORT_NS: Final = 2_000_000
"""A run that is over sooner tells nothing about who else uses the core."""
BUSY_SHARE: Final = 0.85
"""Of a run's time we have a processor at least so long, unless somebody else wants it."""
PAUSE_NS: Final = 500_000_000
PAUSE_NS_MAX: Final = 60_000_000_000
_TASKS: Final = "/proc/self/task"


_core_of_now: Final[Callable[[], int]] = ctypes.CDLL(None).sched_getcpu  # Python has none


class OneCore:
    """Where the threads of this process's runs belong."""

    def __init__(self) -> None:
        self._allowed: set[int] = set()
        """Where the driver may run between runs. Empty: nothing is changed now."""
        self._driver = 0
        self._others: set[str] = set()
        """Threads that were there before: none of our business."""
        self._began_ns = self._began_cpu_ns = 0
        self._until_ns = 0
        """The system chooses until then."""
        self._pause_ns = PAUSE_NS

    def begin(self) -> None:
        """A thread is about to start here, the first one of a run: it and all that it starts
        inherit where they belong."""
        if self._allowed or real.perf_counter_ns() < self._until_ns:
            return
        with suppress(OSError):  # a sandbox that forbids it
            allowed, core = real.sched_getaffinity(0), _core_of_now()
            if len(allowed) < 2 or core not in allowed:
                return
            self._others = set(real.listdir(_TASKS))
            real.sched_setaffinity(0, {core})
            self._allowed, self._driver = allowed, real.get_native_id()
            self._began_ns = real.perf_counter_ns()
            self._began_cpu_ns = real.process_time_ns()

    def end(self) -> None:
        """All are free again, also threads of the program's libraries that stay."""
        if not self._allowed:
            return
        allowed, self._allowed = self._allowed, set()
        for thread in (self._driver, *map(int, set(real.listdir(_TASKS)) - self._others)):
            with suppress(OSError):  # it has just ended
                real.sched_setaffinity(thread, allowed)
        now_ns = real.perf_counter_ns()
        self.judge(now_ns, now_ns - self._began_ns, real.process_time_ns() - self._began_cpu_ns)

    def judge(self, now_ns: int, took_ns: int, used_ns: int) -> None:
        """A run took so long, and we had a processor for that part of it."""
        if took_ns < SHORT_NS:
            return
        if used_ns >= BUSY_SHARE * took_ns:
            self._pause_ns = PAUSE_NS
            return
        self._until_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, PAUSE_NS_MAX)


one_core: Final = OneCore()
