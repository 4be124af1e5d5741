"""A heap of ready steps by rank, that turns fair in the end. What `pct` and `pos` share.

Priorities are unfair for ever, and programs that spin (`while not ready: await sleep(0)`) would
hang: after `fair_after` picks the order is first come first served, so that starvation is never
taken for a hang. So it is as soon as somebody has waited so long that a time limit might expire.
"""

from __future__ import annotations

import heapq
import random
from operator import itemgetter

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import CALLBACKS_MAX, LOOK_EVERY, Scheduler
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
        self._oldest = self._oldest_since = 0
        """Who has waited longest, and since which pick that is known."""
        self._look_at = LOOK_EVERY

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
                self.turned_fair = True
                self._heap = [(each.arrival, arrival, each) for _, arrival, each in self._heap]
                heapq.heapify(self._heap)
            elif self._picks <= self.fair_after:
                self.at_pick()
                if self._picks >= self._look_at:
                    self._look_for_starved()
        if callback is not None and self._prefers(callback):
            self._passed_over = 0
            self._callbacks_alone += 1
            return callback
        self._callbacks_alone = 0
        self.size -= 1
        return heapq.heappop(self._heap)[2]

    def _look_for_starved(self) -> None:
        self._look_at = self._picks + max(LOOK_EVERY, self.size)
        _, arrival, handle = min(self._heap, key=itemgetter(1))
        if arrival != self._oldest:
            self._oldest, self._oldest_since = arrival, self._picks
        elif self.has_waited(handle, self._picks - self._oldest_since):
            self.fair_after = self._picks

    def _prefers(self, callback: AnyHandle) -> bool:
        self._passed_over += 1
        if self._passed_over > CALLBACK_PATIENCE:
            return True
        if self._callbacks_alone >= CALLBACKS_MAX:
            self.fair_after = min(self.fair_after, self._picks)
            return False
        if self._picks > self.fair_after:
            return False  # it arrived after all of the pool
        return self.callback_rank(callback) < self._heap[0][0]
