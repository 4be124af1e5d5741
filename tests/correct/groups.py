"""Correct programs of structured concurrency: task groups, cancel scopes, streams in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import anyio
import anyio.abc
import anyio.streams.memory

import foretold
from tests.correct.program import program


@program()
async def fan_out_with_time_limits(world: foretold.World, *, broken: bool) -> None:
    """Many downloads in one task group, two at a time, each with a time limit and a second try.
    Broken: who runs out of time does not give its slot back."""
    slots, under_way, most = asyncio.Semaphore(2), 0, 0
    results: dict[int, str] = {}

    @contextlib.asynccontextmanager
    async def slot() -> AsyncIterator[None]:
        await slots.acquire()
        try:
            yield
        except TimeoutError:
            if not broken:
                slots.release()
            raise
        slots.release()

    async def download(number: int, attempt: int) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(0.003 if (number + attempt) % 2 else 0.02)
        finally:
            under_way -= 1
        return f"page {number}"

    async def fetch(number: int) -> None:
        for attempt in range(2):
            with contextlib.suppress(TimeoutError):
                async with slot(), asyncio.timeout(0.01):
                    results[number] = await download(number, attempt)
                    return
        results[number] = "gave up"

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(fetch(number))
    assert sorted(results) == list(range(6))
    assert all(found in (f"page {number}", "gave up") for number, found in results.items())
    assert (most, under_way) == (2, 0)


@program()
async def one_fails_all_stop(world: foretold.World, *, broken: bool) -> None:
    """An error in one child cancels its siblings, and each of them writes down where it stopped,
    shielded from the cancellation. Broken: without the shield the note is cut off."""
    begun: set[int] = set()
    noted: set[int] = set()
    failed: list[str] = []

    async def note(number: int) -> None:
        await anyio.sleep(0.001)  # to a disk
        noted.add(number)

    async def worker(number: int) -> None:
        begun.add(number)
        try:
            await anyio.sleep(0.004 + number / 1000)
            if number == 1:
                raise ValueError("a bad record")
            await anyio.sleep(1)
        finally:
            with anyio.CancelScope(shield=not broken):
                await note(number)

    try:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(worker, number)
    except* ValueError as group_of_errors:
        failed += map(str, group_of_errors.exceptions)
    assert failed == ["a bad record"]
    assert noted == begun, "somebody stopped without a word"


@program()
async def stream_of_orders(world: foretold.World, *, broken: bool) -> None:
    """Producers and consumers share a stream, each with a clone of its own; the stream ends when
    the last producer is done. Nothing is lost, also if a consumer goes in the middle, because it
    puts back what it has taken. Broken: it does not."""
    send, receive = anyio.create_memory_object_stream[int](3)
    back: list[int] = []
    done: Counter[int] = Counter()

    async def produce(first: int, stream: anyio.abc.ObjectSendStream[int]) -> None:
        async with stream:
            for order in range(first, first + 5):
                await stream.send(order)
                await anyio.sleep(0.001)

    async def consume(stream: anyio.abc.ObjectReceiveStream[int]) -> None:
        async with stream:
            async for order in stream:
                try:
                    await anyio.sleep(0.002)
                except BaseException:
                    if not broken:
                        back.append(order)
                    raise
                done[order] += 1

    async def impatient(stream: anyio.abc.ObjectReceiveStream[int]) -> None:
        with anyio.move_on_after(0.005):
            await consume(stream)

    async with anyio.create_task_group() as group, send, receive:
        for first in (0, 10):
            group.start_soon(produce, first, send.clone())
        group.start_soon(impatient, receive.clone())
        for _ in range(2):
            group.start_soon(consume, receive.clone())
        send.close()
    done.update(back)
    assert done == Counter([*range(5), *range(10, 15)])
