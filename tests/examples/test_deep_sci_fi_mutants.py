"""The machine of Deep Sci-Fi finds lies, leaks and forgotten checks that it has no rule for.

`deep_sci_fi_mutants.py` plants 19 of them, `deep_sci_fi_more_mutants.py` ten. The long test demands
26 within 200 runs, from each of three seeds, and prints a table; here a few are searched for that
show in the first runs.
"""

from __future__ import annotations

import pytest

import foretold
from examples.deep_sci_fi.machine import DeepSciFi
from tests.examples import deep_sci_fi_mutants as planted
from tests.examples.deep_sci_fi_more_mutants import MORE

MUTANTS = planted.MUTANTS | {plant.__name__: plant for plant in MORE}
RUNS = 200
SEEDS = (1, 2, 3)
ENOUGH = 26
QUICK = {
    "refused_and_written": "with no key gives 401 and changes ['feedback']",
    "another_lease": "what was told about dwellers",
    "newest_story_left_out": "shows [",
    "accepted_and_not_applied": "what was told about proposals",
    "reviews_are_not_blind": "who has not reviewed sees nothing of what others wrote",
}
"""Found in a few runs from each of three seeds, and by what."""


def found(name: str, seed: int, runs: int) -> foretold.Failure | None:
    """What the machine finds with this mistake planted."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        outcome = foretold.explore(DeepSciFi, runs=runs, seed=seed, shrink=False, confirm=False)
    return outcome.failure


@pytest.mark.parametrize("name", QUICK)
def test_a_few_are_found_at_once(name: str) -> None:
    """A row that is written for who has no key, a lie, a page that leaves something out, a leak."""
    failure = found(name, 1, 15)
    assert failure is not None, f"{name} was not found in 15 runs"
    assert isinstance(failure.exception, AssertionError), failure.story
    assert QUICK[name] in str(failure.exception)


def test_nothing_is_left_of_a_mutant() -> None:
    """Planted and taken back: the platform is what it was, and the machine silent."""
    for plant in MUTANTS.values():
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
    outcome = foretold.explore(DeepSciFi, runs=2, seed=1, shrink=False, confirm=False)
    assert outcome.failure is None, outcome.failure.story


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_nearly_all_are_found(seed: int) -> None:
    """26 of 29 within 200 runs, from each seed."""
    failures = {name: found(name, seed, RUNS) for name in MUTANTS}
    runs = {name: failure.run for name, failure in failures.items() if failure is not None}
    for name in MUTANTS:
        print(f"{seed:>3} {name:<32} {runs.get(name, 'not found')}")  # noqa: T201  # the figures
    assert len(runs) >= ENOUGH, sorted(MUTANTS.keys() - runs.keys())
