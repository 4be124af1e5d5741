"""anyio 3.3.4: a waiter that was woken and is cancelled leaves the Lock taken (anyio#387).

One request after the other goes through a lock, each with a time limit of its own.
"""

import asyncio

from patterns import all_end, pause

KIND = "training"
BUGGY = ("anyio==3.3.4",)
FIXED = ("anyio==3.4.0",)


async def main() -> None:
    import anyio

    lock = anyio.Lock()

    async def request() -> None:
        await pause(0.01)
        with anyio.move_on_after(0.006):
            async with lock:
                await asyncio.sleep(0.003)

    tasks = [asyncio.create_task(request()) for _ in range(8)]
    await all_end(tasks)
    assert not lock.statistics().locked, "all have ended, and the lock is taken"
