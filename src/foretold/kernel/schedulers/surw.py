"""SURW: selectively uniform random walk (Zhao and others, 2025).

A random walk that tosses a coin at each step almost never lets one task stand still for long. If
each candidate is taken with a probability proportional to the steps it *still has to make*, every
interleaving is equally likely. How many those are is learned from earlier runs (`profile.py`).

Uniform over all is uniform over the noise as well. So a run may look at a few kinds of tasks alone
and make *their* interleaving uniform; whoever else is ready goes on first come first served.
"""

from __future__ import annotations

import heapq
import random

from foretold.kernel.actors import Stepper
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile, expected_of
from foretold.tape.schedule import kind_of

ALL_IN_FOCUS = 0.5
"""How many of the runs look at all tasks alike."""
_FEW = 3
GUESSES = (1, 4, 16)
"""Steps of a task that no earlier run has shown; one of them is drawn for each run."""
LOOKS_MAX = 64


class SurwScheduler(Scheduler):
    """Who has more left to do is likelier to go on."""

    takes_singles = True

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        super().__init__(generator, profile)
        self._guess = generator.choice(GUESSES)
        self._most = max(self._guess, *profile.by_name.values(), 1)
        self._focus = self._drawn_focus()
        self._expected: dict[Stepper, int] = {}
        self._pool: list[AnyHandle] = []
        """Whose interleaving is to be uniform."""
        self._others: list[tuple[int, AnyHandle]] = []

    def _drawn_focus(self) -> frozenset[str] | None:
        """The kinds of tasks this run looks at; None for all."""
        names = sorted(self.profile.by_name)
        if len(names) <= _FEW or self.generator.random() < ALL_IN_FOCUS:
            return None
        return frozenset(self.generator.sample(names, self.generator.randrange(1, _FEW + 1)))

    def add(self, handle: AnyHandle) -> None:
        self.size += 1
        actor = handle.actor
        if actor not in self._expected:
            name, focus = actor.name, self._focus
            looks_at = focus is None or name in focus or kind_of(name) in focus
            expected = expected_of(self.profile, name, self._guess)
            self._expected[actor] = expected if looks_at else 0
        if self._expected[actor]:
            self._pool.append(handle)
        else:
            heapq.heappush(self._others, (handle.arrival, handle))

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        candidates = self.size + (callback is not None)
        if not self.size:
            return callback
        if candidates > 1:
            self.decisions += 1
            chosen = int(self.generator.random() * candidates)
            if callback is not None and chosen == self.size:
                return callback
            if chosen < len(self._others):
                self.size -= 1
                return heapq.heappop(self._others)[1]
        self.size -= 1
        if not self._pool:
            return heapq.heappop(self._others)[1]
        return self._drawn()

    def _drawn(self) -> AnyHandle:
        """One of the pool, in proportion to what it has left. O(1) on average: whoever is looked at
        is taken with a probability of its share of the largest weight."""
        pool, expected, draw = self._pool, self._expected, self.generator.random
        size, index = len(pool), 0
        for _ in range(LOOKS_MAX if size > 1 else 0):
            index = int(draw() * size)
            actor = pool[index].actor
            if draw() * self._most < max(expected[actor] - actor.steps, 1):
                break
        chosen = pool[index]
        last = pool.pop()
        if last is not chosen:
            pool[index] = last
        return chosen
