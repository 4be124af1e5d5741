"""Shrinking real failures: what remains is the explanation, and it is still the same failure.

The passes by themselves are in `tests/tape/test_shrink_passes.py`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.search import workout
from foretold.search.signature import signature_of
from foretold.tape import WORKLOAD
from tests.helpers import again
from tests.search.test_explore import close_timers, found, lost_update


def check_same_failure(main: Callable[..., Any], failure: foretold.Failure) -> None:
    """The shrunk tape fails like the one that was found, and every hold in it can end."""
    done = again(main, failure.tape)
    assert done.error is not None
    assert signature_of(done.error) == failure.signature
    assert done.broken_holds == 0
    assert done.trace.digest == failure.digest


# --- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["random", "pct", "delays"])
def test_one_delay_among_ten_noisy_tasks(strategy: str) -> None:
    """Ten tasks chatter meanwhile; what is left is one sentence, and mostly it names alice and bob.

    However it was found: a random walk writes it as hundreds of short holds.
    """
    noisy = functools.partial(lost_update, 4, noise=10)
    named = []
    for seed in (0, 1_000, 2_000):
        failure = found(noisy, runs=3_000, seed=seed, order="any", strategy=strategy)
        [delay] = failure.delays
        named.append({delay.actor, delay.hold.until_actor})
        assert failure.shrink_runs < 400
        check_same_failure(noisy, failure)
    assert named.count({"alice", "bob"}) >= 2


async def two_preemptions() -> None:
    """Needs two things: `c` between the steps of `a`, and `d` between those of `b`."""
    log: list[str] = []

    async def pair(name: str) -> None:
        log.append(name)
        await asyncio.sleep(0)
        log.append(name)

    async def late(name: str) -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(pair("a"), pair("b"), late("c"), late("d"))
    text = "".join(log)
    between_a = text[text.index("a") : text.rindex("a")]
    between_b = text[text.index("b") : text.rindex("b")]
    assert not ("c" in between_a and "d" in between_b), text


def test_two_delays_where_two_are_needed() -> None:
    """Not one too many: each of the two names somebody who had to stand still."""
    for seed in (0, 100, 200):
        failure = found(two_preemptions, runs=3_000, seed=seed)
        assert 1 <= len(failure.delays) <= 2
        assert {delay.actor for delay in failure.delays} <= {"pair", "pair-2"}
        check_same_failure(two_preemptions, failure)


def test_a_race_by_slow_steps_keeps_few_of_them() -> None:
    """A late loop: a step or two that took long are the story, or none if all steps are slow."""
    for seed in range(0, 300, 100):
        failure = found(close_timers, runs=600, seed=seed, order="asyncio")
        assert len(failure.tape.schedule.slows) <= 2
        assert not failure.tape.schedule.holds
        check_same_failure(close_timers, failure)


# --- values ----------------------------------------------------------------------------------


async def large_order() -> None:
    """Fails for orders of 37 pieces and more, whatever else is chosen."""
    colour = foretold.choose(["red", "green", "blue"], "colour")
    pieces = foretold.between(0, 1_000, "pieces")
    names = foretold.draw(st.lists(st.text(), max_size=5), "names")
    await asyncio.sleep(0)
    assert pieces < 37, (colour, pieces, names)


def test_values_shrink_to_the_least_that_fails() -> None:
    """The number goes down to 37, the rest to the calm choice."""
    failure = found(large_order, runs=100)
    done = again(large_order, failure.tape, recording=True)
    assert [choice.value for choice in done.tape.recorded().choices[WORKLOAD][:2]] == [0, 37]
    assert "('red', 37, [])" in str(failure.exception)
    check_same_failure(large_order, failure)


async def value_and_order() -> None:
    """Needs a value and an order at once."""
    amount = foretold.between(0, 100, "amount")
    log: list[str] = []

    async def step(name: str) -> None:
        await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(step("first"), step("second"))
    assert amount < 20 or log[0] == "first"


def test_values_and_schedule_shrink_together() -> None:
    """The least amount, and one delay."""
    failure = found(value_and_order, runs=500)
    assert [choice.value for choice in failure.tape.choices[WORKLOAD]] == [20]
    [delay] = failure.delays
    assert delay.actor == "step"
    check_same_failure(value_and_order, failure)


# --- the same failure ------------------------------------------------------------------------


async def two_bugs() -> None:
    """A rare failure, and beside it one that is easier to have."""
    number = foretold.between(0, 1_000, "number")
    if number >= 500:
        raise LookupError("the one that was found")
    if number >= 3:
        raise LookupError("another one")


def test_one_bug_is_not_shrunk_into_another() -> None:
    """The same kind of exception at another line is another failure."""
    failure = found(two_bugs, runs=50, seed=1)
    kept = [choice.value for choice in failure.tape.choices[WORKLOAD]]
    assert kept == ([500] if "found" in str(failure.exception) else [3])
    texts = {str(found(two_bugs, runs=50, seed=seed).exception) for seed in range(12)}
    assert len(texts) == 2


# --- limits ----------------------------------------------------------------------------------


def test_shrinking_can_be_switched_off() -> None:
    """The recording as it was made: larger, and it fails as well."""
    noisy = functools.partial(lost_update, 2, noise=5)
    failure = found(noisy, runs=500, seed=3, strategy="random", shrink=False)
    assert failure.shrink_runs == 0
    assert len(failure.tape.schedule) > 5
    check_same_failure(noisy, failure)


@pytest.mark.parametrize("runs_max", [0, 1, 7])
def test_a_spent_budget_is_no_error(runs_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little may be spent on it, a failing tape comes out."""
    monkeypatch.setattr(workout, "SHRINK_RUNS_MAX", runs_max)
    noisy = functools.partial(lost_update, 2, noise=5)
    failure = found(noisy, runs=500, seed=3)
    assert failure.shrink_runs <= runs_max
    check_same_failure(noisy, failure)
