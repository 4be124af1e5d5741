"""What a search tries next: seeds one after the other, and tapes like those that were worth it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foretold.search.batch import Errand, Seen
from foretold.search.corpus import Corpus, Lineage
from foretold.search.portfolio import Plan, plan_of, plans_for

CHANGED_FROM = 32
"""Before that many runs nearly all are new: their seeds are the better guide."""
CHANGED_EVERY = 4
"""Of so many runs one is made from an earlier tape."""


class Lesson(NamedTuple):
    """What there is to learn from a run."""

    lineage: Lineage
    fresh: bool
    """It reached something new."""
    idle: bool
    """It made no choice at all."""
    alone: bool


class SeedPlanner:
    """Takes seeds in turn; every few runs, a changed tape of a run that reached something new."""

    def __init__(
        self,
        order: str | None,
        strategy: str,
        seed: int,
        *,
        feedback: bool,
        stored: Sequence[str] = (),
    ) -> None:
        self._plans = plans_for(order, strategy)
        self._seed = self._next_seed = seed
        self._feedback = feedback
        self._idle: set[Plan] = set()
        """Plans under which no choice is ever made: one run of them is enough."""
        self._stored = list(stored)
        """Tapes of an earlier search that are to be tried first."""
        self.corpus = Corpus()

    @property
    def is_vacuous(self) -> bool:
        """No plan leaves anything to choose: every run is the same run."""
        return len(self._idle) == len(set(self._plans))

    def next(self, number: int) -> Errand | None:
        if self.is_vacuous:
            return None
        if self._stored:
            return Errand(number, Lineage(self._seed, (), stored=self._stored.pop(0)))
        if self.corpus.entries and number > CHANGED_FROM and number % CHANGED_EVERY == 0:
            return Errand(number, self.corpus.pick(self._seed, number))
        while (plan := plan_of(self._next_seed, self._plans)) in self._idle:
            self._next_seed += 1
        seed, self._next_seed = self._next_seed, self._next_seed + 1
        return Errand(number, Lineage(seed, plan.settings))

    def lesson(self, seen: Seen, news: int) -> Lesson | None:
        lineage, brief = seen.errand.lineage, seen.brief
        failed = brief.signature is not None
        made = bool(lineage.changes or lineage.stored)
        idle = not (brief.choices or brief.discarded or failed or made)
        fresh = bool(news) and self._feedback and not failed
        return Lesson(lineage, fresh, idle, brief.alone) if idle or fresh else None

    def learn(self, lesson: Lesson | None) -> None:
        if lesson is None:
            return
        if lesson.fresh:
            self.corpus.add(lesson.lineage)
        if lesson.idle:
            settings = lesson.lineage.settings
            plan = next(plan for plan in self._plans if plan.settings == settings)
            self._idle.add(plan)
            if plan.order == "any" or lesson.alone:
                # Nobody to choose between, in any order.
                self._idle.update(self._plans)
