"""Which settings go together with failure?

Each run draws its configuration: order and strategy, the cost of steps, which kinds of faults,
which buggified places, the test's own knobs. Counted is how often each setting was drawn in all
runs and in those that failed in one way. Whether it is more often in the failing ones than chance
would have it is asked of the hypergeometric distribution (Fisher's exact test, one-sided), and
asked more sternly the more settings there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, lgamma
from typing import NamedTuple

from foretold.story.signature import Signature

FAILURES_MIN = 3
"""Fewer runs that failed say nothing about what they have in common."""
P_MAX = 0.01
SHOWN_MAX = 3

Setting = tuple[str, str]


class Together(NamedTuple):
    """A setting that goes together with a failure."""

    setting: str
    failing: int
    """In so many of the runs that failed."""
    failed: int
    share: float
    """Of all runs."""
    p: float

    def __str__(self) -> str:
        return f"{self.setting} ({self.failing} of {self.failed} of them, {self.share:.0%} of all)"


@dataclass(slots=True)
class Swarm:
    """The configurations of the runs of a campaign."""

    runs: int = 0
    _all: Counter[Setting] = field(default_factory=Counter)
    _failing: dict[Signature, Counter[Setting]] = field(default_factory=dict)
    _failed: Counter[Signature] = field(default_factory=Counter)

    def add(self, configuration: Mapping[str, str], failure: Signature | None) -> None:
        """Add a run."""
        self.runs += 1
        self._all.update(configuration.items())
        if failure is not None:
            self._failed[failure] += 1
            self._failing.setdefault(failure, Counter()).update(configuration.items())

    def together_with(self, failure: Signature) -> list[Together]:
        """The settings that go together with this failure, the most telling first."""
        failed = self._failed[failure]
        if failed < FAILURES_MIN:
            return []
        found = []
        for (name, value), failing in self._failing[failure].items():
            drawn = self._all[name, value]
            p = _chance(failing, failed, drawn, self.runs)
            if p * len(self._all) < P_MAX:
                share = drawn / self.runs
                found.append(Together(f"{name} {value}", failing, failed, share, p))
        return sorted(found, key=lambda each: (each.p, each.setting))[:SHOWN_MAX]


def _chance(failing: int, failed: int, drawn: int, runs: int) -> float:
    """How likely it is that so many of the failed runs, or more, have a setting by chance."""
    among = _log_ways(runs, failed)
    return sum(
        exp(_log_ways(drawn, k) + _log_ways(runs - drawn, failed - k) - among)
        for k in range(max(failing, failed + drawn - runs), min(failed, drawn) + 1)
    )


def _log_ways(n: int, k: int) -> float:
    """The logarithm of how many ways there are to take k of n: the number itself is huge."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
