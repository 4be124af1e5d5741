"""Small deterministic programs, each about one part of asyncio, that note what they do.

No real time, no real I/O, no equal deadlines: on any loop that keeps asyncio's rules they note the
same things in the same order.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import types
from collections.abc import Callable, Coroutine
from typing import Any

Note = Callable[[object], None]
Program = Callable[[Note], Coroutine[Any, Any, None]]


async def zero_sleeps(note: Note) -> None:
    """Three tasks give way to each other."""

    async def worker(name: str, times: int) -> None:
        for number in range(times):
            note((name, number))
            await asyncio.sleep(0)

    await asyncio.gather(worker("a", 3), worker("b", 1), worker("c", 4))


async def chains_of_callbacks(note: Note) -> None:
    """Callbacks that queue callbacks: what is queued in an iteration runs in the next."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def step(name: str, left: int) -> None:
        note((name, left))
        if left:
            loop.call_soon(step, name, left - 1)
            if left == 2:
                loop.call_soon(step, name + "'", 1)
        elif name == "a":
            loop.call_soon(done.set)

    for name in ("a", "b"):
        loop.call_soon(step, name, 3)
    await done.wait()


async def callbacks_among_tasks(note: Note) -> None:
    """Plain callbacks, tasks and cancelled handles in one queue."""
    loop = asyncio.get_running_loop()

    async def worker(name: str) -> str:
        note(name)
        loop.call_soon(note, f"{name} said")
        await asyncio.sleep(0)
        note(f"{name} again")
        return name

    loop.call_soon(note, "first")
    tasks = [asyncio.create_task(worker(name)) for name in "xyz"]
    cancelled = loop.call_soon(note, "never")
    loop.call_soon(note, "last")
    cancelled.cancel()
    for task in tasks:
        task.add_done_callback(lambda task: note(f"{task.result()} done"))
    await asyncio.wait(tasks)


