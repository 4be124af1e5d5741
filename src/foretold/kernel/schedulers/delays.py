"""Delays: calm order, except that now and then one task is held back for a while.

Most ordering bugs need one task to stand still at the wrong line while others go on. So: run first
come first served; every so often hold the step that has just become ready until some number of
others have run. Few choices, far-reaching effect, and the result reads as an explanation. If
earlier runs have shown how long a run is (`profile.py`), every step is as likely to be held.
"""

from __future__ import annotations

import heapq
import itertools
import random

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import CALLBACKS_MAX, Scheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile

GAPS = (2, 4, 10, 30, 100, 400)
"""Mean number of steps between two holds, if nothing is known; one is drawn for each run."""
LENGTHS = (1, 2, 4, 8, 16, 40, 100, 250)
"""For how many picks a step is held, if nothing is known."""
HOLDS_MAX = 6
HOLDS = (1, 1, 1, 2, 2, 3)
"""How many there are in a run whose length is known."""
LONG = 0.7
_EARLY = 1.2


class DelayScheduler(Scheduler):
    takes_singles = True

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self._moments = self._drawn_moments()
        """After how many arrivals from here the next step is held, the last first."""
        self._until_next = self._moments.pop()
        self._picks = 0
        self._queue: list[tuple[int, AnyHandle]] = []
        self._held: list[tuple[int, int, AnyHandle]] = []

    def _drawn_moments(self) -> list[int]:
        draw, steps = self.generator, self.profile.steps
        if not steps:
            gap = draw.choice(GAPS)
            return [draw.randrange(2 * gap) for _ in range(draw.randrange(1, HOLDS_MAX + 1))]
        count = draw.choice(HOLDS)
        moments = sorted(int(steps * draw.random() ** _EARLY) for _ in range(count))
        gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
        return [*reversed(gaps), moments[0]]

    def _drawn_length(self) -> int:
        """Mostly until all others have gone on; else log-uniform up to the length of the run."""
        steps = self.profile.steps
        if not steps:
            return self.generator.choice(LENGTHS)
        if self.generator.random() < LONG:
            return 2 * steps
        return int(steps ** self.generator.random())

    def add(self, handle: AnyHandle) -> None:
        self.size += 1
        if self._until_next:
            self._until_next -= 1
        else:
            self._until_next = self._moments.pop() if self._moments else -1
            release_at = self._picks + self._drawn_length()
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
            self._callbacks_alone += 1
            passes = callback is not None and self._callbacks_alone <= CALLBACKS_MAX
            if passes or not self._held:
                return callback
            self._release()  # nothing else is ready: a hold never makes time jump
        self._callbacks_alone = 0
        self.size -= 1
        return heapq.heappop(self._queue)[1]

    def _release(self) -> None:
        _, arrival, handle = heapq.heappop(self._held)
        heapq.heappush(self._queue, (arrival, handle))
