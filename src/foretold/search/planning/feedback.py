"""Is the exploration effective? What all runs together have reached, and how much is still unseen.

Each run reaches some things (`kernel/reach.py`). Counted is in how many runs each was reached:
once, twice, or more often. From that follow

- the *news* of a run: how many things it reached that no run before it had; a search keeps such
  runs and tries what lies near them (`corpus.py`);
- the *growth*: how much new each further thousand runs found;
- an estimate of what is *unseen*. Good and Turing: the next run will reach about (things reached in
  one run alone) / (runs) new ones. Chao: at least (once)² / 2 (twice) things are still unseen.

The estimates take runs for independent of each other. Runs that were made from earlier ones are not
quite, so that the truth is rather a bit more than less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from foretold.errors import UsageError
from foretold.kernel.branches import BRANCH, Branches
from foretold.kernel.monitoring import is_module_name, names_in
from foretold.kernel.reach import Feature

COUNTED_MAX = 3
"""Once, twice, more often: nobody asks how often."""
PER_RUNS = 1_000
ESTIMATE_RUNS_MIN = 20
"""After fewer runs nearly all was reached once, and an estimate would say nothing."""
BRANCHES = "branches"
Feedback = bool | str
"""Whether it is looked at what runs reach, or "branches": at the branches they take, too; or
"branches: shop, redis" for the branches in these modules."""


def check_feedback(value: object) -> Feedback:
    """What `feedback` may be."""
    if isinstance(value, bool):
        return value
    word, colon, _ = value.partition(":") if isinstance(value, str) else ("", "", "")
    names = names_in(str(value))
    if word.strip() == BRANCHES and bool(colon) == bool(names) and all(map(is_module_name, names)):
        return str(value)
    raise UsageError(
        f'feedback is True, False, "{BRANCHES}" (for the branches in your own code, too) or '
        f'"{BRANCHES}: shop, redis" (for those in these modules); got {value!r}'
    )


def branches_for(feedback: Feedback) -> Branches | None:
    """Who watches branches, if that is asked for."""
    if isinstance(feedback, bool):
        return None
    return Branches(names_in(feedback), told_max=COUNTED_MAX)


class Sieve:
    """Lets each thing through a few times only: a worker need not say again what all know."""

    def __init__(self) -> None:
        self._told: dict[Feature, int] = {}

    def __call__(self, features: Iterable[Feature]) -> list[Feature]:
        told, left = self._told, []
        for feature in features:
            times = told.get(feature, 0)
            if times < COUNTED_MAX:
                told[feature] = times + 1
                left.append(feature)
        return sorted(left)


@dataclass(slots=True)
class Coverage:
    """What the runs of a search have reached. Runs are added in their order."""

    runs: int = 0
    growth: list[int] = field(default_factory=list)
    """How much new was found in the first thousand runs, in the second, and so on."""
    _times: dict[Feature, int] = field(default_factory=dict)

    def add(self, features: Iterable[Feature]) -> int:
        """Add a run. Returns its news: how much of it no run before had reached."""
        times, news = self._times, 0
        for feature in features:
            before = times.get(feature, 0)
            if before < COUNTED_MAX:
                times[feature] = before + 1
                news += not before
        if self.runs % PER_RUNS == 0:
            self.growth.append(0)
        self.growth[-1] += news
        self.runs += 1
        return news

    @property
    def reached(self) -> int:
        """How many different things were reached."""
        return len(self._times)

    @property
    def kinds(self) -> str:
        """What is among them, in words."""
        if any(feature[0] == BRANCH for feature in self._times):
            return "hand-overs, states, faults, points and branches"
        return "hand-overs, states, faults and points"

    def _reached_in(self, runs: int) -> int:
        return sum(times == runs for times in self._times.values())

    @property
    def is_estimable(self) -> bool:
        """Whether there were runs enough to estimate from."""
        return self.runs >= ESTIMATE_RUNS_MIN

    @property
    def per_run(self) -> float:
        """How much new the next run is expected to reach."""
        return self._reached_in(1) / self.runs if self.runs else 0.0

    @property
    def unseen(self) -> int:
        """How much is still unseen, at least; an estimate."""
        if self.runs < 2:
            return 0
        once, twice = self._reached_in(1), self._reached_in(2)
        # The form that is defined if nothing was reached exactly twice.
        return round((self.runs - 1) / self.runs * once * (once - 1) / (2 * (twice + 1)))

    @property
    def share(self) -> float:
        """The share of all there is to reach that was reached; an estimate."""
        return self.reached / (self.reached + self.unseen) if self.reached else 0.0
