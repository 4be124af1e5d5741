"""A set of tasks has any order in production; searches go through them, and labels know of it."""

from __future__ import annotations

import asyncio
import itertools

import pytest

import foretold
from foretold.tape import Tape


async def first_of_those_done() -> None:
    """Two tasks are done when `wait` returns; which one `pop` gives, their addresses decide."""
    tasks = [asyncio.create_task(asyncio.sleep(0, name), name=name) for name in ("a", "b")]
    done, _ = await asyncio.wait(tasks)
    assert done.pop().get_name() == "a"


async def order_of_three() -> tuple[str, ...]:
    """The order in which a set gives its three tasks."""
    tasks = {asyncio.create_task(asyncio.sleep(0), name=name) for name in "abc"}
    await asyncio.wait(tasks)
    return tuple(task.get_name() for task in tasks)


@pytest.mark.usefixtures("one_session")
def test_each_order_is_reached() -> None:
    """All six orders of three tasks, in stock order as well."""
    for order in ("asyncio", "any"):
        seen = {foretold.run(order_of_three, seed=seed, order=order).value for seed in range(60)}
        assert seen == set(itertools.permutations("abc"))


def test_calm_is_the_order_of_creation() -> None:
    """The calm tape says nothing about sets."""
    assert foretold.run(order_of_three, tape=Tape.calm()).value == ("a", "b", "c")


def test_who_relies_on_it_is_found() -> None:
    """As production would. It replays, and the story names the only cause."""
    outcome = foretold.explore(first_of_those_done, seed=3)
    failure = outcome.failure
    assert failure is not None
    assert outcome.runs < 20
    assert failure.stock_asyncio is True
    assert "sets of tasks were not in the order in which their members were made" in failure.story
    assert not failure.tape.schedule.holds
    with pytest.raises(AssertionError, match="'b' == 'a'"):
        foretold.replay(first_of_those_done, failure.tape)


async def lost_update_beside_a_set() -> None:
    """Only an order that stock asyncio never takes loses an update; the set does not matter."""
    count = 0

    async def add() -> None:
        nonlocal count
        before = count
        await asyncio.sleep(0)
        count = before + 1

    async def later() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        await add()

    await asyncio.wait({asyncio.create_task(add()), asyncio.create_task(later())})
    assert count == 2


def test_nothing_is_excluded_where_a_set_may_decide() -> None:
    """That the program walks through its set of tasks, or does not, is not known from outside."""
    failure = foretold.explore(lost_update_beside_a_set, seed=1).failure
    assert failure is not None
    assert failure.stock_asyncio is None


def test_a_set_that_does_not_matter_is_shrunk_away() -> None:
    """Its order does not stay on the tape, and is not told."""
    failure = foretold.explore(lost_update_beside_a_set, seed=1).failure
    assert failure is not None
    assert not any(choice.value for choice in failure.tape.choices.get("sets/order", ()))
    assert "sets of tasks" not in failure.story


def test_sets_are_something_to_explore() -> None:
    """A program that chooses nothing else is run again and again; one task has no order."""

    async def alone() -> None:
        await asyncio.wait({asyncio.create_task(asyncio.sleep(0))})

    assert foretold.explore(alone, runs=50).vacuous
    assert foretold.explore(order_of_three, runs=50).runs == 50
