"""anyio 4.14.1: a token that was handed over is given to a second task (anyio 4.14.2 notes it).

Some wait for the only token, others take it only if it is free.
"""

import asyncio

from patterns import pause

KIND = "five"
BUGGY = ("anyio==4.14.1",)
FIXED = ("anyio==4.14.2",)


async def main() -> None:
    import anyio

    limiter = anyio.CapacityLimiter(1)
    inside = most = 0

    async def use() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await pause(0.003)
        inside -= 1

    async def patient() -> None:
        await pause(0.01)
        async with limiter:
            await use()

    async def hasty() -> None:
        await pause(0.01)
        try:
            limiter.acquire_nowait()
        except anyio.WouldBlock:
            return
        try:
            await use()
        finally:
            limiter.release()

    await asyncio.gather(*(patient() for _ in range(4)), *(hasty() for _ in range(4)))
    assert most == 1, "two tasks had the only token"
