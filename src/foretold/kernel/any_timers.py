"""All orders in which the timers of a program can fire under stock asyncio, as choices of the tape.

Which timers have become due when an iteration begins depends on how long all steps before it took.
Here the clock does not decide it: it is a choice like any other, and so an enumeration goes through
every stock schedule of a program that waits for timers alone (`audit.py` says whether it does). It
may take schedules for possible that are not, never the reverse: of two timers one must be the first
only if

- it was set first, and not for a longer time, or
- it is due earlier by `PAUSE_S` or more.

Nor does a timer fire that much too early while the loop has something to do. So all schedules are
considered in which the loop is late by less than `PAUSE_S` in all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from foretold.kernel.audit import Audit
from foretold.kernel.handles import AlarmHandle
from foretold.kernel.timed import KEY_BITS, NEVER_NS

if TYPE_CHECKING:
    from foretold.tape import Stream

PAUSE_S = 1.0
_PAUSE_NS = int(PAUSE_S * 1e9)
_ASYNCIO = "asyncio."
_ALWAYS_DUE = -1


class _Timer(NamedTuple):
    number: int
    due_ns: int
    delay: float | None
    """None if it was set by `call_at`: how long ago its setter looked at the clock is not known."""
    handle: AlarmHandle

    def must_precede(self, other: _Timer) -> bool:
        if self.due_ns + _PAUSE_NS <= other.due_ns:
            return True
        if self.delay is None or other.delay is None:
            return False
        return self.number < other.number and self.delay <= other.delay


class AnyTimers:
    def __init__(self, loop: Any, audit: Audit, choices: Stream) -> None:
        self._loop, self._audit, self._choices = loop, audit, choices
        self._call_later, self._call_at, self._time = loop.call_later, loop.call_at, loop.time
        loop.call_later, loop.call_at, loop.time = self.call_later, self.call_at, self.time
        loop._collect_due_timers = self.collect
        self._pending: list[_Timer] = []

    def call_later(self, delay: float, *given: Any, **more: Any) -> Any:
        self._audit.reads += 1  # it looks at the clock to know when that is
        return self._set(self._call_later(delay, *given, **more), delay)

    def call_at(self, *given: Any, **more: Any) -> Any:
        return self._set(self._call_at(*given, **more), None)

    def time(self) -> float:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        self._audit.reads += caller.startswith(_ASYNCIO)
        return float(self._time())

    def _set(self, handle: AlarmHandle, delay: float | None) -> AlarmHandle:
        loop = self._loop
        due_ns = next(reversed(loop._alarm_of)) >> KEY_BITS
        loop._forget_alarms()
        handle._scheduled = False  # it is in no heap, and nobody counts there what is called off
        if due_ns < NEVER_NS:
            self._audit.timers += 1
            self._pending.append(_Timer(self._audit.timers, due_ns, delay, handle))
        loop._due_ns = _ALWAYS_DUE if self._pending else NEVER_NS
        return handle

    def collect(self) -> None:
        """An iteration begins: some timers have become due. One at least if nothing is ready."""
        loop = self._loop
        while self._pending:
            self._pending = [timer for timer in self._pending if not timer.handle._cancelled]
            first = self._possibly_first()
            if not first or (loop._ready and not self._choices.boolean("one more timer is due")):
                break
            self._fire(first[self._choices.choose(len(first), "which timer")])
        if not self._pending:
            loop._due_ns = NEVER_NS

    def _possibly_first(self) -> list[_Timer]:
        """Those that could fire now: with no other before them, and not far off while the loop has
        something to do."""
        pending = self._pending
        now_ns = NEVER_NS if not self._loop._ready else self._loop._clock.ns
        return [
            timer
            for timer in pending
            if timer.due_ns < now_ns + _PAUSE_NS
            and not any(other.must_precede(timer) for other in pending)
        ]

    def _fire(self, timer: _Timer) -> None:
        self._pending.remove(timer)
        clock = self._loop._clock
        late_ns = max(0, timer.due_ns - clock.ns)
        clock.ns += late_ns
        self._audit.jumped_ns += late_ns
        self._loop._ready.append(timer.handle)
