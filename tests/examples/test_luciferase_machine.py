"""The machine finds every switch, is silent without them, and repeats its runs.

`test_kept_tapes.py` runs one tape of each switch, on and off; here are the searches.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import foretold
from examples.luciferase.bugs import BUGS
from examples.luciferase.machine import Luciferase
from examples.luciferase.simulation import Population, populate
from tests.examples.test_kept_tapes import SHELVES
from tests.helpers import SOAK_FACTOR

ROOT = Path(__file__).parents[2]
RUNS_MAX = 300
"""Within so many runs each switch is found."""
SEEDS = (1, 2, 3)
CALLS_MAX, FAULTS_MAX = 4, 2
"""Of a failure that was shrunk."""
SILENT_RUNS = 2_000
SOMETIMES = {
    "a ghost expires",
    "a migration is rolled back",
    "a migration succeeds",
    "a token is used again",
    "a view changes while an entity is in flight",
    "an orphan is recovered",
}


def found(bug: str, seed: int) -> foretold.Outcome:
    """A search with all rules and all faults."""
    return foretold.explore(
        Luciferase, runs=RUNS_MAX, seed=seed, shrink=False, confirm=False, mutant=bug
    )


@pytest.mark.parametrize("bug", ["stop_leaves_tick", "prepare_timeout_loses"])
def test_a_search_finds_a_switch(bug: str) -> None:
    """Two cheap ones: a tick that outlives its bubble, an entity that is lost in a partition."""
    assert found(bug, 1).failure is not None


def test_without_switches_the_machine_is_silent() -> None:
    """A handful of runs; the soak makes two thousand."""
    outcome = foretold.explore(Luciferase, runs=6, seed=3, shrink=False)
    assert outcome.failure is None, outcome.failure


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bug", BUGS)
def test_each_switch_is_found(bug: str, seed: int) -> None:
    """Within 300 runs of one machine, whatever the seed of the search is."""
    assert found(bug, seed).failure is not None


@pytest.mark.parametrize("bug", BUGS)
def test_a_kept_failure_is_short(bug: str) -> None:
    """What a person reads of each switch: at most four calls and two faults."""
    (shelf,) = (each for each in SHELVES if each.name == "Luciferase")
    tally = shelf.run(bug, shelf.stored(bug).tape, mutant=bug).tally
    assert 0 < sum(rule.tried for rule in tally.rules.values()) <= CALLS_MAX
    assert sum(fault.injected for fault in tally.faults.values()) <= FAULTS_MAX


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


MEMORY_RUNS = 500
GROWTH_MIB_MAX = 8


def resident_mib() -> float:
    """How much memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


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


@pytest.mark.parametrize(
    ("runs", "seconds"), [(12, 0.2), pytest.param(MEMORY_RUNS, 1.0, marks=pytest.mark.soak)]
)
def test_memory_is_flat(runs: int, seconds: float) -> None:
    """What a run of 5 bubbles and 200 entities used is given back: the second half of the runs
    needs no more memory than the first."""
    resident = []
    for _ in range(runs):
        population(5, 200, seconds)
        resident.append(resident_mib())
    assert max(resident[runs // 2 :]) - max(resident[: runs // 2]) <= GROWTH_MIB_MAX, resident


@pytest.mark.soak
@pytest.mark.parametrize(("bubbles", "entities", "seconds"), [(5, 200, 60.0), (50, 200, 5.0)])
def test_entities_wander_far(bubbles: int, entities: int, seconds: float) -> None:
    """Five bubbles for a minute, and fifty bubbles."""
    found = population(bubbles, entities, seconds)
    assert found.owned + found.in_flight == entities
    assert found.migrated > entities // 4
