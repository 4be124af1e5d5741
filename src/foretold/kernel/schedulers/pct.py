"""PCT: probabilistic concurrency testing (Burckhardt and others, 2010).

Every actor gets a random priority; the highest that is ready runs. At a few random moments the
one about to run drops below all others. A bug that needs d ordering constraints is found with
probability at least 1/(n·k^(d-1)) for n actors and k steps, whatever else goes on.

k is learned from earlier runs of the search (`profile.py`); without them it is guessed. Early
moments are a little likelier than late ones, because runs differ in length.
"""

from __future__ import annotations

import heapq
import random

from foretold.kernel.actors import Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.fair import FAIR_AFTER_HORIZONS, FAIR_AFTER_MORE, RankedScheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile

HORIZONS = (12, 30, 100, 300, 1_000)
"""One of them is drawn if nothing is known."""
CHANGES = (0, 1, 1, 1, 1, 2, 2, 3)
CHANGES_MAX = max(CHANGES)
_EARLY = 1.5


class PctScheduler(RankedScheduler):
    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        horizon = profile.decisions or generator.choice(HORIZONS)
        changes = generator.choice(CHANGES)
        self._drops = {1 + int(horizon * generator.random() ** _EARLY) for _ in range(changes)}
        self.fair_after = FAIR_AFTER_HORIZONS * horizon + FAIR_AFTER_MORE
        self._ranks: dict[Stepper, float] = {}
        self._callback_rank = -generator.random()

    def rank(self, handle: AnyHandle) -> float:
        rank = self._ranks.get(handle.actor)
        if rank is None:
            rank = self._ranks[handle.actor] = -self.generator.random()
        return rank

    def callback_rank(self, callback: AnyHandle) -> float:
        return self._callback_rank

    def at_pick(self) -> None:
        if self._picks in self._drops:
            _, arrival, handle = heapq.heappop(self._heap)
            rank = self._ranks[handle.actor] = float(self._picks)
            heapq.heappush(self._heap, (rank, arrival, handle))
