"""async-lru 2.0.2: a cache with a time to live fails if cleared during a call (async-lru#503).

Visitors look at pages that are cached; an editor clears the cache now and then.
"""

import asyncio
import random

from patterns import all_end, pause

KIND = "test"
BUGGY = ("async-lru==2.0.2", "typing_extensions==4.12.2")
FIXED = ("async-lru==2.0.4", "typing_extensions==4.12.2")


async def main() -> None:
    from async_lru import alru_cache

    @alru_cache(maxsize=16, ttl=5)
    async def page(name: str) -> str:
        await pause(0.002)
        return f"<h1>{name}</h1>"

    async def visitor() -> None:
        await pause(0.05)
        name = random.choice(["news", "about", "jobs"])
        assert await page(name) == f"<h1>{name}</h1>"

    async def editor() -> None:
        for _ in range(2):
            await pause(0.03)
            page.cache_clear()

    tasks = [asyncio.create_task(visitor()) for _ in range(6)]
    await all_end([*tasks, asyncio.create_task(editor())])
