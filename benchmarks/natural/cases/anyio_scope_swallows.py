"""anyio 4.15.1: a time limit that expires together with Task.cancel() swallows it (anyio#1214).

A poller asks again and again, each time with a limit; it is stopped by cancelling it.
"""

import asyncio

from patterns import all_end, pause

KIND = "training"
BUGGY = ("anyio==4.15.1",)
FIXED = ("anyio==4.16.0",)


async def main() -> None:
    import anyio

    async def poll() -> None:
        for _ in range(100):
            with anyio.move_on_after(0.005):
                await asyncio.sleep(10)
            await asyncio.sleep(0.001)

    pollers = [asyncio.create_task(poll()) for _ in range(3)]
    for poller in pollers:
        await pause(0.02)
        poller.cancel()
    _, left = await asyncio.wait(pollers, timeout=0.1)
    assert not left, "a poller was cancelled and goes on"
    await all_end(pollers)
