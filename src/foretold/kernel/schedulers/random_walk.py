"""Random walk: each candidate is as likely as the next. O(1) a pick."""

from __future__ import annotations

import random

from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile


class RandomScheduler(Scheduler):
    takes_singles = True

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self._pool: list[AnyHandle] = []
        self._random = generator.random

    def add(self, handle: AnyHandle) -> None:
        self._pool.append(handle)
        self.size += 1

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        pool = self._pool
        size = self.size
        if callback is not None:
            if not size:
                return callback
            self.decisions += 1
            index = int(self._random() * (size + 1))
            if index == size:
                return callback
        elif size == 1:
            self.size = 0
            return pool.pop()
        else:
            self.decisions += 1
            index = int(self._random() * size)
        self.size = size - 1
        chosen = pool[index]
        last = pool.pop()
        if last is not chosen:
            pool[index] = last
        return chosen
