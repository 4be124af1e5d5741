"""`--plant`: declared mutants are switched on one at a time, and each must be caught.

The program has to hold without them first; that search also shows which there are: those whose line
some run passes. A mutant is caught if the search fails with it on, or if it makes the search say so
little that this is noticed (`vacuity.py`). A test suite's score is the share that is caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from foretold.errors import UsageError
from foretold.search.explore import explore
from foretold.search.failures.failure import Outcome
from foretold.search.workers.brief import first_line
from foretold.story.words import count, short_path


@dataclass(frozen=True, slots=True)
class Planted:
    """What became of one mutant."""

    name: str
    caught: bool
    run: int
    """Which run caught it; if none did, how many there were."""
    by: str
    """The failure that caught it; if it survived, how often it was passed."""


@dataclass(slots=True)
class Planting:
    """What became of all of them."""

    outcome: Outcome
    """Of the search without any."""
    mutants: list[Planted] = field(default_factory=list)

    @property
    def survivors(self) -> list[Planted]:
        return [each for each in self.mutants if not each.caught]

    @property
    def score(self) -> float:
        """The share of the mutants that was caught."""
        caught = len(self.mutants) - len(self.survivors)
        return caught / len(self.mutants) if self.mutants else 0.0


def plant(
    main: Callable[..., Any],
    names: Iterable[str] = (),
    *,
    on_mutant: Callable[[str], object] = lambda name: None,
    **settings: Any,
) -> Planting:
    """Search without mutants, and then with each of them; `names` are further ones to try besides
    those that are passed. Settings are those of `foretold.explore`."""
    settings = {**settings, "shrink": False, "confirm": False, "keep_going": False}
    planting = Planting(explore(main, **settings))
    if planting.outcome.failure is not None:
        return planting
    wanted = dict.fromkeys([*sorted(planting.outcome.tally.mutants), *names])
    if not wanted:
        raise UsageError(
            "no run passed a mutant, so there is nothing to plant. Declare one where a bug "
            'could be:\n    if foretold.mutant("no check of the balance") or amount <= balance:'
        )
    for name in wanted:
        on_mutant(name)
        planting.mutants.append(_judged(name, explore(main, mutant=name, **settings)))
    return planting


def _judged(name: str, outcome: Outcome) -> Planted:
    failure = outcome.failure
    if failure is not None:
        said, place = first_line(failure.exception), failure.signature.place
        kind = failure.signature.kind.rpartition(".")[2]
        parts = [f"{kind}: {said}" if said else kind, f"at {short_path(place)}" if place else ""]
        return Planted(name, True, failure.run, " ".join(filter(None, parts)))
    if outcome.hollow:
        return Planted(name, True, outcome.runs, f"vacuity: {outcome.hollow[0]}")
    passed = outcome.tally.mutants.get(name, 0)
    by = f"passed in {count(passed, 'run')}" if passed else "never passed"
    return Planted(name, False, outcome.runs, by)
