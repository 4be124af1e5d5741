"""How time passes for a loop: its alarms, and what it does when nothing is ready.

The other half of the event loop is `loop.py`. This one knows of waiting only: wake those who wait
for a quiet moment, else let virtual time jump to the next alarm, else it is a deadlock.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from foretold.errors import LimitExceeded
from foretold.kernel.clock import NS
from foretold.kernel.handles import CANCELLED_ALARMS_MIN, AlarmHandle, AnyHandle
from foretold.kernel.kernel import Kernel
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.stacks import stack_of
from foretold.kernel.waiting import deadlock_of, users_place

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew

_heappush, _heappop = heapq.heappush, heapq.heappop
NEVER_NS = 1 << 100
KEY_BITS = 40
"""Room for the number of an alarm: a trillion of them in one run."""
LOOKED_AT = 8
"""So many alarms are looked at to find those that a late loop meets."""
_CLOSE_NS = 10_000_000
"""Alarms this close together may fall into one batch if the loop is late."""


def _call_soon_asleep(loop: Any, *args: Any, **more: Any) -> Any:
    """In the place of `call_soon`, while the loop sleeps."""
    handle = type(loop).call_soon(loop, *args, **more)
    crew, strand = loop.kernel.crew, strand_of(get_ident())
    if strand is None or strand is (loop.runner or crew.main) or strand.crew is not crew:
        return handle
    if loop._ready and loop._ready[-1] is handle:
        loop._unheard.append(loop._ready.pop())
        loop.kernel.notes[_not_heard(strand.actor.name)] = None
    return handle


def _not_heard(thread: str) -> str:
    place = users_place(stack_of(get_ident()))
    return (
        f"the thread {thread} asked something of an event loop that was asleep, at {place}. This "
        "does not wake the loop. Use loop.call_soon_threadsafe or asyncio.run_coroutine_threadsafe"
    )


def first_of(heap: list[Any], number: int, end: Any) -> list[Any]:
    """As `heapq.nsmallest(number, heap)`, as far as it lies before `end`, and without a look at all
    the others: what lies under an entry is not before it."""
    found: list[Any] = []
    open_entries = [(heap[0], 0)] if heap else []
    while open_entries and len(found) < number:
        entry, place = _heappop(open_entries)
        if not entry < end:
            break
        found.append(entry)
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                _heappush(open_entries, (heap[below], below))
    return found


class TimedLoop(asyncio.BaseEventLoop):
    # What BaseEventLoop keeps and typeshed does not tell of.
    _ready: deque[AnyHandle]
    _closed: bool
    _timer_cancelled_count: int

    def __init__(self, kernel: Kernel, **more: Any) -> None:
        super().__init__(**more)
        self.kernel = kernel
        self._clock = kernel.clock
        self.scheduler = kernel.scheduler
        self.recorder = kernel.recorder
        self._alarms: list[int] = []
        """A heap of keys: when, and which alarm it was, in one number. Numbers are compared three
        times as fast as tuples, and a heap does little else."""
        self._alarm_of: dict[int, AlarmHandle] = {}
        self._alarm_number = 0
        self._due_ns = NEVER_NS
        """When the first alarm is due."""
        self._unheard: list[AnyHandle] | None = None
        """What other threads have asked of this loop while it sleeps; None if it is awake."""
        self.on_stir: Callable[[], object] | None = None
        """Told when something is put in, if this loop is thought to wait."""

    def _push_alarm(self, when_ns: int, handle: AlarmHandle) -> None:
        if self.on_stir is not None:
            self.on_stir()
        self._alarm_number = number = self._alarm_number + 1
        key = (when_ns << KEY_BITS) + number
        self._alarm_of[key] = handle
        _heappush(self._alarms, key)
        if when_ns < self._due_ns:
            self._due_ns = when_ns

    def _pop_alarm(self) -> AlarmHandle:
        alarms = self._alarms
        handle = self._alarm_of.pop(_heappop(alarms))
        handle._scheduled = False
        self._due_ns = alarms[0] >> KEY_BITS if alarms else NEVER_NS
        return handle

    def has_alarms(self) -> bool:
        """Whether something was to happen later: at another pace it may have come in time."""
        return any(not handle._cancelled for handle in self._alarm_of.values())

    def _forget_alarms(self) -> None:
        self.kernel.overlaps += self.has_alarms()
        self._alarms.clear()
        self._alarm_of.clear()
        self._due_ns = NEVER_NS

    def _collect_due_timers(self) -> None:
        ready, now_ns = self._ready, self._clock.ns
        before = len(ready)
        while self._due_ns <= now_ns:
            handle = self._pop_alarm()
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(handle)
        if len(ready) > before and len(ready) > 1:
            self.kernel.overlaps += 1

    def _drop_cancelled_timers(self) -> None:
        alarms = self._alarms
        if (
            self._timer_cancelled_count > CANCELLED_ALARMS_MIN
            and self._timer_cancelled_count * 2 > len(alarms)
        ):
            for key in [k for k, handle in self._alarm_of.items() if handle._cancelled]:
                self._alarm_of.pop(key)._scheduled = False
            alarms[:] = self._alarm_of
            heapq.heapify(alarms)
            self._due_ns = alarms[0] >> KEY_BITS if alarms else NEVER_NS
            self._timer_cancelled_count = 0
        while alarms and self._alarm_of[alarms[0]]._cancelled:
            self._pop_alarm()
            self._timer_cancelled_count -= 1

    def _wait(self) -> None:
        """Nothing is ready. Wake who waits for that; else let time pass; else it is a deadlock."""
        kernel, when_ns = self.kernel, self._due_ns
        scheduler = self.scheduler
        if (
            self._timer_cancelled_count
            or kernel.settlers
            or kernel.idlers
            or kernel.outside is not None
            or kernel.crew is not None
            or when_ns > kernel.virtual_ns_max
            or (scheduler is not None and scheduler.size)
        ):
            self._wait_with_care()
            return
        # The common case, without ceremony: jump to the first alarm.
        alarms = self._alarms
        if kernel.pace.can_wake_late and self.wakes_late(when_ns):
            return
        handle = self._alarm_of.pop(_heappop(alarms))
        handle._scheduled = False
        self._ready.append(handle)
        clock = self._clock
        clock.idle_ns += when_ns - clock.ns
        clock.ns = when_ns
        kernel.trace.jump(when_ns)
        self._due_ns = due_ns = alarms[0] >> KEY_BITS if alarms else NEVER_NS
        if due_ns - when_ns < _CLOSE_NS:
            kernel.overlaps += 1
            if due_ns <= when_ns:
                self._collect_due_timers()

    def _wait_with(self, grant: int) -> int:
        """Wait; so many of the granted steps are left, and what is left then comes back: a step
        soon after the wake-up may have to be looked at."""
        self.kernel.grant = grant
        self._wait()
        return self.kernel.grant

    def wakes_late(self, when_ns: int) -> bool:
        """The loop sleeps, and something wakes it at `when_ns`. Whether it sleeps on for a while:
        then its time is when it wakes, and what is due by then is still to be looked at."""
        kernel = self.kernel
        crew = kernel.crew
        if not kernel.pace.can_wake_late:
            return False
        if crew is None or not crew.threaded:
            return kernel.wakes_late(kernel.current, when_ns, self._soon_after)
        if crew.can_go_on():
            return False
        return crew.wakes_late(when_ns, self._soon_after, kernel.current)

    def _soon_after(self, when_ns: int, within_ns: int) -> list[int]:
        """How long after `when_ns` the next alarms are due, of those within so much time."""
        alarms, end_ns = self._alarms, when_ns + within_ns
        if not alarms or (alarms[0] >> KEY_BITS) > end_ns:
            return []
        if alarms[0] >> KEY_BITS <= when_ns and (
            len(alarms) == 1 or min(alarms[1:3]) >> KEY_BITS > end_ns
        ):
            return []  # in a heap the second smallest stands there
        first = first_of(alarms, LOOKED_AT, (end_ns + 1) << KEY_BITS)
        due = [key >> KEY_BITS for key in first if not self._alarm_of[key]._cancelled]
        return [ns - when_ns for ns in due if when_ns < ns]

    def _wait_with_care(self) -> None:
        crew = self.kernel.crew
        if crew is None or not crew.threaded:
            self._let_time_pass()
            return
        self.fall_asleep()
        try:
            self._let_time_pass()
        except BaseException:
            self.wake_up()
            raise
        if self.has_work():
            self.wake_up()

    def _let_time_pass(self) -> None:
        kernel = self.kernel
        if self._timer_cancelled_count:
            self._drop_cancelled_timers()
        if kernel.crew is not None and self._wait_as_a_thread(kernel.crew):
            return
        if kernel.settlers:
            if self.scheduler is not None and self.scheduler.release_held():
                return  # who is held is not done at this instant
            if self._wake_one(kernel.settlers):
                return
        # Time never jumps over a task that could run, as those do that are held: a loop that is
        # idle runs it at once, and a time limit that expires meanwhile would be our doing.
        if self.scheduler is not None and self.scheduler.size and self.scheduler.release_held():
            return
        if kernel.outside is not None and kernel.outside.wait(self):
            return
        when_ns = self.next_wake_ns()
        if when_ns < NEVER_NS:
            if kernel.idlers and when_ns > kernel.idlers[0][1]:
                self._give_up_on_rest()
                return
            if len(self._alarms) > 1:
                kernel.overlaps += 1
            if self.wakes_late(when_ns):
                return
            kernel.jump_to(when_ns)
            self._collect_due_timers()
        elif kernel.idlers:
            idler, _ = kernel.idlers.popleft()
            if not idler.done():
                idler.set_result(None)
        else:
            self._deadlock()

    # A thread that calls `call_soon` of a loop that waits in its selector does not wake it, in
    # asyncio as here: the callback runs when something else wakes the loop, or never.

    def fall_asleep(self) -> None:
        """Nothing is ready, and other threads go on."""
        if self._unheard is None:
            self._unheard = []
            vars(self)["call_soon"] = functools.partial(_call_soon_asleep, self)

    def wake_up(self) -> None:
        """Something is to be done: first what nobody has heard of."""
        unheard, self._unheard = self._unheard, None
        if unheard is not None:
            del vars(self)["call_soon"]
            self._ready.extendleft(reversed(unheard))

    def next_wake_ns(self) -> int:
        """When the first alarm is due, or a thread of this host has waited long enough."""
        crew = self.kernel.crew
        return self._due_ns if crew is None else min(self._due_ns, crew.next_deadline_ns())

    def _wait_as_a_thread(self, crew: Crew) -> bool:
        """Other threads go on while this loop has nothing to do. False if none can."""
        return crew.wait_in_loop(self)

    def has_work(self) -> bool:
        return bool(self._ready) or self._due_ns <= self._clock.ns or self.has_held_alone()

    def has_held_alone(self) -> bool:
        """Whether none can go on here but tasks that are held: then their time has come."""
        scheduler = self.scheduler
        return scheduler is not None and scheduler.size > 0 and not self.kernel.rivals

    def _wake_one(self, waiters: deque[asyncio.Future[None]]) -> bool:
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    def _give_up_on_rest(self) -> None:
        """Someone waits until nothing is scheduled, and waited long enough."""
        idler, limit_ns = self.kernel.idlers.popleft()
        if not idler.done():
            idler.set_exception(
                LimitExceeded(
                    f"the world did not come to rest by {limit_ns / NS:g} s: something renews "
                    "itself for ever. Cancel it, or use world.clock.advance(s), or raise "
                    "run_until_idle(limit_s=…)."
                )
            )

    def _deadlock(self) -> NoReturn:
        error: BaseException
        if self.kernel.crew is not None:
            error = self.kernel.crew.deadlock()
        elif self.kernel.outside is not None:
            error = self.kernel.outside.deadlock(self)
        else:
            error = deadlock_of(self.kernel.host, asyncio.all_tasks(self))
        if self.is_nested():
            self.kernel.on_deadlock(error)  # the program may catch it
        raise error

    def is_nested(self) -> bool:
        """Whether it is the program that runs this loop, by `asyncio.run`."""
        return False
