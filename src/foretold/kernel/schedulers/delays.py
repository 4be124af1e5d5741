"""Delays: calm order, except that now and then one task is held back for a while.

Most ordering bugs need one task to stand still at the wrong line while others go on. So: run first
come first served; every so often hold the step that has just become ready until some number of
others have run. Few choices, far-reaching effect, and the result reads as an explanation.
"""

from __future__ import annotations

import heapq
import random

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler

GAPS = (2, 4, 10, 30, 100, 400)
"""Mean number of steps between two holds; one of them is drawn for each run."""
LENGTHS = (1, 2, 4, 8, 16, 40, 100, 250)
"""For how many picks a step is held."""
HOLDS_MAX = 6


class DelayScheduler(Scheduler):
    """First come first served with a few holds."""

    takes_singles = True

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        self._gap = generator.choice(GAPS)
        self._holds_left = generator.randrange(1, HOLDS_MAX + 1)
        self._until_next = generator.randrange(2 * self._gap)
        self._picks = 0
        self._queue: list[tuple[int, AnyHandle]] = []
        self._held: list[tuple[int, int, AnyHandle]] = []

    def add(self, handle: AnyHandle) -> None:
        self.size += 1
        if self._until_next:
            self._until_next -= 1
        elif self._holds_left:
            self._holds_left -= 1
            self._until_next = self.generator.randrange(2 * self._gap)
            release_at = self._picks + self.generator.choice(LENGTHS)
            heapq.heappush(self._held, (release_at, handle.arrival, handle))
            return
        heapq.heappush(self._queue, (handle.arrival, handle))

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if self.size + (callback is not None) > 1:
            self.decisions += 1
        self._picks += 1
        while self._held and (self._held[0][0] < self._picks):
            self._release()
        if not self._queue:
            if callback is not None or not self._held:
                return callback
            self._release()  # nothing else is ready: a hold never makes time jump
        self.size -= 1
        return heapq.heappop(self._queue)[1]

    def _release(self) -> None:
        _, arrival, handle = heapq.heappop(self._held)
        heapq.heappush(self._queue, (arrival, handle))
