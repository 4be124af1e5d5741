"""Bugs with queues: who is done too early, who waits for what has been taken."""

from __future__ import annotations

import asyncio

from tests.search.programs.registry import bug, step


@bug
async def gone_when_empty(fixed: bool) -> None:
    """Workers go home when the queue is empty; the producer was only slow."""
    queue: asyncio.Queue[int | None] = asyncio.Queue()
    done = list[int]()

    async def producer() -> None:
        for n in range(3):
            queue.put_nowait(n)
            await step()
        queue.put_nowait(None)

    async def worker() -> None:
        await step(2)
        while fixed or not queue.empty():
            item = await queue.get()
            if item is None:
                return
            await step(2)
            done.append(item)

    await asyncio.gather(producer(), worker())
    assert done == [0, 1, 2]


@bug
async def done_before_done(fixed: bool) -> None:
    """`task_done` is called when an item was taken, not when it was worked on."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    saved = list[int]()

    async def worker() -> None:
        while True:
            item = await queue.get()
            if not fixed:
                queue.task_done()
            await step()
            saved.append(item)
            if fixed:
                queue.task_done()

    task = asyncio.create_task(worker())
    for n in range(3):
        queue.put_nowait(n)
    await queue.join()
    await step(4)
    task.cancel()
    assert saved == [0, 1, 2]


@bug
async def after_the_end(fixed: bool) -> None:
    """The sign for the end is sent by the first producer that is done; the other has more."""
    queue: asyncio.Queue[int | None] = asyncio.Queue()
    got, running = list[int](), [2]

    async def producer(count: int, pause: int) -> None:
        for n in range(count):
            await step(pause)
            queue.put_nowait(n)
        running[0] -= 1
        last = not running[0] if fixed else count == 3  # "who has more to send is done last"
        if last:
            queue.put_nowait(None)

    async def consumer() -> None:
        while (item := await queue.get()) is not None:
            got.append(item)

    await asyncio.gather(producer(2, 1), producer(3, 2), consumer())
    assert len(got) == 5


@bug
async def taken_by_another(fixed: bool) -> None:
    """The queue was not empty when it was asked; then another took the item."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    queue.put_nowait(1)

    async def consumer(delay: int) -> None:
        await step(delay)
        if not queue.empty():
            if fixed:
                queue.get_nowait()
            else:
                await step()
                await queue.get()

    await asyncio.gather(consumer(0), consumer(4))


@bug
async def full_after_all(fixed: bool) -> None:
    """Room for one: asked, and filled by another before it is used."""
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def put(item: int, delay: int) -> None:
        await step(delay)
        if fixed:
            await queue.put(item)
        elif not queue.full():
            await step()
            queue.put_nowait(item)
        else:
            await queue.put(item)

    async def drain() -> None:
        await step(5)
        for _ in range(2):
            await queue.get()

    await asyncio.gather(put(1, 0), put(2, 3), drain())


@bug
async def in_order_of_arrival(fixed: bool) -> None:
    """Answers are kept as they come, and taken for those of the questions in turn."""
    answers = list[int]()

    async def ask(n: int) -> int:
        await step(1 + n)
        answers.append(n * n)
        return n * n

    results = await asyncio.gather(*(ask(n) for n in range(3)))
    assert (list(results) if fixed else answers) == [0, 1, 4]


@bug
async def not_waited_for(fixed: bool) -> None:
    """A shutdown that cancels the worker while it still has an item in hand."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    taken, saved = list[int](), list[int]()

    async def worker() -> None:
        while True:
            item = await queue.get()
            taken.append(item)
            await step(2)
            saved.append(item)
            queue.task_done()

    task = asyncio.create_task(worker())
    queue.put_nowait(1)
    await step(9)
    if fixed:
        await queue.join()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert saved == taken


@bug
async def left_of_the_batch(fixed: bool) -> None:
    """A batch is sent, then the buffer is cleared: what was added while it was sent is gone."""
    buffer, sent = list[int](), list[int]()

    async def flush() -> None:
        if fixed:
            batch = buffer[:]
            buffer.clear()
            await step()
            sent.extend(batch)
        else:
            await step()
            sent.extend(buffer[:1])
            await step()
            buffer.clear()

    async def add(n: int, delay: int) -> None:
        await step(delay)
        buffer.append(n)
        await flush()

    await asyncio.gather(add(1, 0), add(2, 7))
    assert sorted(sent) == [1, 2]
