"""anyio 3.3.4: a waiter that was woken and is cancelled keeps a place of a Semaphore (anyio#387).

Requests, two at a time, each with a time limit of its own.
"""

import asyncio

from patterns import all_end, pause

KIND = "training"
BUGGY = ("anyio==3.3.4",)
FIXED = ("anyio==3.4.0",)


async def main() -> None:
    import anyio

    semaphore = anyio.Semaphore(2)

    async def request() -> None:
        await pause(0.01)
        with anyio.move_on_after(0.006):
            async with semaphore:
                await asyncio.sleep(0.003)

    tasks = [asyncio.create_task(request()) for _ in range(12)]
    await all_end(tasks)
    assert semaphore.value == 2, "all have ended, and a place is taken"
