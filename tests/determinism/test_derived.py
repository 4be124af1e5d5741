"""No tape makes a healthy program fail.

Shrinking and searching try tapes that no scheduler ever made: holds that wait for somebody who
never comes, for each other, for callbacks, for who ended long ago. A hang or a failure by such a
tape would be our doing. And whatever such a run is, its own recording replays it exactly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.kernel.schedulers import by_key
from foretold.tape import CALLBACKS, ENDED, Hold, Schedule, Setting, Slow, Tape
from tests.determinism.programs import PROGRAMS, Program
from tests.helpers import SOAK_FACTOR, again, outcome, run_of

STEPS_MAX = 20_000


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs poll: holds against them are given up sooner, so that the test is quick."""
    monkeypatch.setattr(by_key, "HELD_PICKS_MAX", 2_000)


def random_tape(generator: random.Random, names: list[str]) -> Tape:
    """Holds and slow steps at random, among the actors that the program really has."""
    schedule = Schedule()
    for _ in range(generator.choice((1, 2, 5, 20))):
        actor, step = generator.choice(names), generator.randint(1, 6)
        other = generator.choice([*names, CALLBACKS, "nobody"])
        until = generator.choice((ENDED, 1, 2, 5, 50)) if other != CALLBACKS else 3
        schedule.add(Hold("main", actor, step, other, until))
    for _ in range(generator.randrange(4)):
        ns = generator.randrange(8_000_000)
        schedule.add(Slow("main", generator.choice(names), generator.randint(1, 6), ns))
    settings: dict[str, Setting] = {"order": "any", "strategy": "random", "steps_max": STEPS_MAX}
    return Tape("derived", settings=settings, schedule=schedule)


def check(main: Program, seeds: range) -> None:
    """The program holds on random tapes, and the recording of each run is exact."""
    names = sorted(run_of(main).tape.cast["main"])
    for seed in seeds:
        done = again(main, random_tape(random.Random(seed), names), recording=True)
        assert done.error is None, seed
        assert outcome(again(main, done.tape.recorded())) == outcome(done), seed


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_tape_makes_a_healthy_program_fail(name: str) -> None:
    """None of the programs of this folder can fail by itself; so none does, on any tape."""
    check(PROGRAMS[name], range(8))


@pytest.mark.soak
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_tape_of_many_makes_a_healthy_program_fail(name: str) -> None:
    """The same with many more tapes."""
    check(PROGRAMS[name], range(8, 8 + 20 * SOAK_FACTOR))


async def poller_and_worker() -> int:
    """One task polls for what another does."""
    done: list[int] = []

    async def poller() -> int:
        turns = 0
        while not done:
            turns += 1
            await asyncio.sleep(0)
        return turns

    async def worker() -> None:
        await asyncio.sleep(0)
        done.append(1)

    turns, _ = await asyncio.gather(poller(), worker())
    return int(turns)


def test_a_hold_against_a_poller_ends() -> None:
    """ "Hold the worker until the poller has ended" cannot be: it is given up, and counted."""
    schedule = Schedule.of([Hold("main", "worker", 2, "poller", ENDED)])
    done = again(poller_and_worker, Tape("derived", schedule=schedule))
    assert done.error is None
    assert done.value > 1_000
    assert done.broken_holds == 1


async def renewed_callback() -> None:
    """A callback renews itself until the worker has gone on; who waits for it has a time limit."""
    loop, worker = asyncio.get_running_loop(), asyncio.create_task(pausing(), name="worker")

    def look() -> None:
        if not worker.done():
            loop.call_soon(look)

    look()
    async with asyncio.timeout(0.05):
        await worker


async def spinning_task() -> None:
    """The same by a task."""
    worker = asyncio.create_task(pausing(), name="worker")
    async with asyncio.timeout(0.05):
        while not worker.done():
            await asyncio.sleep(0)


async def pausing() -> None:
    """Makes two steps."""
    await asyncio.sleep(0)


@pytest.mark.parametrize("main", [renewed_callback, spinning_task])
def test_no_time_limit_expires_because_somebody_is_held(main: Callable[[], Any]) -> None:
    """Others spin until the worker goes on. On stock asyncio that takes two turns of the loop."""
    schedule = Schedule.of([Hold("main", "worker", 2, main.__name__, ENDED)])
    done = again(main, Tape("derived", schedule=schedule))
    assert done.error is None
    assert done.broken_holds == 1
    assert done.virtual_s < 0.02


@pytest.mark.parametrize("main", [renewed_callback, spinning_task])
@pytest.mark.parametrize("strategy", ["delays", "pct", "pos", "random", "surw"])
def test_no_strategy_lets_it_expire(main: Callable[[], Any], strategy: str) -> None:
    """Nor does a search that makes up holds, or that shrinks."""
    found = foretold.explore(main, runs=60, seed=1, order="any", strategy=strategy, feedback=True)
    assert found.failure is None, found.failure.story
