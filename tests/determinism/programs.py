"""Small programs whose results depend on order, time and randomness: the material of this folder.

Each returns plain data that would differ if anything but the tape decided something: the order in
which tasks went on, the order of a set, a clock, a generated name. Here are those about tasks and
what keeps them apart; `values.py` has those about generators, clocks and randomness, `files.py`
those about the disk. `FREE` names the ones in which the order of steps shows in the result, so that
other seeds give other results.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

from tests.determinism import files, threaded, values  # noqa: F401  # they enter their programs
from tests.determinism.registry import FREE, PLANTED, PROGRAMS, Program, free, nap, pace, program

__all__ = ["FREE", "PLANTED", "PROGRAMS", "Program"]

# --- tasks and sets of them ------------------------------------------------------------------


@free
async def set_of_tasks() -> object:
    """A set of tasks is walked through while they run."""
    log: list[Any] = []
    tasks = {asyncio.create_task(pace(log, number)) for number in range(7)}
    while tasks:
        log.append([task.get_name() for task in tasks])
        await asyncio.sleep(0)
        tasks = {task for task in tasks if not task.done()}
    return log


@free
async def wait_first_completed() -> object:
    """`asyncio.wait` hands out sets, and their order decides what is done next."""
    log: list[Any] = []
    pending = {asyncio.create_task(nap(log, n, n % 4 / 1000)) for n in range(12)}
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        log.append([task.result() for task in done])
        log.append([task.get_name() for task in pending])
    return log


@free
async def task_group() -> object:
    """Children of a `TaskGroup`, some of them made by children."""
    log: list[Any] = []

    async def child(number: int) -> None:
        log.append(number)
        await asyncio.sleep(0)
        if number < 8:
            group.create_task(child(number * 2), name=f"child of {number}")
        log.append(-number)

    async with asyncio.TaskGroup() as group:
        for number in (1, 3, 5):
            group.create_task(child(number))
    return log


@free
async def exception_groups() -> object:
    """Several children fail; who is first decides who is cancelled."""
    log: list[Any] = []

    async def child(number: int) -> None:
        try:
            for _ in range(number % 3):
                await asyncio.sleep(0)
            raise ValueError(number)
        except asyncio.CancelledError:
            log.append(f"{number} cancelled")
            raise

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(child(number))
    except* ValueError as failed:
        log.append([error.args for error in failed.exceptions])
    return log


@free
async def dict_of_tasks() -> object:
    """Tasks as keys, ordered by hash where nothing else is at hand."""
    log: list[Any] = []
    names = {asyncio.create_task(pace(log, n, 2), name=f"t{n}"): n for n in range(6)}
    await asyncio.wait(names)
    by_hash = sorted(names, key=hash)
    return log, [names[task] for task in by_hash], [names[t] for t in frozenset(names)]


@program
async def all_tasks_by_set_order() -> object:
    """`asyncio.all_tasks()` is a set; many tasks came and went before."""
    log: list[Any] = []
    kept = []
    for round_number in range(30):
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(1 + round_number * 7 % 23)))
        kept.append(asyncio.create_task(asyncio.sleep(1000), name=f"kept {round_number}"))
        log.append([task.get_name() for task in asyncio.all_tasks()])
    return log


@free
async def tasks_made_by_hand() -> object:
    """`asyncio.Task(...)` goes past `loop.create_task`."""
    log: list[Any] = []
    tasks = {asyncio.Task(pace(log, number)) for number in range(5)}
    log.append(len(await asyncio.wait(tasks)))
    log.append([task.result() for task in tasks])
    return log


@free
async def eager_tasks() -> object:
    """Tasks that start at once (3.12 and later)."""
    log: list[Any] = []
    factory = getattr(asyncio, "eager_task_factory", None)
    asyncio.get_running_loop().set_task_factory(factory)

    async def child(number: int) -> int:
        task = asyncio.current_task()
        log.append((number, task.get_name() if task else None))
        if number % 2:
            await asyncio.sleep(0)
            log.append(number)
        return number

    return await asyncio.gather(*(child(n) for n in range(6))), log


@free
async def bare_futures() -> object:
    """Futures that were made directly, in a set."""
    loop = asyncio.get_running_loop()
    futures: set[asyncio.Future[int]] = {asyncio.Future() for _ in range(9)}
    for number, future in enumerate(futures):
        loop.call_later(number % 3 / 1000, future.set_result, number)
    log = []
    while futures:
        done, futures = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        log.append(([f.result() for f in done], len(futures)))
    return log


# --- cancellation and time limits ------------------------------------------------------------


@free
async def nested_timeouts() -> object:
    """Limits that lie close together: which one fires, and how often."""
    log: list[Any] = []

    async def worker(number: int) -> None:
        try:
            async with asyncio.timeout(0.010):
                try:
                    async with asyncio.timeout(0.0098 + number / 10_000):
                        await nap(log, number, 0.0099 + number / 20_000)
                except TimeoutError:
                    log.append(("inner", number))
                    await asyncio.sleep(0.0001)
        except TimeoutError:
            log.append(("outer", number))

    await asyncio.gather(*(worker(n) for n in range(6)))
    return log


@free
async def cancellations() -> object:
    """Tasks that cancel one another, by a call and by a timer."""
    log: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()

    async def worker(number: int) -> None:
        try:
            await pace(log, number, 2 + number)
            tasks[(number * 3 + 1) % len(tasks)].cancel(f"by {number}")
            await asyncio.sleep(0.001)
        except asyncio.CancelledError as error:
            log.append((number, error.args))
            raise

    tasks += [asyncio.create_task(worker(n)) for n in range(5)]
    handles = [loop.call_later(0.0005 * n, task.cancel) for n, task in enumerate(tasks)]
    loop.call_soon(handles[4].cancel)
    await asyncio.wait(tasks)
    return log, [task.cancelled() for task in tasks]


@free
async def shielded() -> object:
    """A shielded task goes on after its waiter is gone."""
    log: list[Any] = []

    async def waiter(inner: asyncio.Task[Any]) -> None:
        try:
            await asyncio.shield(inner)
        except asyncio.CancelledError:
            log.append("waiter gone")
        await asyncio.sleep(0)
        log.append("waiter done")

    inner = [asyncio.create_task(pace(log, n, 4)) for n in range(2)]
    waiters = [asyncio.create_task(waiter(task)) for task in inner]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.wait([*inner, *waiters])
    return log


@free
async def completed_in_turn() -> object:
    """`as_completed` gives results as they come."""
    log: list[Any] = []
    coroutines = [nap(log, n, (n * 7 % 5) / 1000) for n in range(8)]
    return [await earliest for earliest in asyncio.as_completed(coroutines)], log


@free
async def call_later_races() -> object:
    """Timers with equal and with close deadlines, some called off by others."""
    loop = asyncio.get_running_loop()
    log: list[Any] = []
    now = loop.time()
    handles = [loop.call_at(now + 0.01, log.append, n) for n in range(4)]
    handles += [loop.call_at(now + 0.01 + n / 1e5, log.append, 10 + n) for n in range(4)]
    loop.call_at(now + 0.01, handles[2].cancel)
    loop.call_later(0.0101, handles[7].cancel)
    loop.call_at(now - 5, log.append, "past")
    await asyncio.gather(nap(log, "a", 0.01), nap(log, "b", 0.01003), asyncio.sleep(0.02))
    return log


@free
async def anyio_groups() -> object:
    """anyio's task groups, cancel scopes and streams."""
    log: list[Any] = []

    async def worker(number: int) -> None:
        with anyio.move_on_after(0.002 * number) as scope:
            await anyio.sleep(0.005)
        log.append((number, scope.cancelled_caught))
        await outlet.send(number)

    async def cancelled_from_within() -> None:
        async with anyio.create_task_group() as inner:
            for number in range(3):
                inner.start_soon(anyio.sleep, 100 + number)
            await anyio.sleep(0)
            inner.cancel_scope.cancel()
        log.append("left")

    outlet, inlet = anyio.create_memory_object_stream[int](2)
    async with outlet, inlet, anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(worker, number)
        group.start_soon(cancelled_from_within)
        for _ in range(4):
            log.append(await inlet.receive())
    return log


