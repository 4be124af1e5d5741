"""anyio 4.13.0: Semaphore: a cancelled waiter strands those behind it (anyio#1145).

Uploads, one at a time; some are cancelled while they wait.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "training"
BUGGY = ("anyio==4.13.0",)
FIXED = ("anyio==4.14.0",)


async def main() -> None:
    import anyio

    semaphore = anyio.Semaphore(1)

    async def upload() -> None:
        await pause(0.012)
        async with semaphore:
            await pause(0.003)

    tasks = [asyncio.create_task(upload()) for _ in range(6)]
    await some_give_up(tasks, 3, 0.014)
    await all_end(tasks)
