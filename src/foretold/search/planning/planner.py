"""What a search tries next: seeds one after the other, and tapes like those that were worth it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from foretold.kernel.conflicts import Conflicts
from foretold.kernel.schedulers.profile import Profile
from foretold.search.planning.budget import Budget
from foretold.search.planning.corpus import Corpus, Lineage
from foretold.search.planning.feedback import Feedback
from foretold.search.planning.idleness import Idleness
from foretold.search.planning.learning import Learner
from foretold.search.planning.portfolio import plan_of, plans_for, settings_of
from foretold.search.planning.reversals import Reversals
from foretold.search.workers.batch import Errand
from foretold.search.workers.brief import Brief

CHANGED_FROM = 32
"""Before that many runs nearly all are new: their seeds are the better guide."""
CHANGED_EVERY = 4
"""Of so many runs one is made from an earlier tape."""
CHANGED_EVERY_BRANCHES = 2
"""The same for those who ask for branches: these are about values, of which seeds know nothing."""


class Lesson(NamedTuple):
    """What there is to learn from a run."""

    lineage: Lineage
    news: int
    """How much of what it reached was new."""
    fresh: bool
    """It is worth a second look."""
    idle: bool
    """It made no choice at all."""
    path: str
    """Its digest without times."""
    profile: Profile | None
    conflicts: Conflicts | None


class SeedPlanner:
    """Shares the runs out among plans, and takes their seeds in turn; every few runs, a changed
    tape of a run that reached something new."""

    def __init__(
        self,
        order: str | None,
        strategy: str,
        seed: int,
        *,
        feedback: Feedback,
        stored: Sequence[str] = (),
        profile: str = "",
        preempt: str = "",
    ) -> None:
        self._preempt = preempt
        self._plans = plans_for(order, strategy)
        self._seed = seed
        self._budget = Budget(self._plans, seed)
        self._idleness = {plan.order: Idleness() for plan in self._plans}
        self._lessons = 0
        self._learner = Learner()
        self._profile = profile
        """What was known before."""
        self._feedback = bool(feedback)
        self._changed_every = CHANGED_EVERY if feedback is True else CHANGED_EVERY_BRANCHES
        self._stored = list(stored)
        """Tapes of an earlier search that are to be tried first."""
        self._others_chose = False
        """A tape of an earlier search, or one that was changed, made a choice. It may have another
        order than the runs of this search."""
        self.corpus = Corpus()
        self._reversals = Reversals()

    @property
    def is_vacuous(self) -> bool:
        """No run of the search has made a choice, and no two of them differ."""
        idle = all(each.is_possible for each in self._idleness.values())
        return bool(self._lessons) and idle and not self._others_chose

    def next(self, number: int) -> Errand | None:
        if self._budget.spent:
            return None
        if self._stored:
            return Errand(number, Lineage(self._seed, (), stored=self._stored.pop(0)))
        due = number > CHANGED_FROM and number % self._changed_every == 0
        if due and self.corpus.entries:
            return Errand(number, self.corpus.pick(self._seed, number))
        if self._reversals.is_due(number):
            return Errand(number, self._reversals.pick(number))
        plan, seed = self._budget.next()
        settings = settings_of(seed, self._plans, preempt=self._preempt)
        known = self._learner.text or self._profile
        settings = (*settings, ("profile", known)) if known else settings
        learning = self._learner.wants(number) or self._idleness[plan.order].is_possible
        return Errand(number, Lineage(seed, settings), learning=learning)

    def lesson(self, errand: Errand, brief: Brief, news: int) -> Lesson | None:
        lineage = errand.lineage
        failed = brief.signature is not None
        made = bool(lineage.changes or lineage.stored)
        self._others_chose = self._others_chose or bool(made and brief.choices)
        idle = not (brief.choices or brief.discarded or failed or made)
        fresh = bool(news) and self._feedback and not failed
        conflicts = None if failed else brief.conflicts
        if made and not fresh and conflicts is None:
            return None
        return Lesson(lineage, news, fresh, idle, brief.path, brief.profile, conflicts)

    def learn(self, lesson: Lesson | None) -> None:
        if lesson is None:
            return
        lineage = lesson.lineage
        if lesson.fresh:
            self.corpus.add(lineage)
        if lesson.conflicts is not None:
            self._reversals.note(lineage, lesson.conflicts)
        if lineage.changes or lineage.stored:
            return
        self._learner.note(lesson.profile)
        if self._feedback:
            self._budget.learn(lineage.seed, lesson.news)
        self._lessons += 1
        order = plan_of(lineage.seed, self._plans).order
        idleness = self._idleness[order]
        idleness.note(lesson.idle, lesson.path)
        alike = [plan for plan in self._plans if plan.order == order]
        self._budget.doubt(alike, idleness.is_possible)
        if idleness.is_established:
            self._budget.drop(alike)
