"""`always`, `sometimes`, `reachable`: stated anywhere, judged by the run, silent outside of one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

import foretold
from foretold.world.world import World
from tests.helpers import PLANS, again, run_of


def test_outside_a_run_nothing_happens() -> None:
    """They may stay in production code: no error, no effect, the condition comes back as a bool."""
    assert foretold.always(1 < 2, "fine") is True
    assert foretold.always([], "not fine", size=0) is False
    assert foretold.sometimes("yes", "seen") is True
    assert foretold.sometimes(None, "unseen") is False
    assert foretold.reachable("here") is None  # type: ignore[func-returns-value]  # that is the point


def test_a_false_property_is_raised_where_it_is_stated() -> None:
    """With its message and details, as an `AssertionError` that pytest knows how to show."""

    async def main() -> None:
        foretold.always(True, "harmless")
        foretold.always(2 + 2 == 5, "arithmetic holds", left=4, right=5, name="sum")

    with pytest.raises(AssertionError) as caught:
        foretold.run(main)
    assert type(caught.value) is foretold.PropertyViolated
    assert str(caught.value) == "arithmetic holds\n  left = 4\n  right = 5\n  name = 'sum'"
    assert caught.traceback[-2].name == "main"


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_a_swallowed_violation_fails_the_run(order: str, strategy: str) -> None:
    """Applications catch everything here and there; a violated property counts all the same."""

    async def main() -> str:
        with contextlib.suppress(Exception):
            foretold.always(False, "no money is lost", balance=-5)
        await asyncio.sleep(1)
        return "fine"

    with pytest.raises(foretold.PropertyViolated, match="no money is lost"):
        foretold.run(main, order=order, strategy=strategy, background_errors="ignore")


def test_the_first_violation_is_the_verdict() -> None:
    """Later ones are mostly its consequences. They are kept, within a limit."""

    async def main(world: World) -> None:
        for number in range(1_000):
            try:
                foretold.always(False, f"violation {number}")
            except foretold.PropertyViolated:
                await asyncio.sleep(0)
        assert len(world.failures) == 100

    with pytest.raises(foretold.PropertyViolated, match="violation 0"):
        foretold.run(main)


def test_a_violation_in_a_task_that_nobody_awaits() -> None:
    """Also where the exception itself would have been lost."""

    async def background() -> None:
        foretold.always(False, "in the background")

    async def main() -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert task.done()

    with pytest.raises(foretold.PropertyViolated, match="in the background"):
        foretold.run(main)


def test_other_threads_state_nothing() -> None:
    """A thread that is not of the run has no world: what it states has no effect on it."""
    asked, answered = threading.Event(), threading.Event()
    seen: list[Any] = []

    def outside() -> None:
        asked.wait(60)
        seen.append(foretold.always(False, "elsewhere"))
        answered.set()

    thread = threading.Thread(target=outside, daemon=True)
    thread.start()

    async def main() -> None:
        asked.set()
        answered.wait(60)

    assert run_of(main).error is None
    thread.join()
    assert seen == [False]


def test_points_that_were_hit_and_missed() -> None:
    """A run tells which points it hit, how often, and which it passed without hitting."""

    async def main() -> None:
        for number in range(3):
            foretold.sometimes(number % 2 == 0, "an even number")
            foretold.sometimes(number > 10, "a large number")
        foretold.reachable("the end")
        foretold.always(True, "a property")

    done = run_of(main)
    assert done.reached == {"an even number": 2, "the end": 1}
    assert done.missed == ["a large number"]


def test_points_are_part_of_the_trace() -> None:
    """Two runs that reached different points are different runs."""

    async def main() -> None:
        foretold.sometimes(foretold.between(0, 1) == 1, "one")

    entries: list[str] = []
    again(main, foretold.Tape.calm(), sink=entries.append)
    assert "reached one" not in entries
    found = [list[str]() for _ in range(8)]
    for seed, each in enumerate(found):
        again(main, foretold.Tape.seeded(seed), sink=each.append)
    assert any("reached one" in each for each in found)
