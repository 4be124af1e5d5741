"""fair-async-rlock 1.0.6: a newcomer takes the lock that is being handed over (FairAsyncRLock#17).

Each job holds the lock for a moment.
"""

import asyncio

from patterns import all_end, pause

KIND = "test"
BUGGY = ("fair-async-rlock==1.0.6",)
FIXED = ("fair-async-rlock==1.0.7",)


async def main() -> None:
    from fair_async_rlock import FairAsyncRLock

    lock = FairAsyncRLock()
    inside = 0

    async def job() -> None:
        nonlocal inside
        await pause(0.01)
        async with lock:
            inside += 1
            assert inside == 1, "two jobs hold the lock"
            await pause(0.002)
            inside -= 1

    await all_end([asyncio.create_task(job()) for _ in range(6)])