# --- synchronisation -------------------------------------------------------------------------


@free
async def queues() -> object:
    """Producers and consumers around a small queue."""
    queue: asyncio.Queue[Any] = asyncio.Queue(2)
    log: list[Any] = []

    async def produce(name: str) -> None:
        for item in range(4):
            await queue.put((name, item))
        await queue.put(None)

    async def consume(name: str) -> None:
        while (item := await queue.get()) is not None:
            log.append((name, item))

    await asyncio.gather(*map(produce, "ab"), *map(consume, "xy"))
    return log


@free
async def priority_queue() -> object:
    """Items of equal priority leave in an order that depends on who came when."""
    queue: asyncio.PriorityQueue[tuple[int, int]] = asyncio.PriorityQueue()
    log: list[Any] = []

    async def produce(number: int) -> None:
        for item in range(3):
            await asyncio.sleep(0)
            queue.put_nowait((item % 2, number))

    async def consume() -> None:
        for _ in range(12):
            log.append(await queue.get())

    await asyncio.gather(consume(), *(produce(n) for n in range(4)))
    return log


@free
async def semaphore_and_lock() -> object:
    """Who gets in, and in which order."""
    semaphore, lock, log = asyncio.Semaphore(2), asyncio.Lock(), list[Any]()

    async def worker(number: int) -> None:
        async with semaphore:
            await asyncio.sleep(0)
            async with lock:
                log.append(number)
                await asyncio.sleep(0)
        log.append(-number)

    await asyncio.gather(*(worker(n) for n in range(1, 7)))
    return log


