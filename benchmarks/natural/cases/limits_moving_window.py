"""limits 5.2.0: entries vanish while several tasks hit a moving window (alisaifee/limits#277).

Requests of a few users, four a day each.
"""

import asyncio
import random
from collections import Counter

from patterns import pause

KIND = "test"
BUGGY = ("limits==5.2.0", "deprecated==1.2.18", "wrapt==1.17.2")
FIXED = ("limits==5.4.0", "deprecated==1.2.18", "wrapt==1.17.2")


async def main() -> None:
    import limits
    from limits.aio import storage, strategies

    memory = storage.MemoryStorage()
    limiter = strategies.MovingWindowRateLimiter(memory)
    limit, allowed = limits.parse("4/day"), Counter[str]()

    async def request() -> None:
        user = random.choice(["ada", "bob"])
        await pause(0.05)
        if await limiter.hit(limit, user):
            allowed[user] += 1

    await asyncio.gather(*(request() for _ in range(24)))
    assert max(allowed.values()) <= 4, f"four a day: {dict(allowed)}"
    timer = getattr(memory, "timer", None)
    if timer is not None:
        timer.cancel()
