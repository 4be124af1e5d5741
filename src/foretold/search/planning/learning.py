"""What a search learns from its own runs, for those that follow.

How long a run is (`kernel/schedulers/profile.py`): the schedulers of later runs use it. (Whether a
run has reached something new, which decides where the budget goes, is `feedback.py`'s.)
"""

from __future__ import annotations

from contextlib import suppress

from foretold.errors import TapeError
from foretold.kernel.schedulers.profile import NAMES_MAX, Profile
from foretold.search.failures.store import Store
from foretold.tape.file import load
from foretold.world.settings import Settings

LOOKED_AT_FIRST = 16


class Learner:
    """Means over the runs that were looked at: the first few, and ever fewer later."""

    def __init__(self) -> None:
        self._looked_at = 0
        self._decisions = self._steps = 0
        self._by_name: dict[str, tuple[int, int]] = {}
        self.text = ""
        """What is known by now, as it stands on a tape."""

    def wants(self, number: int) -> bool:
        """Whether run `number`, counted from 1, is to be looked at."""
        before = number - 1
        return before < LOOKED_AT_FIRST or before & (before - 1) == 0

    def note(self, profile: Profile | None) -> bool:
        """A run has ended; `profile` is what it has shown. True if more is known now."""
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


def learned_before(store: Store, target: str, seed: int) -> str:
    """What a search had learned when it made the run with this seed, if that failed and is kept."""
    for path in store.saved(target):
        with suppress(TapeError):
            tape = load(path).tape
            if tape.seed == seed:
                return Settings.from_tape(tape.settings).profile
    return ""