async def many_wait_for_one_future(note: Note) -> None:
    """Waiters and callbacks of a future are told in the order in which they came."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def waiter(name: int) -> None:
        note((name, await future))

    tasks = [asyncio.create_task(waiter(name)) for name in range(3)]
    await asyncio.sleep(0)
    future.add_done_callback(lambda _: note("callback"))
    tasks.append(asyncio.create_task(waiter(3)))
    future.set_result(7)
    note("set")
    await asyncio.gather(*tasks)


async def locks(note: Note) -> None:
    """A lock goes to whoever waited first; a waiter that is cancelled is passed over."""
    lock = asyncio.Lock()

    async def worker(name: int) -> None:
        async with lock:
            note(("in", name))
            await asyncio.sleep(0)
            note(("out", name))

    tasks = [asyncio.create_task(worker(name)) for name in range(4)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    note(await asyncio.gather(*tasks, return_exceptions=True) != [])


async def semaphores(note: Note) -> None:
    """Two at a time."""
    semaphore = asyncio.BoundedSemaphore(2)

    async def worker(name: int) -> None:
        async with semaphore:
            note(("in", name))
            for _ in range(name % 3):
                await asyncio.sleep(0)
            note(("out", name))

    await asyncio.gather(*(worker(name) for name in range(6)))


async def events(note: Note) -> None:
    """An event wakes all who wait, and none who come while it is cleared."""
    event = asyncio.Event()

    async def waiter(name: int) -> None:
        await event.wait()
        note(name)

    tasks = [asyncio.create_task(waiter(name)) for name in range(3)]
    await asyncio.sleep(0)
    event.set()
    event.clear()
    tasks.append(asyncio.create_task(waiter(3)))
    await asyncio.sleep(0)
    note("once more")
    event.set()
    await asyncio.gather(*tasks)


async def conditions(note: Note) -> None:
    """`notify(n)` wakes n of those who wait, one after the other behind the lock."""
    condition = asyncio.Condition()

    async def waiter(name: int) -> None:
        async with condition:
            await condition.wait()
            note(name)

    tasks = [asyncio.create_task(waiter(name)) for name in range(5)]
    await asyncio.sleep(0)
    for count in (2, 1, 2):
        async with condition:
            note(("notify", count))
            condition.notify(count)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)


async def barriers(note: Note) -> None:
    """Parties pass together, twice."""
    barrier = asyncio.Barrier(3)

    async def party(name: int) -> None:
        for turn in range(2):
            for _ in range(name):
                await asyncio.sleep(0)
            note(("at", name, turn))
            note(("past", name, turn, await barrier.wait()))

    await asyncio.gather(*(party(name) for name in range(3)))


async def queues(note: Note) -> None:
    """Producers and consumers at a queue that is too small."""
    queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=2)

    async def producer(name: str) -> None:
        for number in range(4):
            await queue.put((name, number))
            note(("put", name, number))

    async def consumer(name: str) -> None:
        while True:
            note((name, await queue.get()))
            await asyncio.sleep(0)
            queue.task_done()

    consumers = [asyncio.create_task(consumer(name)) for name in "cd"]
    await asyncio.gather(producer("a"), producer("b"))
    await queue.join()
    note("joined")
    for task in consumers:
        task.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)


async def task_groups(note: Note) -> None:
    """Groups in groups, and tasks that start tasks of the same group."""

    async def worker(name: str, group: asyncio.TaskGroup | None = None) -> None:
        note(name)
        if group is not None:
            group.create_task(worker(name + "'"))
        await asyncio.sleep(0)
        note(name + " ends")

    async with asyncio.TaskGroup() as outer:
        outer.create_task(worker("a", outer))
        async with asyncio.TaskGroup() as inner:
            inner.create_task(worker("b"))
            outer.create_task(worker("c", inner))
        note("inner is over")
    note("outer is over")


async def failing_task_groups(note: Note) -> None:
    """The first failure cancels the others, which may fail too."""

    async def worker(name: str, error: type[Exception] | None, steps: int) -> None:
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            if error is not None:
                raise error(name)
            await asyncio.Event().wait()
        finally:
            note(f"{name} ends")
            await asyncio.sleep(0)
            note(f"{name} ended")

    try:
        async with asyncio.TaskGroup() as group:
            for name, error, steps in (("a", None, 0), ("b", KeyError, 2), ("c", ValueError, 2)):
                group.create_task(worker(name, error, steps))
    except* (KeyError, ValueError) as errors:
        note([repr(error) for error in errors.exceptions])


async def gathers(note: Note) -> None:
    """Results in order, the first exception, and a gather that is cancelled as a whole."""

    async def worker(name: int, fails: bool = False) -> int:
        for _ in range(3 - name):
            await asyncio.sleep(0)
        note(name)
        if fails:
            raise ValueError(name)
        return name

    note(await asyncio.gather(*(worker(name) for name in range(3))))
    try:
        await asyncio.gather(worker(0, fails=True), worker(1), worker(2, fails=True))
    except ValueError as error:
        note(repr(error))
    both = await asyncio.gather(worker(1, fails=True), worker(0), return_exceptions=True)
    note([repr(result) for result in both])
    whole = asyncio.gather(worker(0), worker(1))
    await asyncio.sleep(0)
    whole.cancel()
    note(repr(await asyncio.gather(whole, return_exceptions=True)))


async def waits(note: Note) -> None:
    """`asyncio.wait` until the first ends, until the first fails, until a deadline."""

    async def worker(delay_s: float, fails: bool = False) -> None:
        await asyncio.sleep(delay_s)
        note(delay_s)
        if fails:
            raise ValueError(delay_s)

    tasks = [
        asyncio.create_task(worker(0.3), name="slow"),
        asyncio.create_task(worker(0.1), name="fast"),
        asyncio.create_task(worker(0.2, fails=True), name="bad"),
        asyncio.create_task(worker(0.7), name="last"),
    ]
    pending: set[asyncio.Task[None]] = set(tasks)
    for until in (asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION):
        done, pending = await asyncio.wait(pending, return_when=until)
        note(sorted(task.get_name() for task in done))
    done, pending = await asyncio.wait(pending, timeout=0.25)
    note(sorted(task.get_name() for task in done))
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_order_of_completion(note: Note) -> None:
    """`as_completed`, with and without a time limit."""

    async def worker(delay_s: float) -> float:
        await asyncio.sleep(delay_s)
        note(("woke", delay_s))
        return delay_s

    for earliest in asyncio.as_completed([worker(delay_s) for delay_s in (0.3, 0.1, 0.2)]):
        note(await earliest)
    tasks = [asyncio.create_task(worker(delay_s)) for delay_s in (0.5, 0.4)]
    try:
        for earliest in asyncio.as_completed(tasks, timeout=0.45):
            note(await earliest)
    except TimeoutError:
        note("too late")
    await asyncio.gather(*tasks)


async def time_limits(note: Note) -> None:
    """`timeout` in `timeout`, the inner or the outer expiring, and one moved while it runs."""
    for inner_s, outer_s in ((0.1, 0.2), (0.25, 0.15)):
        try:
            async with asyncio.timeout(outer_s):
                try:
                    async with asyncio.timeout(inner_s):
                        await asyncio.sleep(1)
                except TimeoutError:
                    note("inner")
                await asyncio.sleep(1)
        except TimeoutError:
            note("outer")
    async with asyncio.timeout(0.1) as limit:
        deadline = limit.when()
        assert deadline is not None
        limit.reschedule(deadline + 0.2)
        await asyncio.sleep(0.15)
        note(("in time", limit.expired()))
    async with asyncio.timeout(None), asyncio.timeout(float("inf")):
        note("no limit")


async def waiting_for(note: Note) -> None:
    """`wait_for` in time, out of time, and for one that will not be cancelled."""

    async def stubborn() -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            note("not yet")
            await asyncio.sleep(0.05)
        return "at last"

    note(await asyncio.wait_for(asyncio.sleep(0.1, "slept"), 0.2))
    for awaitable in (asyncio.sleep(1), stubborn()):
        try:
            note(await asyncio.wait_for(awaitable, 0.1))
        except TimeoutError:
            note("too late")


async def shields(note: Note) -> None:
    """A shielded task goes on when whoever waits for it is cancelled."""

    async def inner() -> None:
        await asyncio.sleep(0.1)
        note("inner ends")

    async def outer(task: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            note("outer was cancelled")
            raise

    task = asyncio.create_task(inner())
    waiter = asyncio.create_task(outer(task))
    await asyncio.sleep(0.05)
    waiter.cancel()
    await asyncio.wait([task, waiter])
    note((task.cancelled(), waiter.cancelled()))


async def cancellations(note: Note) -> None:
    """Before the first step, while waiting, swallowed, by a callback, and by a timer."""
    loop = asyncio.get_running_loop()

    async def worker(name: str, swallows: bool = False) -> None:
        note(f"{name} starts")
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            note(f"{name} is cancelled")
            if not swallows:
                raise
            await asyncio.sleep(0)
        note(f"{name} goes on")

    early = asyncio.create_task(worker("early"))
    early.cancel()
    tasks = {name: asyncio.create_task(worker(name)) for name in ("a", "b", "c")}
    tasks["d"] = asyncio.create_task(worker("d", swallows=True))
    await asyncio.sleep(0)
    tasks["a"].cancel()
    loop.call_soon(tasks["b"].cancel)
    loop.call_later(0.1, tasks["c"].cancel)
    loop.call_later(0.2, tasks["d"].cancel)
    note("all told")
    await asyncio.wait([early, *tasks.values()])
    note([task.cancelled() for task in (early, *tasks.values())])


async def asynchronous_generators(note: Note) -> None:
    """Iterated to the end, closed early, and thrown into."""

    async def numbers(name: str) -> Any:
        try:
            for number in range(3):
                await asyncio.sleep(0)
                yield (name, number)
        finally:
            await asyncio.sleep(0)
            note(f"{name} ends")

    async def reader(name: str, items_max: int) -> None:
        generator = numbers(name)
        async for item in generator:
            note(item)
            if item[1] + 1 == items_max:
                break
        await generator.aclose()
        note(f"{name} is closed")

    await asyncio.gather(reader("whole", 5), reader("half", 2))


async def forgotten_generators(note: Note) -> None:
    """A generator whose last owner ends is closed then, before the loop waits for anything."""

    async def numbers() -> Any:
        try:
            yield 1
            yield 2
        finally:
            note("forgotten generator ends")
            await asyncio.sleep(0)
            note("forgotten generator ended")

    async def forgetful() -> Any:
        generator = numbers()
        note(await anext(generator))
        return generator  # the task holds it as its result, until it is itself forgotten

    asyncio.create_task(forgetful())  # noqa: RUF006 - it is forgotten on purpose
    asyncio.get_running_loop().call_later(0.5, note, "half a second later")
    await asyncio.sleep(1)
    note("slept")


async def forgotten_failures(note: Note) -> None:
    """A failure that nobody asked for is reported when the task is gone: before the loop waits."""
    loop = asyncio.get_running_loop()
    former = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: note(repr(context["exception"])))

    async def failing(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise ValueError(steps)

    for steps in (2, 0, 1):
        asyncio.create_task(failing(steps))  # noqa: RUF006 - it is forgotten on purpose
        loop.call_soon(note, "a callback between")
    loop.call_later(0.5, note, "half a second later")
    await asyncio.sleep(1)
    note("slept")
    loop.set_exception_handler(former)


async def contexts(note: Note) -> None:
    """A task takes a copy of its maker's context, a callback too; an explicit one is shared."""
    name = contextvars.ContextVar("name", default="none")
    loop = asyncio.get_running_loop()

    async def worker(new: str) -> None:
        note((name.get(), new))
        name.set(new)
        loop.call_soon(lambda: note(("callback", name.get())))
        await asyncio.sleep(0)
        note((name.get(), new))

    name.set("main")
    shared = contextvars.copy_context()
    tasks = [asyncio.create_task(worker("a")), asyncio.create_task(worker("b"), context=shared)]
    tasks.append(loop.create_task(worker("c"), context=shared))
    loop.call_later(0.1, lambda: note(("later", name.get())), context=shared)
    name.set("changed")
    await asyncio.gather(*tasks)
    await asyncio.sleep(0.2)
    note((name.get(), shared[name]))


