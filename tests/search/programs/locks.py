"""Bugs with locks and limits: taken in the wrong order, given back twice, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.search.programs.registry import bug, step


@bug
async def taken_in_two_orders(fixed: bool) -> None:
    """Two locks, two tasks, two orders."""
    here, there = asyncio.Lock(), asyncio.Lock()

    async def move(first: asyncio.Lock, second: asyncio.Lock, delay: int) -> None:
        await step(delay)
        async with first:
            await step()
            async with second:
                await step()

    back = (here, there) if fixed else (there, here)
    await asyncio.gather(move(here, there, 0), move(*back, 6))


@bug
async def given_back_twice(fixed: bool) -> None:
    """An impatient job gives its slot back early, and once more at its end: too many get in."""
    slots, inside, most = asyncio.Semaphore(1), [0], [0]

    async def job(delay: int, early: bool) -> None:
        await step(delay)
        await slots.acquire()
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        await step()
        inside[0] -= 1
        if early and not fixed:
            slots.release()
        await step()
        slots.release()

    await asyncio.gather(job(0, True), job(8, False), job(14, False))
    assert most[0] == 1


@bug
async def limit_overrun(fixed: bool) -> None:
    """A limiter written by hand looks at the number of jobs, waits, and counts later."""
    active, most = [0], [0]

    async def enter() -> None:
        while active[0] >= 1:
            await step()
        if fixed:
            active[0] += 1
            await step()
        else:
            await step()
            active[0] += 1

    async def job(delay: int) -> None:
        await step(delay)
        await enter()
        most[0] = max(most[0], active[0])
        await step()
        active[0] -= 1

    await asyncio.gather(*(job(3 * n) for n in range(3)))
    assert most[0] == 1


@bug
async def two_upgrades(fixed: bool) -> None:
    """Two readers want to write: each waits until the other has ceased to read."""
    readers, gate = [0], asyncio.Condition()

    async def update(delay: int) -> None:
        await step(delay)
        async with gate:
            readers[0] += 1
        await step()
        async with gate:
            if fixed:
                readers[0] -= 1  # not a reader while it waits
            await gate.wait_for(lambda: readers[0] == (0 if fixed else 1))
            if not fixed:
                readers[0] -= 1
            gate.notify_all()

    await asyncio.gather(update(0), update(7))


@bug
async def lock_thrown_away(fixed: bool) -> None:
    """A lock for each key, removed by whoever is done: those who wait have the old one."""
    locks, inside, most = dict[str, asyncio.Lock](), [0], [0]

    @contextlib.asynccontextmanager
    async def locked(key: str) -> AsyncIterator[None]:
        lock = locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
        if not fixed:
            locks.pop(key, None)

    async def job(delay: int) -> None:
        await step(delay)
        async with locked("x"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            await step(2)
            inside[0] -= 1

    await asyncio.gather(job(0), job(5), job(10))
    assert most[0] == 1


@bug
async def not_asked_again(fixed: bool) -> None:
    """Double-checked locking without the second check."""
    lock, loads, ready = asyncio.Lock(), [0], [False]

    async def load(delay: int) -> None:
        await step(delay)
        if not ready[0]:
            async with lock:
                await load_unless(fixed and ready[0])

    async def load_unless(needless: bool) -> None:
        if not needless:
            await step()
            loads[0] += 1
            ready[0] = True

    await asyncio.gather(load(0), load(4))
    assert loads[0] == 1


@bug
async def if_instead_of_while(fixed: bool) -> None:
    """A woken consumer does not look again: another one came first and took the item."""
    items, condition, got = list[int](), asyncio.Condition(), list[int]()

    async def consumer(delay: int) -> None:
        await step(delay)
        async with condition:
            if fixed:
                await condition.wait_for(lambda: items)
            elif not items:
                await condition.wait()
            got.append(items.pop())

    async def producer() -> None:
        for n in range(2):
            await step(3)
            async with condition:
                items.append(n)
                condition.notify()

    await asyncio.gather(consumer(0), producer(), consumer(9))
    assert len(got) == 2


@bug
async def writers_wait_for_ever(fixed: bool) -> None:
    """Readers let each other in past a writer that waits."""
    readers, writer_waits, passed = [0], [False], [0]
    changed = asyncio.Condition()

    async def read(delay: int) -> None:
        await step(delay)
        async with changed:
            if fixed:
                await changed.wait_for(lambda: not writer_waits[0])
            readers[0] += 1
            passed[0] += writer_waits[0]
        await step(2)
        async with changed:
            readers[0] -= 1
            changed.notify_all()

    async def write(delay: int) -> None:
        await step(delay)
        async with changed:
            writer_waits[0] = True
            await changed.wait_for(lambda: not readers[0])
            writer_waits[0] = False
            changed.notify_all()

    await asyncio.gather(read(0), read(4), write(16), read(24))
    assert passed[0] == 0
