"""The machine finds every switch, is silent without them, and repeats its runs.

`test_kept_tapes.py` runs one tape of each switch, on and off; here are the searches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from examples.luciferase.bugs import BUGS
from examples.luciferase.machine import Luciferase
from examples.luciferase.simulation import Population, populate
from tests.helpers import SOAK_FACTOR

ROOT = Path(__file__).parents[2]
RUNS_MAX = 300
"""Within so many runs each switch is found."""
RULES = [
    "migrate",
    "migrate_cut",
    "migrate_twice",
    "migrate_while_leaving",
    "retry",
    "leave",
    "join",
    "shake",
    "crowd",
    "wait",
]
NARROW: dict[str, dict[str, Any]] = {
    "stop_leaves_tick": {
        "steps": 6,
        "actors": 2,
        "weights": {rule: float(rule in ("leave", "join")) for rule in RULES},
    },
    "limiter_reads_wall_clock": {
        "steps": 3,
        "actors": 1,
        "weights": {rule: float(rule in ("migrate", "wait")) for rule in RULES},
        "faults": "clock_skew",
    },
}
"""Rare among all rules and faults: these are searched with those that concern them."""
SILENT_RUNS = 2_000
SOMETIMES = {
    "a ghost expires",
    "a migration is rolled back",
    "a migration succeeds",
    "a token is used again",
    "a view changes while an entity is in flight",
    "an orphan is recovered",
}


@pytest.mark.parametrize("bug", ["applied_forgets_token", "prepare_timeout_loses"])
def test_a_search_finds_a_switch(bug: str) -> None:
    """Two cheap ones: a token that is forgotten, an entity that is lost in a partition."""
    outcome = foretold.explore(
        Luciferase, runs=RUNS_MAX, seed=1, shrink=False, confirm=False, mutant=bug
    )
    assert outcome.failure is not None


def test_without_switches_the_machine_is_silent() -> None:
    """A handful of runs; the soak makes two thousand."""
    outcome = foretold.explore(Luciferase, runs=6, seed=3, shrink=False)
    assert outcome.failure is None, outcome.failure


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS)
def test_each_switch_is_found(bug: str) -> None:
    """Within 300 runs."""
    narrow = NARROW.get(bug, {})
    outcome = foretold.explore(
        Luciferase, runs=RUNS_MAX, seed=1, shrink=False, confirm=False, mutant=bug, **narrow
    )
    assert outcome.failure is not None


@pytest.mark.soak
def test_two_thousand_runs_are_silent() -> None:
    """Nothing fails, everything rare is reached, and after faults stop each entity has one owner
    and each boundary its ghosts within two virtual seconds (the invariant `it_converges`)."""
    outcome = foretold.explore(Luciferase, runs=SILENT_RUNS * SOAK_FACTOR, seed=2, shrink=False)
    assert outcome.failure is None, outcome.failure
    assert set(outcome.reached) >= SOMETIMES
    assert outcome.tally.invariants["it_converges"].checks >= SILENT_RUNS


# --- the same in every process --------------------------------------------------------------------


def digests(seeds: int, hash_seed: str) -> dict[str, list[str]]:
    """From a fresh process."""
    command = [sys.executable, "-m", "tests.examples.luciferase_child", str(seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


def test_one_digest_in_two_processes() -> None:
    """Threads, sockets, disks and faults included; other seeds give other digests."""
    first, second = digests(3, "1"), digests(3, "2")
    assert first == second
    assert len({digest for digest, _ in first.values()}) == len(first)


@pytest.mark.soak
def test_one_digest_in_five_processes() -> None:
    """Ten seeds."""
    seen = [digests(10, str(number)) for number in range(5)]
    assert all(each == seen[0] for each in seen)


# --- larger worlds --------------------------------------------------------------------------------


def population(bubbles: int, entities: int, seconds: float) -> Population:
    """A run without faults."""

    async def main(world: foretold.World) -> Population:
        return await populate(world, bubbles, entities, seconds)

    found: Population = foretold.run(main, seed=1, wall_s_max=3_000).value
    return found


def test_entities_wander() -> None:
    """Without faults no entity is lost or doubled while they migrate by themselves."""
    found = population(4, 12, 2.0)
    assert found.owned + found.in_flight == 12
    assert found.migrated > 0
    assert found.ghosts > 0


@pytest.mark.soak
@pytest.mark.parametrize(("bubbles", "entities", "seconds"), [(5, 200, 60.0), (50, 200, 5.0)])
def test_entities_wander_far(bubbles: int, entities: int, seconds: float) -> None:
    """Five bubbles for a minute, and fifty bubbles."""
    found = population(bubbles, entities, seconds)
    assert found.owned + found.in_flight == entities
    assert found.migrated > entities // 4
