"""async-timeout 3.0.1: a limit that expires together with Task.cancel() swallows it (3.0 to 4.0).

A poller asks again and again, each time with a limit; it is stopped by cancelling it.
"""

import asyncio

from patterns import all_end, pause

KIND = "test"
BUGGY = ("async-timeout==4.0.2",)
FIXED = ("async-timeout==5.0.1",)


async def main() -> None:
    import async_timeout

    async def poll() -> None:
        for _ in range(100):
            try:
                async with async_timeout.timeout(0.005):
                    await asyncio.sleep(10)
            except TimeoutError:
                pass
            await asyncio.sleep(0.001)

    pollers = [asyncio.create_task(poll()) for _ in range(3)]
    for poller in pollers:
        await pause(0.02)
        poller.cancel()
    _, left = await asyncio.wait(pollers, timeout=0.1)
    assert not left, "a poller was cancelled and goes on"
    await all_end(pollers)
