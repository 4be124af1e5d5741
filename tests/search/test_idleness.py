"""A search gives up only on evidence: a choice counts, on whichever host it is made."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.planning.idleness import SAME_RUNS_MIN, Idleness
from foretold.world.world import World


async def race() -> None:
    """Two deposits, one of which may be lost."""
    balance = 0

    async def deposit(amount: int, steps: int) -> None:
        nonlocal balance
        for _ in range(steps):
            await asyncio.sleep(0)
        seen = balance
        await asyncio.sleep(0)
        balance = seen + amount

    await foretold.together(deposit(100, 0), deposit(30, 5))
    foretold.always(balance == 130, "nothing lost")


async def awaited_on_a_host(world: World) -> None:
    """The test's own host makes no choice: it waits for another one."""
    await world.host("api").start(race)


async def left_to_a_host(world: World) -> None:
    """The same, and the test only lets time pass."""
    world.host("api").start(race)
    await asyncio.sleep(5)


def in_threads_of_a_host(world: World) -> None:
    """A lost update of two threads on another host."""

    async def main() -> None:
        account, lock = {"n": 0}, threading.Lock()

        def add() -> None:
            with lock:
                seen = account["n"]
            with lock:
                account["n"] = seen + 1

        await asyncio.gather(*(asyncio.to_thread(add) for _ in "12"))
        foretold.always(account["n"] == 2, "nothing lost")

    world.host("api").start(main)
    world.drive(5)


async def value_on_a_host(world: World) -> None:
    """One value out of eight is wrong, and it is drawn on another host."""

    async def main() -> None:
        foretold.always(foretold.between(0, 7) != 5, "not five")

    await world.host("api").start(main)


async def randomness_of_a_host(world: World) -> None:
    """Plain randomness, drawn on another host."""

    async def main() -> None:
        foretold.always(os.urandom(1)[0] % 8 != 5, "not five")

    await world.host("api").start(main)


async def hosts_apart(world: World) -> None:
    """Two hosts, one task each: which comes first depends on how fast each of them is."""
    done: list[str] = []

    async def main(name: str) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append(name)

    for name in "ab":
        world.host(name).start(main(name))
    await asyncio.sleep(1)
    foretold.always(done == ["a", "b"], "a first")


def watches_the_clock() -> None:
    """One thread alone, and a read of the clock may take 7 µs."""
    began_ns = time.monotonic_ns()
    foretold.always(time.monotonic_ns() - began_ns < 5_000, "a fast clock")


def leaves_an_inner_loop_early() -> None:
    """A timer of a loop that the test itself has started, and that the loop does not wait for."""
    fired: list[bool] = []

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.005, fired.append, True)
        for _ in range(300):
            await asyncio.sleep(0)

    asyncio.run(main())
    foretold.always(not fired, "too slow")


ON_EVERY_HOST: list[Callable[..., Any]] = [
    awaited_on_a_host,
    left_to_a_host,
    in_threads_of_a_host,
    value_on_a_host,
    randomness_of_a_host,
    hosts_apart,
    watches_the_clock,
    leaves_an_inner_loop_early,
]


@pytest.mark.parametrize("main", ON_EVERY_HOST, ids=lambda main: main.__name__)
def test_a_choice_counts_wherever_it_is_made(main: Callable[..., Any]) -> None:
    """The test's own program makes none of the choices, and each search finds the bug."""
    for seed in range(3):
        outcome = foretold.explore(main, runs=300, seed=seed, shrink=False, confirm=False)
        assert outcome.failure is not None, str(outcome)


async def torn(world: World) -> None:
    """One host writes a file and does not fsync it; a power cut may tear it."""

    async def main() -> None:
        if os.path.exists("/a"):
            with open("/a") as file:
                foretold.always(file.read() == "x" * 5_000, "the file is whole")
        with open("/a", "w") as file:
            file.write("x" * 5_000)
        await asyncio.sleep(100)

    world.host("db").start(main)
    await asyncio.sleep(12)


CRASHES = (foretold.faults.hosts, foretold.faults.hosts.only("crash"))


def searches_that_find(seeds: range, main: Callable[..., Any], **settings: Any) -> int:
    """How many of these searches find the bug."""
    searches = (
        foretold.explore(main, runs=300, seed=seed, shrink=False, confirm=False, **settings)
        for seed in seeds
    )
    return sum(outcome.failure is not None for outcome in searches)


@pytest.mark.parametrize("faults", CRASHES, ids=["all", "crash"])
def test_a_fault_that_has_not_struck_is_a_choice(faults: Any) -> None:
    """In most runs no crash falls into the test's twelve seconds; the next seed may bring one."""
    assert searches_that_find(range(4), torn, faults=faults) == 4


