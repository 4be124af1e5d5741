"""Lock of Python 3.6.1: whoever was woken and is cancelled wakes nobody else (bpo-27585).

Written out. Transfers go through one lock; some customers hang up.
"""

import asyncio
from collections import deque

from patterns import all_end, pause, some_give_up

KIND = "training"


class Lock:
    """As it was."""

    def __init__(self) -> None:
        self._locked = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if not self._locked and all(each.cancelled() for each in self._waiting):
            self._locked = True
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
            self._locked = True
        finally:
            self._waiting.remove(waiter)

    async def __aexit__(self, *failure: object) -> None:
        self._locked = False
        waiter = next((each for each in self._waiting if not each.done()), None)
        if waiter is not None:
            waiter.set_result(None)


async def transfers(lock: "Lock | asyncio.Lock") -> None:
    async def transfer() -> None:
        await pause(0.01)
        async with lock:
            await pause(0.004)

    tasks = [asyncio.create_task(transfer()) for _ in range(7)]
    await some_give_up(tasks, 3, 0.02)
    await all_end(tasks)


async def main() -> None:
    await transfers(Lock())


async def repaired() -> None:
    await transfers(asyncio.Lock())
