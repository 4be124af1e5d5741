"""Replay: first come first served, except for the holds that a tape names.

A hold ends when the step it waits for has been made, when that actor has ended, or when nothing
else can run at this instant: time does not jump over a task that is held, because an idle loop
would run it, and a time limit that expired meanwhile would be our doing. For the same reason it
ends if nothing but callbacks has run for long, or if others spin until time has passed.
"""

from __future__ import annotations

import heapq
import math

from foretold.kernel.actors import Register, Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import CALLBACKS_MAX, LOOK_EVERY, Scheduler
from foretold.tape import CALLBACKS, ENDED, Hold
from foretold.tape.streams import TapeRandom

HELD_PICKS_MAX = 100_000


class KeyedScheduler(Scheduler):
    def __init__(
        self,
        holds: dict[tuple[str, int], Hold],
        register: Register,
        callbacks: Stepper,
        *,
        recorded: bool = False,
    ) -> None:
        super().__init__(TapeRandom(0))  # never drawn from
        self._recorded = recorded
        """A recording is repeated as it was, however long somebody waited in it."""
        self._holds = holds
        self._register = register
        self._callbacks = callbacks
        self._queue: list[tuple[int, AnyHandle]] = []
        self._held: dict[int, tuple[Hold, AnyHandle, int]] = {}
        self._waiting_for: dict[str, list[tuple[float, int]]] = {}
        """By actor: heaps of (step that is waited for, arrival of who waits)."""
        self._last_picked = ""
        self._picks = 0
        self.used: set[tuple[str, int]] = set()
        """The holds that really held somebody."""

    def add(self, handle: AnyHandle) -> None:
        self.size += 1
        key = (handle.actor.name, handle.actor.steps + 1)
        hold = self._holds.get(key) if self._picks <= self.fair_after else None
        if hold is None or self._over(hold):
            self._enqueue(handle)
            return
        self.used.add(key)
        self._held[handle.arrival] = (hold, handle, self._picks)
        until_step = math.inf if hold.until_step == ENDED else hold.until_step
        waiting = self._waiting_for.setdefault(hold.until_actor, [])
        heapq.heappush(waiting, (until_step, handle.arrival))

    def _over(self, hold: Hold) -> bool:
        if hold.until_actor == CALLBACKS:
            return self._callbacks.steps >= hold.until_step
        other = self._register.by_name.get(hold.until_actor)
        if other is None:
            return False
        if other.ended:
            return True
        return hold.until_step != ENDED and other.steps >= hold.until_step

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if self.size + (callback is not None) > 1:
            self.decisions += 1
        self._picks += 1
        if self._held:
            self._release_what_is_over()
            if self._callbacks_alone >= CALLBACKS_MAX and not self._queue and not self._recorded:
                self.fair_after = min(self.fair_after, self._picks - 1)
                self._release_what_starves()
        if not self._queue:
            self._last_picked = CALLBACKS
            self._callbacks_alone += 1
            return callback
        self._callbacks_alone = 0
        self.size -= 1
        handle = heapq.heappop(self._queue)[1]
        self._last_picked = handle.actor.name
        return handle

    def _release_what_is_over(self) -> None:
        # Only the last step can have ended a hold, so only those who wait for its actor are asked.
        waiting = self._waiting_for.get(self._last_picked)
        while waiting:
            arrival = waiting[0][1]
            if arrival in self._held:
                if not self._over(self._held[arrival][0]):
                    break
                self._release(arrival)
            heapq.heappop(waiting)
        if self._picks % LOOK_EVERY == 0 and not self._recorded:
            self._release_what_starves()

    def _release_what_starves(self) -> None:
        waiting = [
            (arrival, each, self._picks - since) for arrival, (_, each, since) in self._held.items()
        ]
        if any(self.has_waited(each, picks) for _, each, picks in waiting):
            self.fair_after = min(self.fair_after, self._picks - 1)
        fair = self._picks > self.fair_after
        for arrival, _, picks in waiting:
            if fair or picks > HELD_PICKS_MAX:
                self.broken_holds += 1
                self._release(arrival)

    def _release(self, arrival: int) -> None:
        self._enqueue(self._held.pop(arrival)[1])

    def _enqueue(self, handle: AnyHandle) -> None:
        heapq.heappush(self._queue, (handle.arrival, handle))

    def drain(self) -> list[AnyHandle]:
        for arrival in list(self._held):
            self._release(arrival)
        return super().drain()

    def release_held(self) -> bool:
        if not self._held:
            return False
        self.broken_holds += 1
        self._release(next(iter(self._held)))
        return True

    def held_since_ns(self) -> int | None:
        if not self._held:
            return None
        return next(iter(self._held.values()))[1].held_since_ns
