"""examples/shop/machine.py: one machine finds eight bugs, and is silent where there is none."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import foretold
from examples.shop import api
from examples.shop.bugs import BUGS
from examples.shop.machine import SCHEMA, Shop
from foretold.search.checking.vacuity import hollow_in
from foretold.search.failures import workout
from foretold.world.world import World
from tests.helpers import SOAK_FACTOR, soak

RUNS_MAX = 300
CALLS_MAX = 6
QUICK = ("double_charge", "lost_mail", "limiter_bypassed", "shared_key")
"""For the normal suite: found within a few runs. The others have tapes (`test_kept_tapes.py`)."""
SAID = {
    "oversell": "No stock is below zero; what was received is sold or on the shelf",
    "double_charge": "A basket is charged once",
    "check_then_insert": "the shop never breaks",
    "lost_update": "The counter of an item says how many visits there were",
    "skipped_state": "An order passes from the state that it is in",
    "lost_mail": "Every customer gets a mail for every order",
    "limiter_bypassed": r"was let in \d times within 10 s",
    "shared_key": "who orders gets an order of their own",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """SQLAlchemy tells of every connection that a fault has broken."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def found(bug: str, seed: int, *, shrink: bool, shrink_runs: int | None = None) -> foretold.Failure:
    """What the machine finds with this bug in the shop: that one and nothing else."""
    outcome = foretold.explore(
        Shop,
        runs=RUNS_MAX,
        seed=seed,
        shrink=shrink,
        shrink_runs=shrink_runs,
        confirm=False,
        mutant=bug,
    )
    failure = outcome.failure
    assert failure is not None, f"{bug} was not found"
    print(f"{bug}: found in run {failure.run}, shrunk in {failure.shrink_runs} runs")  # noqa: T201  # the figures
    assert re.search(SAID[bug], str(failure.exception))
    return failure


@pytest.mark.parametrize("bug", [bug if bug in QUICK else soak(bug) for bug in BUGS])
def test_each_bug_is_found(bug: str) -> None:
    """Eight bugs, one machine: each within 300 runs, and told first as a program of its rules."""
    failure = found(bug, 0, shrink=False)
    assert re.search(r"The program, \d+ calls? of Shop's rules:\n  ", failure.story)


def test_a_disconnect_alone_loses_the_mail() -> None:
    """The bug is what it is called: it needs no other fault than a client that goes."""
    gone = foretold.faults.web.only("client_gone")
    settings: Any = {"shrink": False, "confirm": False, "mutant": "lost_mail", "faults": gone}
    failure = foretold.explore(Shop, runs=RUNS_MAX, seed=0, **settings).failure
    assert failure is not None
    assert re.search(SAID["lost_mail"], str(failure.exception))


def shrinks(bug: str, seed: int, patch: pytest.MonkeyPatch) -> None:
    """What is left is a program of a few calls."""
    failure = found(bug, seed, shrink=True, shrink_runs=workout.SHRINK_RUNS_MAX)
    calls = re.search(r"The program, (\d+) call", failure.story)
    assert calls is not None
    assert int(calls[1]) <= CALLS_MAX, failure.story


@pytest.mark.parametrize("bug", [soak("check_then_insert"), "limiter_bypassed"])
def test_a_bug_shrinks_to_a_few_calls(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A race of two, and one that needs a sequence; all eight are in the soak test."""
    shrinks(bug, 2, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("seed", [0, 10_000])
def test_every_bug_shrinks(bug: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All eight, from two places to begin: at most 6 calls each."""
    shrinks(bug, seed, monkeypatch)


def silent(runs: int, seed: int) -> foretold.Outcome:
    """A shop without bugs holds, whatever happens to it."""
    outcome = foretold.explore(Shop, runs=runs, seed=seed, confirm=False)
    assert outcome.failure is None, outcome.failure.story
    return outcome


def test_silent_where_there_is_no_bug() -> None:
    """All faults, nothing planted: nothing is found. So few runs seldom ship an order; that every
    rule succeeds is asked of the long search below."""
    outcome = silent(40, 500)
    assert all(each.checks for each in outcome.tally.invariants.values())


@pytest.mark.soak
def test_silent_for_long() -> None:
    """2,000 runs without a word; and none of it was vacuous."""
    outcome = silent(100 * max(20, SOAK_FACTOR), 20_000)
    assert not hollow_in(outcome), hollow_in(outcome)


def test_a_client_may_go_while_the_answer_to_its_commit_is_on_its_way() -> None:
    """The moment that decides is one of a hundred, and is struck far more often than that: work
    that was committed, given up for a client that has gone. Any other is cancelled before."""
    orders = []

    async def main(world: World) -> None:
        pg = await world.postgres(schema=SCHEMA)
        web = await world.web(api.app, environment={"DATABASE_URL": pg.url("asyncpg")})
        token = {"authorization": f"Bearer {api.token_for(1)}"}
        buyer = web.client("buyer", headers=token)
        await buyer.post("/items/1/visits")
        web.fail_next("client_gone", path="/orders")
        with pytest.raises(httpx.ReadError):
            await buyer.post("/orders", json={"item_id": 1, "quantity": 1})
        await asyncio.sleep(1)
        orders.append(pg.sql("select count(*) from orders")[0][0])

    foretold.explore(main, runs=60, seed=0, confirm=False, mutant="lost_mail")
    assert 6 <= sum(orders) <= 54, orders


def test_no_run_outlives_the_next() -> None:
    """Processes are killed while they work, in threads, greenlets and generators: what they knew is
    let go. (The application is a global of its module, and keeps what it had in its last run.)"""
    gc.collect()
    of_others = living_worlds()  # other tests have globals, too
    silent(30, 4_000)
    gc.collect()
    assert len([each for each in living_worlds() if each not in of_others]) <= 1


def living_worlds() -> list[World]:
    """All that something holds."""
    return [each for each in gc.get_objects() if isinstance(each, World)]
