"""A heap of ready steps by rank, that turns fair in the end. What `pct` and `pos` share.

Priorities are unfair for ever, and programs that spin (`while not ready: await sleep(0)`) would
hang: after `fair_after` picks the order is first come first served, so that starvation is never
taken for a hang.
"""

from __future__ import annotations

import heapq
import random

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile

FAIR_AFTER_HORIZONS = 8
FAIR_AFTER_MORE = 200
CALLBACK_PATIENCE = 24
"""How often in a row a waiting callback may be passed over."""


class RankedScheduler(Scheduler):
    """The lowest rank first; first come first served after `fair_after` picks."""

    takes_singles = True

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self.fair_after = FAIR_AFTER_MORE
        self._heap: list[tuple[float, int, AnyHandle]] = []
        self._picks = 0
        self._passed_over = 0

    def rank(self, handle: AnyHandle) -> float:
        """Where a step that has become ready stands; below 0, to be before all fair ones."""
        raise NotImplementedError

    def callback_rank(self, callback: AnyHandle) -> float:
        """Where the callback stands that is next in line."""
        raise NotImplementedError

    def at_pick(self) -> None:
        """There is more than one candidate, for the time number `_picks`."""

    def add(self, handle: AnyHandle) -> None:
        rank = handle.arrival if self._picks > self.fair_after else self.rank(handle)
        heapq.heappush(self._heap, (rank, handle.arrival, handle))
        self.size += 1

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if not self._heap:
            return callback
        # A callback that renews itself counts too: else it would keep a task waiting for ever.
        if self.size + (callback is not None) > 1:
            self.decisions += 1
            self._picks += 1
            if self._picks == self.fair_after + 1:
                self._turn_fair()
            elif self._picks <= self.fair_after:
                self.at_pick()
        if callback is not None and self._prefers(callback):
            self._passed_over = 0
            return callback
        self.size -= 1
        return heapq.heappop(self._heap)[2]

    def _turn_fair(self) -> None:
        self.turned_fair = True
        self._heap = [(handle.arrival, arrival, handle) for _, arrival, handle in self._heap]
        heapq.heapify(self._heap)

    def _prefers(self, callback: AnyHandle) -> bool:
        self._passed_over += 1
        if self._passed_over > CALLBACK_PATIENCE:
            return True
        if self._picks > self.fair_after:
            return False  # it arrived after all of the pool
        return self.callback_rank(callback) < self._heap[0][0]
