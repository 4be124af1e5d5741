"""Condition before Python 3.13: a notification is lost with the task that it woke (cpython#112202).

Four consumers; two of them are stopped while jobs are handed in, one after the other. Written out:
whichever Python runs this, the class is that of 3.12, and of 3.13 in the repaired program.
"""

import asyncio
from collections import deque
from typing import Any

from patterns import pause

KIND = "five"


class Condition:
    """As in Python 3.12, as far as this program uses it."""

    passes_on = False

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *failure: object) -> None:
        self._lock.release()

    async def wait(self) -> None:
        self._lock.release()
        woken = asyncio.get_running_loop().create_future()
        self._waiting.append(woken)
        try:
            try:
                await woken
            finally:
                self._waiting.remove(woken)
                await self._lock_again()
        except BaseException:
            if self.passes_on and woken.done() and not woken.cancelled():
                self.notify()
            raise

    async def _lock_again(self) -> None:
        cancelled = False
        while True:
            try:
                await self._lock.acquire()
                break
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def notify(self) -> None:
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)
                return


class RepairedCondition(Condition):
    """As in Python 3.13: a task that was woken and is cancelled wakes the next."""

    passes_on = True


async def jobs_are_taken(kind: type[Condition]) -> None:
    changed, jobs = kind(), list[asyncio.Future[str]]()

    async def consume() -> None:
        while True:
            async with changed:
                while not jobs:
                    await changed.wait()
                jobs.pop().set_result("done")

    async def scale_down() -> None:
        for task in consumers[:2]:
            await pause(0.01)
            task.cancel()

    async def hand_in() -> None:
        job = asyncio.get_running_loop().create_future()
        async with changed:
            jobs.append(job)
            changed.notify()
        done, _ = await asyncio.wait({job}, timeout=10)
        assert done, "two consumers are idle, and nobody takes the job"

    consumers = [asyncio.create_task(consume()) for _ in range(4)]
    stopping = asyncio.create_task(scale_down())
    for _ in range(10):
        await pause(0.002)
        await hand_in()
    await stopping
    for task in consumers:
        task.cancel()


async def main() -> Any:
    await jobs_are_taken(Condition)


async def repaired() -> Any:
    await jobs_are_taken(RepairedCondition)
