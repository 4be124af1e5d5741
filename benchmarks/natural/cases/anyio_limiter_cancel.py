"""anyio 3.4.0: a task that is cancelled as it takes a token keeps it (agronholm/anyio#398).

Work arrives bit by bit, with two tokens; half of the callers give up. 3.5.0 is not silent here:
until 4.10.0 a token is lost if its next owner is cancelled (anyio#947).
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "training"
BUGGY = ("anyio==3.4.0",)
FIXED = ("anyio==4.14.2",)


async def main() -> None:
    import anyio

    limiter = anyio.CapacityLimiter(2)

    async def work() -> None:
        await pause(0.02)
        async with limiter:
            await pause(0.004)

    tasks = [asyncio.create_task(work()) for _ in range(10)]
    await some_give_up(tasks, 5, 0.022)
    await all_end(tasks)
    assert limiter.borrowed_tokens == 0, "nobody is left, and a token is taken"
