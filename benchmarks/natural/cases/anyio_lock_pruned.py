"""anyio 4.13.0: a cancelled waiter at the head of the line strands those behind it (anyio#1145).

Writers take turns; some are cancelled while they wait.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "training"
BUGGY = ("anyio==4.13.0",)
FIXED = ("anyio==4.14.0",)


async def main() -> None:
    import anyio

    lock = anyio.Lock()

    async def write() -> None:
        await pause(0.012)
        async with lock:
            await pause(0.003)

    tasks = [asyncio.create_task(write()) for _ in range(6)]
    await some_give_up(tasks, 3, 0.014)
    await all_end(tasks)
