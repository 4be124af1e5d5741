"""anyio 3.4.0: a task that is cancelled as it takes a Semaphore keeps it (agronholm/anyio#398).

Downloads, two at a time; some callers give up.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "training"
BUGGY = ("anyio==3.4.0",)
FIXED = ("anyio==3.5.0",)


async def main() -> None:
    import anyio

    semaphore = anyio.Semaphore(2)

    async def download() -> None:
        await pause(0.02)
        async with semaphore:
            await pause(0.004)

    tasks = [asyncio.create_task(download()) for _ in range(10)]
    await some_give_up(tasks, 5, 0.022)
    await all_end(tasks)
    assert semaphore.value == 2, "nobody is left, and a place is taken"
