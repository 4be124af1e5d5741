"""Of races without a database the story names the two tasks that decide it, and no bystander."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import foretold


async def bystander() -> None:
    """It has nothing to do with anything."""
    for _ in range(3):
        await asyncio.sleep(0)


async def stale_cache() -> None:
    """A reader puts into the cache what a writer has changed meanwhile."""
    rows, cache = {"x": 1}, dict[str, int]()

    async def reader() -> None:
        value = rows["x"]
        await asyncio.sleep(0)
        cache["x"] = value

    async def writer() -> None:
        await asyncio.sleep(0)
        rows["x"] = 2
        cache.pop("x", None)

    await foretold.together(reader(), writer(), bystander())
    assert cache.get("x", rows["x"]) == rows["x"], "stale"


async def outbox() -> None:
    """The message is sent before the row is there."""
    sent: asyncio.Queue[int] = asyncio.Queue()
    rows: set[int] = set()

    async def seller() -> None:
        sent.put_nowait(1)
        await asyncio.sleep(0)
        rows.add(1)

    async def mailer() -> None:
        number = await sent.get()
        assert number in rows, "no such order"

    await foretold.together(seller(), mailer(), bystander())


async def lost_wake_up() -> None:
    """Looks, and then waits for what was there in between."""
    ready, news = [False], asyncio.Event()

    async def waiter() -> None:
        if not ready[0]:
            await asyncio.sleep(0)
            news.clear()
            await news.wait()

    async def setter() -> None:
        await asyncio.sleep(0)
        ready[0] = True
        news.set()

    await foretold.together(waiter(), setter(), bystander())


async def cancelled_hand_over() -> None:
    """Who is cancelled while it holds an item takes that with it."""
    jobs: asyncio.Queue[int] = asyncio.Queue()
    done: list[int] = []

    async def worker() -> None:
        item = await jobs.get()
        await asyncio.sleep(0)
        done.append(item)

    task = asyncio.create_task(worker())

    async def giver() -> None:
        await asyncio.sleep(0)
        jobs.put_nowait(1)

    async def stopper() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        task.cancel()

    await foretold.together(giver(), stopper(), bystander())
    await asyncio.wait([task])
    assert done == [1] or not jobs.empty(), "an item is lost"


CASES: dict[Callable[[], Any], set[str]] = {
    stale_cache: {"reader", "writer"},
    outbox: {"seller", "mailer"},
    lost_wake_up: {"waiter", "setter"},
    cancelled_hand_over: {"worker", "giver", "stopper"},
}


@pytest.mark.parametrize("main", CASES, ids=lambda main: main.__name__)
def test_the_two_tasks_are_named(main: Callable[[], Any]) -> None:
    """As data and at the beginning of the text; each of them is one of the guilty."""
    failure = foretold.explore(main, runs=300, seed=1, order="any", confirm=False).failure
    assert failure is not None
    story = failure.story
    assert story.pair is not None, story
    named = {side.who for side in story.pair}
    assert len(named) == 2, story
    assert named <= CASES[main], story
    assert story.startswith("These two steps decide it.")
    assert story.to_dict()["pair"][0]["who"] == story.pair[0].who
    assert story.text == str(story)
    assert type(story.text) is str
