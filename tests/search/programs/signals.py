"""Bugs with events, conditions and futures: a signal that nobody hears, or that is heard twice."""

from __future__ import annotations

import asyncio

from tests.search.programs.registry import bug, step


@bug
async def lost_wake_up(fixed: bool) -> None:
    """The sleeper looks, finds nothing, and goes to sleep; the signal came between."""
    ready, bell = [False], asyncio.Event()

    async def sleeper() -> None:
        if not ready[0]:
            await step()
            await bell.wait()

    async def caller() -> None:
        await step(5)
        ready[0] = True
        bell.set()
        if not fixed:
            await step()
            bell.clear()  # rung for those who hear it now

    await asyncio.gather(sleeper(), caller())


@bug
async def notified_before_waiting(fixed: bool) -> None:
    """`notify` reaches those who wait already; who comes later waits for the next one."""
    condition, done = asyncio.Condition(), [False]

    async def waiter() -> None:
        await step()
        async with condition:
            if fixed:
                await condition.wait_for(lambda: done[0])
            else:
                await condition.wait()

    async def notifier() -> None:
        await step(6)
        async with condition:
            done[0] = True
            condition.notify_all()

    await asyncio.gather(waiter(), notifier())


@bug
async def cleared_too_late(fixed: bool) -> None:
    """The worker takes what there is, then clears the event: what came meanwhile is forgotten."""
    work, bell, done = list[int](), asyncio.Event(), list[int]()

    async def worker() -> None:
        while len(done) < 2:
            await bell.wait()
            if fixed:
                bell.clear()
            batch = work[:]
            work.clear()
            await step()
            done.extend(batch)
            if not fixed:
                bell.clear()

    async def sender() -> None:
        for n in range(2):
            await step(6 * n)
            work.append(n)
            bell.set()

    await asyncio.gather(worker(), sender())


@bug
async def barrier_used_again(fixed: bool) -> None:
    """A barrier that counts to two and starts over: a fast one comes round before a slow one has
    seen it open."""
    count, rounds, moved = [0], [0], asyncio.Condition()

    async def meet() -> None:
        async with moved:
            mine = rounds[0]
            count[0] += 1
            if count[0] == 2:
                count[0] = 0
                rounds[0] += 1
                moved.notify_all()
            elif fixed:
                await moved.wait_for(lambda: rounds[0] != mine)
            else:
                await moved.wait_for(lambda: count[0] == 0)

    async def runner(pause: int) -> None:
        for _ in range(2):
            await step(pause)
            await meet()

    await asyncio.gather(runner(3), runner(4))


@bug
async def wrong_one_is_woken(fixed: bool) -> None:
    """Producers and consumers wait at one condition, and one of them is woken: any."""
    full, moved = [False], asyncio.Condition()

    async def put(delay: int) -> None:
        await step(delay)
        async with moved:
            await moved.wait_for(lambda: not full[0])
            full[0] = True
            wake()

    async def take(delay: int) -> None:
        await step(delay)
        async with moved:
            await moved.wait_for(lambda: full[0])
            full[0] = False
            wake()

    def wake() -> None:
        if fixed:
            moved.notify_all()
        else:
            moved.notify()

    await asyncio.gather(put(0), take(3), put(8), take(11), put(14))


@bug
async def answered_twice(fixed: bool) -> None:
    """Two replicas are asked; both look whether there is an answer, and both give theirs."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def replica(name: str, delay: int) -> None:
        await step(delay)
        if not answer.done():
            await step()
            if not fixed or not answer.done():
                answer.set_result(name)

    await asyncio.gather(replica("one", 0), replica("two", 4))
    assert await answer in ("one", "two")


@bug
async def ordered_by_waiting(fixed: bool) -> None:
    """The server is given a moment to start, and mostly that is enough."""
    started = asyncio.Event()

    async def server() -> None:
        await step(2)
        started.set()

    async def client() -> None:
        if fixed:
            await started.wait()
        else:
            await step(6)
        assert started.is_set()

    await asyncio.gather(server(), client())


@bug
async def ordered_by_sleeping(fixed: bool) -> None:
    """The same with real time: 5 ms are enough for what takes 4, unless the loop is late."""
    results = list[int]()

    async def work() -> None:
        await asyncio.sleep(0.004)
        await asyncio.sleep(0)
        results.append(1)

    task = asyncio.create_task(work())
    busy = asyncio.create_task(step(30))
    await asyncio.sleep(0.005)
    if fixed:
        await task
    assert results == [1]
    await asyncio.gather(task, busy)
