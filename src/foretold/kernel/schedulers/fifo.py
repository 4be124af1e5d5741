"""Calm order: first come, first served."""

from __future__ import annotations

import random
from collections import deque

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile


class FifoScheduler(Scheduler):
    """Takes whoever arrived first. A callback arrived after all of the pool."""

    takes_singles = True

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self._queue: deque[AnyHandle] = deque()

    def add(self, handle: AnyHandle) -> None:
        self._queue.append(handle)
        self.size += 1

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if not self._queue:
            return callback
        if self.size > 1 or callback is not None:
            self.decisions += 1
        self.size -= 1
        return self._queue.popleft()
