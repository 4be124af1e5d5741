"""anyio 3.4.0: a task that is cancelled as it takes a free Lock dies with it (agronholm/anyio#398).

Work arrives bit by bit and goes through one lock; half of the callers give up.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "five"
BUGGY = ("anyio==3.4.0",)
FIXED = ("anyio==3.5.0",)


async def main() -> None:
    import anyio

    lock = anyio.Lock()

    async def work() -> None:
        await pause(0.01)
        async with lock:
            await pause(0.002)

    tasks = [asyncio.create_task(work()) for _ in range(6)]
    await some_give_up(tasks, 3, 0.012)
    await all_end(tasks)