@pytest.mark.soak
def test_no_search_gives_up() -> None:
    """Many independent searches, and each of them finds its bug."""
    for main in (race, awaited_on_a_host, left_to_a_host):
        assert searches_that_find(range(20), main) == 20
    for faults in CRASHES:
        assert searches_that_find(range(40), torn, faults=faults) == 40


# --- evidence --------------------------------------------------------------------------------


def test_idleness_needs_several_equal_runs() -> None:
    """One run fewer than required is not enough. One that differs, or that chose, ends it."""
    idleness, established = Idleness(), []
    for path in ["path"] * (SAME_RUNS_MIN - 1) + [
        "",
        "path",
    ]:  # one is not compared: it says nothing
        idleness.note(True, path)
        established.append(idleness.is_established)
    assert established == [False] * SAME_RUNS_MIN + [True]
    for idle, path in ((True, "another path"), (False, "path")):
        idleness = Idleness()
        idleness.note(True, "path")
        idleness.note(idle, path)
        for _ in range(SAME_RUNS_MIN):
            idleness.note(True, "path")
        assert not idleness.is_possible
        assert not idleness.is_established


def test_a_forgotten_choice_shows_in_what_runs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody counts any choice. Runs that differ are evidence enough to go on."""
    monkeypatch.setattr(World, "choices", 0)
    outcome = foretold.explore(race, runs=300, shrink=False, confirm=False)
    assert outcome.failure is not None


def test_an_order_without_choices_is_given_up_alone() -> None:
    """Stock order leaves nothing to choose here: after a few equal runs of it, when a new round
    begins, all others are made in any order. (It would have 25 runs.)"""
    orders: list[str] = []

    async def main(world: World) -> None:
        orders.append(world.settings.order)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))

    outcome = foretold.explore(main, runs=200, feedback=False)
    assert (outcome.runs, outcome.vacuous) == (200, False)
    assert SAME_RUNS_MIN <= orders.count("asyncio") <= 2 * SAME_RUNS_MIN


def test_the_number_of_workers_changes_no_verdict() -> None:
    """What is evidence, and when it is enough, is a matter of the runs and their order."""

    async def main() -> None:
        await asyncio.sleep(1)

    for workers in (1, 2, 3):
        outcome = foretold.explore(main, runs=100, workers=workers)
        assert (outcome.runs, outcome.vacuous) == (2 * SAME_RUNS_MIN, True)


# --- seeds -----------------------------------------------------------------------------------


def runs_of(seed: int, runs: int) -> set[float]:
    """What the runs of a search draw, once each."""
    seen: list[float] = []

    async def main() -> None:
        seen.append(foretold.between(0, 1 << 60, "number"))

    foretold.explore(main, runs=runs, seed=seed)
    return set(seen)


def test_searches_with_other_seeds_share_no_run() -> None:
    """Neither neighbours nor those far apart: a matrix of jobs with seeds 1, 2, 3 searches thrice.
    Among the runs are changed tapes, some of which keep the value of their parent."""
    searches = [runs_of(seed, 60) for seed in (0, 1, 2, 3, 1_000, -1)]
    for one, other in itertools.combinations(searches, 2):
        assert len(one) > 50
        assert not one & other
    assert runs_of(1, 60) == searches[1]


def test_to_search_with_the_seed_of_a_run_begins_with_that_run() -> None:
    """A printed seed can be given to `explore` again; it is short enough to be typed."""
    values: list[int] = []

    async def main() -> None:
        values.append(foretold.between(0, 99))
        assert values[-1] != 5

    failure = foretold.explore(main, runs=500, seed=3, shrink=False, confirm=False).failure
    assert failure is not None
    assert failure.run > 1
    assert len(str(failure.seed)) <= 15
    values.clear()
    again = foretold.explore(main, runs=1, seed=failure.seed, shrink=False, confirm=False)
    assert again.failure is not None
    assert values[0] == 5


def test_tapes_of_another_order_count_as_well(tmp_path: Path) -> None:
    """An earlier search has kept tapes of order "any". A search in stock order, where all runs of
    its own are one run, tries them first: they have made choices, so it was not vacuous."""

    async def main() -> None:
        await foretold.together(*(asyncio.sleep(0) for _ in range(3)))

    foretold.explore(main, runs=30, order="any", corpus=tmp_path)
    assert foretold.explore(main, runs=30, order="asyncio").vacuous
    both = foretold.explore(main, runs=30, order="asyncio", corpus=tmp_path)
    assert both.failure is None
    assert not both.vacuous