@free
async def conditions() -> object:
    """Who is woken by `notify`, and what has changed by then."""
    condition, log, stock = asyncio.Condition(), list[Any](), [0]

    async def buyer(number: int) -> None:
        async with condition:
            await condition.wait_for(lambda: stock[0] > 0)
            stock[0] -= 1
            log.append((number, stock[0]))

    async def seller() -> None:
        for amount in (1, 2, 2):
            await asyncio.sleep(0)
            async with condition:
                stock[0] += amount
                condition.notify(amount)

    await asyncio.gather(*(buyer(n) for n in range(5)), seller())
    return log


@free
async def event_storm() -> object:
    """Many events, each awaited by several and set by others."""
    events, log = [asyncio.Event() for _ in range(6)], list[Any]()

    async def waiter(number: int) -> None:
        for offset in range(3):
            await events[(number + offset) % 6].wait()
            log.append((number, offset))

    async def setter() -> None:
        for number in (3, 1, 4, 0, 5, 2):
            events[number].set()
            await asyncio.sleep(0)

    await asyncio.gather(*(waiter(n) for n in range(6)), setter())
    return log


@free
async def barrier() -> object:
    """The position at which each arrives."""
    gate, log = asyncio.Barrier(3), list[Any]()

    async def runner(number: int) -> None:
        await pace(log, number, number)
        log.append((number, await gate.wait()))

    await asyncio.gather(*(runner(n) for n in range(3)))
    return log


@free
async def stream_reader() -> object:
    """The pure parts of streams: a reader that is fed."""
    reader, log = asyncio.StreamReader(), list[Any]()

    async def feed() -> None:
        for piece in (b"one\ntw", b"o\n", b"three", b"\nfour\n"):
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    async def read() -> None:
        while line := await reader.readline():
            log.append(line)

    await asyncio.gather(feed(), read(), pace(log, "other", 4))
    return log
