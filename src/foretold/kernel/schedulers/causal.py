"""For `exhaustive`: calm order with named holds, in a form in which steps that do not meddle with
one another really commute, and with a log of what was picked.

First come first served is not enough for that. If two steps touch nothing in common, running them
in the other order gives the same state, but their successors arrive in the other order as well, and
the rest of the run differs. So here a step stands in line by the number of steps in its *past*: all
that it depends on, by whatever chain. That number does not change when independent steps change
places. Where every step depends on every other it is first come first served.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from foretold.kernel.actors import Actor, Register
from foretold.kernel.handles import AnyHandle
from foretold.kernel.pieces import Touched
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.kernel.touches import Watch
from foretold.tape import CALLBACKS, Hold


@dataclass(slots=True)
class Pick:
    """One step, as it was picked."""

    host: str
    actor: str
    step: int
    alone: bool
    """There was nobody else."""
    touched: Touched = None
    """The tracked objects that it touched; None if it may have touched anything."""

    def depends_on(self, other: Pick) -> bool:
        """Whether the two may not change places. Unknown counts as yes."""
        mine, theirs = self.touched, other.touched
        return mine is None or theirs is None or not mine.isdisjoint(theirs)


@dataclass(slots=True)
class ScheduleLog:
    """What the schedulers of one run did. A tape that has one is scheduled causally."""

    held_picks_max: int
    picks: list[Pick] = field(default_factory=list)
    cut: bool = False
    """A hold was ended because it had lasted too long."""
    threads: bool = False
    """There were threads, whose order no task's scheduler decides."""

    def scheduler(
        self, host: str, holds: dict[tuple[str, int], Hold], register: Register, callbacks: Actor
    ) -> CausalScheduler:
        """The scheduler of one host."""
        return CausalScheduler(self, host, holds, register, callbacks)


class CausalScheduler(KeyedScheduler):
    """Holds over causal order."""

    def __init__(
        self,
        log: ScheduleLog,
        host: str,
        holds: dict[tuple[str, int], Hold],
        register: Register,
        callbacks: Actor,
    ) -> None:
        super().__init__(holds, register, callbacks)
        self._log = log
        self._host = host
        self._watch = Watch()
        self._line: list[tuple[tuple[int, str, int], AnyHandle]] = []
        self._place: dict[int, tuple[int, str, int]] = {}
        """By arrival: where it stands in line."""
        self._enabled_by: dict[int, int] = {}
        """By arrival: the past of the step that made it ready. A past is a set of steps, as the
        bits of a number."""
        self._pasts: dict[Actor, int] = {}
        self._last_touch: dict[int, int] = {}
        self._last_wild = 0
        self._all = 0
        self._count = 0
        self._running: tuple[AnyHandle, Pick] | None = None
        self._past_of_last = 0
        self._name_of_last = ""
        self._callbacks_seen = 0

    def add(self, handle: AnyHandle) -> None:
        self._settle()
        size = self._past_of_last.bit_count()
        self._place[handle.arrival] = (size, self._name_of_last, handle.arrival)
        self._enabled_by[handle.arrival] = self._past_of_last
        super().add(handle)

    def _enqueue(self, handle: AnyHandle) -> None:
        heapq.heappush(self._line, (self._place[handle.arrival], handle))

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        self._settle()
        if self.size + (callback is not None) > 1:
            self.decisions += 1
        self._picks += 1
        if self._held:
            self._release_what_is_over()
            self._end_what_lasts_too_long()
        if not self._line:
            self._last_picked = CALLBACKS
            if callback is not None:
                pick = Pick(self._host, CALLBACKS, self._callbacks.steps + 1, not self.size)
                self._log.picks.append(pick)
            return callback
        alone = self.size + (callback is not None) == 1
        self.size -= 1
        handle = heapq.heappop(self._line)[1]
        actor = handle.actor
        self._last_picked = actor.name
        self._running = (handle, Pick(self._host, actor.name, actor.steps + 1, alone))
        self._log.picks.append(self._running[1])
        self._watch.before(handle)
        return handle

    def _end_what_lasts_too_long(self) -> None:
        for arrival, (_, _, since) in list(self._held.items()):
            if self._picks - since > self._log.held_picks_max:
                self._log.cut = True
                self.broken_holds += 1
                self._release(arrival)

    def _settle(self) -> None:
        """The last step is over: what did it touch, and what was its past?"""
        if self._callbacks.steps != self._callbacks_seen:
            self._callbacks_seen = self._callbacks.steps
            self._all = self._last_wild = self._past_of_last = self._bit() | self._all
            self._name_of_last = CALLBACKS
        if self._running is None:
            return
        handle, pick = self._running
        self._running = None
        pick.touched = touched = self._watch.after()
        past = self._pasts.get(handle.actor, 0) | self._enabled_by.pop(handle.arrival)
        del self._place[handle.arrival]
        if touched is None:
            past |= self._all
        else:
            past |= self._last_wild
            for thing in touched:
                past |= self._last_touch.get(thing, 0)
        past |= self._bit()
        self._all |= past
        self._pasts[handle.actor] = self._past_of_last = past
        self._name_of_last = handle.actor.name
        if touched is None:
            self._last_wild = past
        else:
            for thing in touched:
                self._last_touch[thing] = past

    def _bit(self) -> int:
        self._count += 1
        return 1 << self._count
