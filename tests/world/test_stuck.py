"""Runs that do not end by themselves: deadlocks are found by looking, the rest by limits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import time
from typing import Any

import pytest

import foretold
from tests.helpers import PLANS, run_of

# --- deadlock --------------------------------------------------------------------------------


async def events_through_a_queue(fixed: bool) -> list[int]:
    """S1.7: a queue of 16, 48 events, and a consumer that first waits for the producer to end."""
    queue: asyncio.Queue[int] = asyncio.Queue(16)
    delivered: list[int] = []

    async def produce() -> None:
        for number in range(48):
            await queue.put(number)

    async def consume(producer: asyncio.Task[None]) -> None:
        if not fixed:
            await producer
        for _ in range(48):
            delivered.append(await queue.get())

    producer = asyncio.create_task(produce(), name="producer")
    await asyncio.create_task(consume(producer), name="consumer")
    return delivered


def line_with(text: str) -> int:
    """The number of the line of this file that holds a text, for the first time."""
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_a_deadlock_is_found_by_looking(order: str, strategy: str) -> None:
    """S1.7: who waits, at which line, and for what. No time limit is involved: none is set, and
    virtual time stands where it was."""
    broken = functools.partial(events_through_a_queue, fixed=False)
    with pytest.raises(foretold.Deadlock) as caught:
        foretold.run(broken, order=order, strategy=strategy, wall_s_max=math.inf)
    lines = str(caught.value).splitlines()
    assert "nothing can run and nothing is scheduled" in lines[0]
    put, wait = line_with("await queue.put(number)"), line_with("await producer")
    here = os.path.abspath(__file__)
    assert {line.strip() for line in lines[1:]} >= {
        f"producer waits at {here}:{put} for Queue.put() in queues",
        f"consumer waits at {here}:{wait} for the task producer",
    }
    assert any("the task consumer" in line for line in lines[1:])
    assert len(lines) == 4
    assert run_of(broken, order=order, strategy=strategy).virtual_s < 0.1


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_the_repaired_queue_delivers_everything(order: str, strategy: str) -> None:
    """S1.7: with the fix, all 48 events arrive, in order, on every tape."""
    fixed = functools.partial(events_through_a_queue, fixed=True)
    for seed in range(10):
        value = foretold.run(fixed, seed=seed, order=order, strategy=strategy).value
        assert value == list(range(48))


def test_a_deadlock_of_main_alone() -> None:
    """Main waits for a future that nobody has."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(foretold.Deadlock, match=r"main waits at .* for a future that nothing"):
        foretold.run(main)


@pytest.mark.parametrize("swallows", ["at once", "in finally"])
def test_a_deadlock_while_cleaning_up(swallows: str) -> None:
    """Main has returned; a task that is cancelled then waits for ever instead of ending."""

    async def stubborn() -> None:
        if swallows == "at once":
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def main() -> None:
        main.task = asyncio.create_task(stubborn())  # type: ignore[attr-defined]  # kept alive
        await asyncio.sleep(0)

    with pytest.raises(foretold.Deadlock, match=r"stubborn waits at .* for Event\.wait\(\)"):
        foretold.run(main, wall_s_max=math.inf)


# --- limits ----------------------------------------------------------------------------------


def test_too_many_steps() -> None:
    """A loop that never ends: the error names the limit. The last allowed step is allowed."""

    async def main(steps: int) -> None:
        for _ in range(steps - 2):
            await asyncio.sleep(0)

    for order in ("asyncio", "any"):
        for limit in (10, 2_000, 2_001, 5_000):
            exact = foretold.run(lambda n=limit: main(n), order=order, steps_max=limit)
            assert exact.steps == limit
            with pytest.raises(foretold.LimitExceeded, match=f"{limit:,} steps.*steps_max"):
                foretold.run(lambda n=limit: main(n + 1), order=order, steps_max=limit)


@pytest.mark.parametrize("blocking", [False, True])
def test_too_much_virtual_time(blocking: bool) -> None:
    """A timer that renews itself, or a loop around `time.sleep`: an error, not an endless run."""

    async def main() -> None:
        while True:
            if blocking:
                time.sleep(60)
            else:
                await asyncio.sleep(60)

    with pytest.raises(foretold.LimitExceeded, match=r"3,600 virtual seconds.*virtual_s_max"):
        foretold.run(main, virtual_s_max=3600)


def test_too_much_real_time() -> None:
    """The limit on real time is looked at now and then, also in a run that reads no clock."""

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(foretold.LimitExceeded, match=r"0\.05 real seconds.*wall_s_max"):
        foretold.run(main, wall_s_max=0.05)


def test_limits_can_be_lifted() -> None:
    """Infinity is a limit as well: ten virtual years, if somebody wants them."""

    async def main() -> None:
        await asyncio.sleep(10 * 365 * 24 * 3600)

    with pytest.raises(foretold.LimitExceeded):
        foretold.run(main)
    done = foretold.run(main, virtual_s_max=math.inf, steps_max=10**12, wall_s_max=math.inf)
    assert done.virtual_s > 3e8


def test_a_broken_off_run_is_taken_down_in_its_world() -> None:
    """After a deadlock, `finally` blocks run in a sealed world: no real time, no real process,
    nothing in the trace, and the failure stays the one that it was."""
    log: list[Any] = []

    async def waiter() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append(time.time())
            time.sleep(3600)
            foretold.always(False, "too late to count")
            log.append("nothing was raised")

    async def connector() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                os.fork()
            except foretold.EscapedWorld:
                log.append("fenced")

    async def main() -> None:
        await asyncio.gather(waiter(), connector())

    first = run_of(main)
    assert isinstance(first.error, foretold.Deadlock)
    assert [entry if isinstance(entry, str) else entry < 1.8e9 for entry in log] == [
        True,
        "nothing was raised",
        "fenced",
    ]
    assert run_of(main).digest == first.digest
    assert first.virtual_s < 1
