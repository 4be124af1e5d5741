"""POS: partial order sampling (Yuan, Yang and Gu, 2018), in its basic form.

Every *step* gets a random priority of its own when it becomes ready, and keeps it until it runs. So
a step with a low one is overtaken by as many others as it takes: for k of them in a row the chance
is 1/(k+1), where a random walk has 1/2^k. It needs to know nothing about the program.
"""

from __future__ import annotations

import random

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.fair import FAIR_AFTER_HORIZONS, FAIR_AFTER_MORE, RankedScheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile

HORIZON = 1_000
"""If nothing is known."""


class PosScheduler(RankedScheduler):
    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self.fair_after = FAIR_AFTER_HORIZONS * (profile.decisions or HORIZON) + FAIR_AFTER_MORE
        self._callback: AnyHandle | None = None
        self._callback_rank = 0.0

    def rank(self, handle: AnyHandle) -> float:
        return -self.generator.random()

    def callback_rank(self, callback: AnyHandle) -> float:
        if callback is not self._callback:
            self._callback = callback
            self._callback_rank = -self.generator.random()
        return self._callback_rank
