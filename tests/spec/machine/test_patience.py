"""A call that never ends is found soon, and one that waits long on purpose is left alone."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

import foretold
from foretold.errors import LimitExceeded


class Polls(foretold.Machine):
    """Looks once a second for what never comes."""

    steps = 5
    pause_s = 1.0

    @foretold.rule(n=st.integers(0, 3))
    async def wait_for_it(self, n: int) -> None:
        while n:
            await asyncio.sleep(self.pause_s)


class PollsFast(Polls):
    """A thousand times a second: long before its time is up it has made too many steps."""

    actors = 2
    pause_s = 0.001
    call_steps_max = 5_000


class PollsInTasks(Polls):
    """The call itself stands still; those that it waits for do not."""

    call_s_max = 600

    weights: ClassVar[Any] = {"wait_for_it": 0}

    async def wait_in_one_way(self, how: str) -> None:
        """Start somebody who polls, and wait for him."""
        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(self.wait_for_it(1))
                group.create_task(asyncio.sleep(1))
        elif how == "gather":
            await asyncio.gather(self.wait_for_it(1), asyncio.sleep(1))
        elif how == "wait":
            await asyncio.wait([asyncio.create_task(self.wait_for_it(1))])
        else:
            await asyncio.create_task(self.wait_for_it(1))


@pytest.mark.parametrize("machine", [Polls, PollsFast])
def test_a_call_that_polls_for_ever(machine: type[Polls]) -> None:
    """It fails the run, names who waits where, shrinks to the one call, and in few steps."""
    failure = foretold.explore(machine, runs=20, seed=1, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, LimitExceeded)
    said = str(failure.exception)
    who = "actor1." if machine is PollsFast else ""
    assert said.startswith(f"{who}wait_for_it(n=1) is not over after ")
    assert "test_patience.py:25" in said
    wanted = "call_steps_max = 50000" if machine is PollsFast else "call_s_max = 36000"
    assert said.endswith(f"write {wanted} in {machine.__name__}")
    assert "1 call of" in failure.story


@pytest.mark.parametrize("how", ["group", "gather", "wait", "task"])
def test_tasks_of_a_call_belong_to_it(how: str) -> None:
    """A call whose tasks poll for ever does so itself, in whichever way it waits for them."""

    class InOneWay(PollsInTasks):
        @foretold.rule()
        @functools.wraps(PollsInTasks.setup)  # a plain function around an async one
        def wait_for_them(self) -> Any:
            return self.wait_in_one_way(how)

    with pytest.raises(LimitExceeded, match="wait_for_them"):
        foretold.run(InOneWay, steps_max=50_000)


def test_one_run_is_like_another() -> None:
    """Where a call is stopped is a matter of virtual time and steps: the same on every machine."""

    def said(seed: int) -> str:
        with pytest.raises(LimitExceeded) as raised:
            foretold.run(Polls, seed=seed)
        return str(raised.value)

    assert len({said(3) for _ in range(3)}) == 1


class Ticks(foretold.Machine):
    """Something ticks all the while, and rules let time pass."""

    actors = 2
    steps = 8
    call_s_max = 100

    async def setup(self) -> None:
        self.ticking = asyncio.create_task(self.tick())

    async def teardown(self) -> None:
        self.ticking.cancel()

    async def tick(self) -> None:
        """As a scheduler in the test's own process does."""
        while True:
            await asyncio.sleep(1)

    @foretold.rule()
    async def sleep_long(self) -> None:
        await asyncio.sleep(6_000)

    @foretold.rule()
    async def jump(self) -> None:
        await self.world.clock.advance(6_000)

    @foretold.rule()
    async def work(self) -> None:
        for _ in range(50):
            await asyncio.sleep(1)


def test_who_waits_long_on_purpose_is_left_alone() -> None:
    """A jump in time is far longer than a call may take, while others work and something ticks."""
    outcome = foretold.explore(Ticks, runs=8, seed=1, confirm=False)
    assert outcome.failure is None, outcome.failure
    assert outcome.tally.rules["sleep_long"].succeeded > 3
    assert outcome.tally.rules["jump"].succeeded > 3


def test_a_deadlock_is_still_found_at_once() -> None:
    """Nobody's timer keeps it from being seen; and of those who wait only the user's own are told,
    not the one of ours who waits for them."""

    class Waits(foretold.Machine):
        @foretold.rule()
        async def wait(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(foretold.Deadlock) as raised:
        foretold.run(Waits)
    listed = str(raised.value).splitlines()[1:]
    assert len(listed) == 1
    assert listed[0].startswith("  wait-1 waits at ")


@pytest.mark.parametrize("limit", ["call_s_max", "call_steps_max"])
@pytest.mark.parametrize("value", [0, "long", None])
def test_limits_are_numbers(limit: str, value: Any) -> None:
    """A mistake is named before any run."""
    with pytest.raises(foretold.UsageError, match=f"Made.{limit}"):
        foretold.run(type("Made", (Polls,), {limit: value}))
