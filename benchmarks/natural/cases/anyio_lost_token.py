"""anyio 4.9.0: CapacityLimiter loses a token if its next owner is cancelled (agronholm/anyio#947).

One token for six; two of the callers give up.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "five"
BUGGY = ("anyio==4.9.0",)
FIXED = ("anyio==4.10.0",)


async def main() -> None:
    import anyio

    limiter = anyio.CapacityLimiter(1)

    async def work() -> None:
        async with limiter:
            await pause(0.004)

    tasks = [asyncio.create_task(work()) for _ in range(6)]
    await some_give_up(tasks, 2, 0.012)
    await all_end(tasks)
