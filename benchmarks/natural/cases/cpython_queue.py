"""Queue of Python 3.4: an item is lost with the cancelled task that got it (python/asyncio#269).

Written out. Items are handed to waiting consumers directly; some consumers give up.
"""

import asyncio
from collections import deque

from patterns import pause, some_give_up

KIND = "test"


class Queue:
    """As it was: who puts gives the item to the first who waits."""

    def __init__(self) -> None:
        self._items: deque[int] = deque()
        self._getters: deque[asyncio.Future[int]] = deque()

    def put_nowait(self, item: int) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(item)
                return
        self._items.append(item)

    async def get(self) -> int:
        if self._items:
            return self._items.popleft()
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        return await getter


async def all_arrive(queue: "Queue | asyncio.Queue[int]") -> None:
    taken: list[int] = []

    async def consume() -> None:
        while True:
            taken.append(await queue.get())
            await pause(0.002)

    consumers = [asyncio.create_task(consume()) for _ in range(4)]
    stopping = asyncio.create_task(some_give_up(consumers, 2, 0.02))
    for item in range(10):
        await pause(0.004)
        queue.put_nowait(item)
    await stopping
    await asyncio.sleep(1)
    for consumer in consumers:
        consumer.cancel()
    assert len(taken) == 10, f"10 items were put, {len(taken)} were taken"


async def main() -> None:
    await all_arrive(Queue())


async def repaired() -> None:
    await all_arrive(asyncio.Queue())
