"""Rounds: when a search may learn from its runs, so that the number of workers changes nothing.

What a search does next depends on what it has seen (`planner.py`). With several workers, what it
has seen at some moment is a matter of chance. So runs are planned in rounds. A round is planned
from what the rounds before it gave, except the last one: that may still be going on, and so
workers always have something to do. The first rounds are of one run each and wait for all before
them; then each is half as long as all before it together. Which run belongs to which round is
fixed by its number: the runs of a search are a function of its seed and their number alone.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from foretold.search.workers.batch import Errand
from foretold.search.workers.brief import Brief

SINGLES = 12
"""So many runs at the beginning are planned one by one."""
SIZE_MAX = 5_000


class Planner(Protocol):
    """Decides which runs a search makes."""

    def next(self, number: int) -> Errand | None:
        """What run `number` shall be; None if there is nothing left to try."""

    def lesson(self, errand: Errand, done: Brief, news: int) -> Any:
        """What there is to learn from a run, as small as can be: it waits for its time. `news`: how
        much of what the run reached was new. Nothing may depend on it yet."""

    def learn(self, lesson: Any) -> None:
        """The lessons, in the order of the runs."""


class Rounds:
    """Plans runs, and tells the planner what came of them when it may know."""

    def __init__(self, planner: Planner, runs_max: int) -> None:
        self._planner = planner
        self._runs_max = runs_max
        self._planned = 0
        self._begun: list[int] = []
        """How many runs were planned when each round ended."""
        self._lessons: deque[Any] = deque()
        """In order, those that were not learned yet."""
        self._done = self._learned = 0
        self.over = False

    def is_ready(self) -> bool:
        """Whether enough is known to plan the next round."""
        return not self.over and self._done >= self._must_be_known()

    def _must_be_known(self) -> int:
        if self._planned <= SINGLES:
            return self._planned
        return self._begun[-2] if len(self._begun) > 1 else 0

    def take(self) -> list[Errand]:
        """The runs of the next round; empty if there is nothing left to do."""
        self._learn(self._must_be_known())
        size = 1 if self._planned < SINGLES else min(self._planned // 2, SIZE_MAX)
        errands = []
        for number in range(self._planned + 1, min(self._planned + size, self._runs_max) + 1):
            errand = self._planner.next(number)
            if errand is None:
                break
            errands.append(errand)
        self._planned += len(errands)
        self._begun.append(self._planned)
        self.over = not errands
        return errands

    def _learn(self, until: int) -> None:
        while self._learned < until:
            self._planner.learn(self._lessons.popleft())
            self._learned += 1

    def finish(self) -> None:
        """No more rounds: the planner may know everything."""
        self._learn(self._done)

    def put(self, errand: Errand, done: Brief, news: int) -> None:
        """What came of the next run, in the order of the runs."""
        self._done += 1
        self._lessons.append(self._planner.lesson(errand, done, news))
