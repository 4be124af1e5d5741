"""Semaphore of Python 3.10.5: a cancelled task that was woken closes it for ever (cpython#90155).

Written out. Crawlers share two places; some are cancelled.
"""

import asyncio
from collections import deque

from patterns import all_end, pause, some_give_up

KIND = "training"


class Semaphore:
    """As it was: a flag says that somebody was woken, and only who goes on takes it down."""

    def __init__(self, value: int) -> None:
        self._value = value
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._somebody_is_woken = False

    async def __aenter__(self) -> None:
        while self._somebody_is_woken or self._value <= 0:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
                self._somebody_is_woken = False
            except asyncio.CancelledError:
                self._wake_next()
                raise
        self._value -= 1

    async def __aexit__(self, *failure: object) -> None:
        self._value += 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._somebody_is_woken = True
                return


async def crawl(semaphore: "Semaphore | asyncio.Semaphore") -> None:
    async def page() -> None:
        await pause(0.01)
        async with semaphore:
            await pause(0.005)

    tasks = [asyncio.create_task(page()) for _ in range(6)]
    await some_give_up(tasks, 3, 0.015)
    await all_end(tasks)
    await all_end([asyncio.create_task(page())])


async def main() -> None:
    await crawl(Semaphore(2))


async def repaired() -> None:
    await crawl(asyncio.Semaphore(2))
