"""What a search learns from its own runs, for those that follow.

Two things: how long a run is (`kernel/schedulers/profile.py`), which the schedulers of later runs
use, and whether a run has reached something new, which decides where the budget goes. Here *new* is
a pair of steps that followed one another and never had before.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from foretold.errors import TapeError
from foretold.kernel.schedulers.profile import NAMES_MAX, Profile
from foretold.search.store import Store
from foretold.tape.file import load
from foretold.world.settings import Settings

LOOKED_AT_FIRST = 16
PAIRS_MAX = 100_000
"""So many pairs are remembered; a search that has seen more is not short of news."""


class Learner:
    """Means over the runs that were looked at: the first few, and ever fewer later."""

    def __init__(self) -> None:
        self._runs = 0
        self._looked_at = 0
        self._decisions = self._steps = 0
        self._by_name: dict[str, tuple[int, int]] = {}
        self._pairs: set[tuple[str, str]] = set()
        self.text = ""
        """What is known by now, as it stands on a tape."""

    def wants_next(self) -> bool:
        """Whether the next run is to be looked at."""
        runs = self._runs
        return runs < LOOKED_AT_FIRST or runs & (runs - 1) == 0

    def note(self, profile: Profile | None) -> bool:
        """A run has ended; `profile` is what it has shown. True if more is known now."""
        self._runs += 1
        if profile is None or not profile.decisions:
            return False
        self._looked_at += 1
        self._decisions += profile.decisions
        self._steps += profile.steps
        for name, steps in profile.by_name.items():
            times, total = self._by_name.get(name, (0, 0))
            self._by_name[name] = (times + 1, total + steps)
        before, self.text = self.text, self._means().text
        return self.text != before

    def _means(self) -> Profile:
        names = {name: -(-total // times) for name, (times, total) in self._by_name.items()}
        most = sorted(names, key=lambda name: (-names[name], name))[:NAMES_MAX]
        return Profile(
            -(-self._decisions // self._looked_at),
            -(-self._steps // self._looked_at),
            {name: names[name] for name in sorted(most)},
        )

    def news(self, pairs: Iterable[tuple[str, str]]) -> int:
        """How many of these no run before had."""
        if len(self._pairs) > PAIRS_MAX:
            return 0
        before = len(self._pairs)
        self._pairs.update(pairs)
        return len(self._pairs) - before


def learned_before(store: Store, target: str, seed: int) -> str:
    """What a search had learned when it made the run with this seed, if that failed and is kept."""
    for path in store.saved(target):
        with suppress(TapeError):
            tape = load(path).tape
            if tape.seed == seed:
                return Settings.from_tape(tape.settings).profile
    return ""
