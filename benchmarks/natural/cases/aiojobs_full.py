"""aiojobs 1.0.0: jobs that wait for a place count as running, and all stands still (aiojobs#98).

A burst of requests spawns jobs; one runs at a time, and two may wait.
"""

import asyncio

from patterns import all_end, pause

KIND = "test"
BUGGY = ("aiojobs==1.0.0", "async-timeout==4.0.3")
FIXED = ("aiojobs==1.1.0", "async-timeout==4.0.3")


async def main() -> None:
    import aiojobs

    limits = {"limit": 1, "pending_limit": 2, "close_timeout": 0.1, "exception_handler": None}
    made = getattr(aiojobs, "create_scheduler", None)
    scheduler = await made(**limits) if made else aiojobs.Scheduler(**limits)

    async def job() -> None:
        await pause(0.002)

    async def request() -> None:
        await pause(0.02)
        await scheduler.spawn(job())

    await all_end([asyncio.create_task(request()) for _ in range(8)])
    await scheduler.close()
