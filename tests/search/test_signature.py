"""What makes two failures the same: of a deadlock the lines at which somebody waits, as data."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.story.signature import signature_of
from tests.helpers import run_of


def stuck(*names: str) -> Callable[[], Any]:
    """A program in which tasks of these names wait for ever, at one line."""

    async def main() -> None:
        async def waits() -> None:
            await asyncio.Event().wait()

        await asyncio.gather(*(asyncio.create_task(waits(), name=name) for name in names))

    return main


@pytest.mark.parametrize("name", ["worker", "waits at lunch:12 for you", "two\nlines"])
def test_names_do_not_change_what_it_is(name: str) -> None:
    """Whatever a task is called, the deadlock is the same, and it says who waits where."""
    error = run_of(stuck(name)).error
    assert isinstance(error, foretold.Deadlock)
    assert signature_of(error) == signature_of(run_of(stuck("a", "b")).error or ValueError())
    main, worker = error.waiting
    assert (main.name, worker.name) == ("main", name)
    assert worker.place is not None
    assert worker.place[0] == __file__
    assert worker.what == "Event.wait() in locks"
    assert error.why.startswith("nothing can run and nothing is scheduled")


def test_it_is_the_same_in_another_process() -> None:
    """Workers send what they have found: the data goes along."""
    error = run_of(stuck("one")).error
    assert isinstance(error, foretold.Deadlock)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.waiting, copy.why) == (error.waiting, error.why)
    assert signature_of(copy) == signature_of(error)


def test_a_story_can_be_sent() -> None:
    """A text with its facts."""

    async def main() -> None:
        await asyncio.sleep(1)
        raise ValueError

    failure = foretold.explore(main, runs=1, confirm=False).failure
    assert failure is not None
    copy = pickle.loads(pickle.dumps(failure.story))
    assert (copy, copy.to_dict()) == (failure.story, failure.story.to_dict())
