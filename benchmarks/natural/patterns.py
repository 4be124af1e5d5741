"""What many of the cases have in common: callers that give up, and work that has to end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from typing import Any

LONG_S = 60.0


async def some_give_up(tasks: Sequence[asyncio.Task[Any]], count: int, within_s: float) -> None:
    """So many of the tasks are cancelled, each at some moment."""

    async def give_up(task: asyncio.Task[Any]) -> None:
        await asyncio.sleep(random.uniform(0, within_s))
        task.cancel()

    await asyncio.gather(*map(give_up, random.sample(tasks, count)))


async def all_end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Every task ends, in whatever way: none waits for ever."""
    _, stuck = await asyncio.wait(tasks, timeout=LONG_S)
    assert not stuck, f"{len(stuck)} wait for ever"
    for task in tasks:
        if not task.cancelled():
            task.result()


async def pause(up_to_s: float) -> None:
    """For a random time."""
    await asyncio.sleep(random.uniform(0, up_to_s))
