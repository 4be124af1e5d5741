"""anyio 4.15.1: a cancelled acquire_on_behalf_of() gives back the wrong borrower's token (4.16.0).

Tokens are taken for sessions, not for tasks; some callers give up.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "test"
BUGGY = ("anyio==4.15.1",)
FIXED = ("anyio==4.16.0",)


async def main() -> None:
    import anyio

    limiter = anyio.CapacityLimiter(4)

    async def use(session: str) -> None:
        await pause(0.01)
        await limiter.acquire_on_behalf_of(session)
        try:
            await pause(0.004)
        finally:
            limiter.release_on_behalf_of(session)

    tasks = [asyncio.create_task(use(f"session-{number}")) for number in range(6)]
    await some_give_up(tasks, 3, 0.012)
    await all_end(tasks)
    assert limiter.borrowed_tokens == 0, "nobody is left, and a token is taken"
