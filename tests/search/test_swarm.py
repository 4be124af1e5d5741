"""Swarm: each run draws its configuration; a campaign names what goes together with failure."""

from __future__ import annotations

import asyncio
import random

import pytest

import foretold
from foretold.report.campaign import together_lines
from foretold.search.planning.swarm import Swarm
from foretold.story.signature import Signature

FAILURE = Signature("AssertionError", "bank.py:3")


async def crowded() -> None:
    """Fails only if many act, and then every other time."""
    actors = foretold.knob("actors", [2, 1, 8])
    assert actors == foretold.knob("actors", [2, 1, 8]), "drawn once for the whole run"
    foretold.knob("colour", ["red", "green", "blue"])
    await foretold.together(*(asyncio.sleep(0) for _ in range(actors)))
    assert actors < 8 or foretold.between(0, 1), "too many"


def test_what_goes_together_with_failure_is_named() -> None:
    """The knob that matters, and not the one that does not; the same with two workers."""
    for workers in (1, 2):
        outcome = foretold.explore(
            crowded, runs=150, keep_going=True, confirm=False, shrink=False, workers=workers
        )
        failure = outcome.failure
        assert failure is not None
        assert failure.configuration["actors"] == "8"
        assert {"order", "strategy", "colour", "cost of a step on main"} <= set(
            failure.configuration
        )
        [found] = outcome.swarm.together_with(failure.signature)
        assert found.setting == "actors 8"
        assert found.failing == found.failed == failure.times
        assert "goes together with AssertionError at " in together_lines(outcome)[0]


def test_faults_are_settings_too() -> None:
    """Which kinds a run had, on or off."""

    async def main(world: foretold.World) -> None:
        await asyncio.sleep(0.1)
        raise AssertionError("always")

    outcome = foretold.explore(main, runs=5, faults="partition reset", confirm=False, shrink=False)
    assert outcome.failure is not None
    kinds = {"fault partition", "fault reset"}
    drawn = [foretold.explore(main, runs=1, seed=seed, faults="partition reset", confirm=False)
             for seed in range(12)]  # fmt: skip
    configurations = [o.failure.configuration for o in drawn if o.failure is not None]
    assert any(kinds <= set(each) for each in configurations)


def test_knobs_shrink_to_the_first() -> None:
    """The calm setting is the first of the list; only what matters stays."""
    outcome = foretold.explore(crowded, runs=100, confirm=False)
    assert outcome.failure is not None
    values = {name: entries[0].value for name, entries in outcome.failure.tape.choices.items()}
    assert values.get("knob/colour", 0) == 0
    assert values["knob/actors"] == 2


def test_a_knob_outside_of_a_run_and_wrong_ones() -> None:
    """Production gets the first; a list without anything in it is an error."""
    assert foretold.knob("actors", [2, 1, 8]) == 2
    with pytest.raises(foretold.UsageError, match="a list to draw from"):
        foretold.knob("actors", [])


def test_chance_is_not_named() -> None:
    """Twenty settings that have nothing to do with failure: none of a hundred campaigns names
    more than a rare one. And few failures say nothing."""
    named = 0
    for seed in range(100):
        generator, swarm = random.Random(seed), Swarm()
        for _ in range(200):
            drawn = {f"knob {n}": str(generator.randrange(3)) for n in range(20)}
            swarm.add(drawn, FAILURE if generator.random() < 0.1 else None)
        named += bool(swarm.together_with(FAILURE))
    assert named <= 4
    few = Swarm()
    for number in range(100):
        few.add({"knob": str(number < 2)}, FAILURE if number < 2 else None)
    assert few.together_with(FAILURE) == []