async def tasks_of_tasks(note: Note) -> None:
    """Three generations, each awaiting the next or not."""

    async def generation(depth: int, name: str) -> None:
        note(name)
        if depth:
            children = [asyncio.create_task(generation(depth - 1, f"{name}{i}")) for i in range(2)]
            await children[1]
            note(f"{name} saw its second")
            await children[0]
        note(f"{name} ends")

    await generation(3, "r")


async def failing_callbacks(note: Note) -> None:
    """What raises in a callback goes to the handler at once; the others still run."""
    loop = asyncio.get_running_loop()
    former = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: note(repr(context["exception"])))

    def fail(name: str) -> None:
        note(name)
        raise ValueError(name)

    future = loop.create_future()
    future.add_done_callback(lambda _: fail("of a future"))
    future.add_done_callback(lambda _: note("the next of it"))
    loop.call_soon(fail, "first")
    loop.call_later(0.1, fail, "late")
    future.set_result(None)
    await asyncio.sleep(0)
    note("between")
    await asyncio.sleep(0.2)
    loop.set_exception_handler(former)


async def timers(note: Note) -> None:
    """Set in any order, by delay or by instant, some cancelled, one by another; one set late."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    for delay_s in (0.5, 0.1, 0.4):
        loop.call_later(delay_s, note, delay_s)
    cancelled = loop.call_at(start + 0.45, note, "never")
    loop.call_at(start + 0.2, cancelled.cancel)
    loop.call_at(start + 0.3, lambda: loop.call_later(0.05, note, "set late"))
    loop.call_later(-1, note, "overdue")
    loop.call_soon(note, "soon")
    note((cancelled.cancelled(), round(cancelled.when() - start, 3)))
    await asyncio.sleep(0.6)
    note(cancelled.cancelled())


async def timers_against_ready_callbacks(note: Note) -> None:
    """A timer that is due waits for the iteration to end, and queues behind what is ready."""
    loop = asyncio.get_running_loop()

    def busy(left: int) -> None:
        note(left)
        if left == 3:
            loop.call_later(0, note, "due at once")
        if left:
            loop.call_soon(busy, left - 1)
            loop.call_soon(note, f"beside {left}")

    busy(4)
    await asyncio.sleep(0.1)


async def streams(note: Note) -> None:
    """The pure parts of streams: a reader that is fed, and who waits for what."""
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in (b"one\ntw", b"o\n", b"three"):
            note(("feed", piece))
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    feeder = asyncio.create_task(feed())
    while line := await reader.readline():
        note(line)
    await feeder


async def eager_tasks(note: Note) -> None:
    """Eager tasks (3.12 and later) take their first step at once."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)

    async def worker(name: str, waits: bool) -> str:
        note(f"{name} starts")
        if waits:
            await asyncio.sleep(0)
        note(f"{name} ends")
        return name

    try:
        tasks = [asyncio.create_task(worker(name, name != "b")) for name in "abc"]
        note([task.done() for task in tasks])
        note(await asyncio.gather(*tasks))
    finally:
        loop.set_task_factory(None)


PROGRAMS: list[Program] = [
    value for value in list(globals().values()) if isinstance(value, types.FunctionType)
]
