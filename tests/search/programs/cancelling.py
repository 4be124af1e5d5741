"""Bugs that need a cancellation, or a time limit, at the wrong moment."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.search.programs.registry import bug, step


async def cancelled_after(pause: int, task: asyncio.Task[None]) -> None:
    """Somebody loses patience, after a while."""
    await step(pause)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


class Slots:
    """A semaphore written by hand: whoever releases wakes the next in line."""

    def __init__(self, *, gives_back: bool) -> None:
        self.free = 1
        self.gives_back = gives_back
        self.waiting = collections.deque[asyncio.Future[None]]()

    async def acquire(self) -> None:
        """Take the slot, or wait until it is handed over."""
        if self.free:
            self.free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and self.gives_back:
                self.release()
            raise

    def release(self) -> None:
        """Hand the slot over to the next who still waits."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


@bug
async def cancelled_when_woken(fixed: bool) -> None:
    """The slot was handed to a waiter that is cancelled before it resumes: nobody has it."""
    slots = Slots(gives_back=fixed)

    async def job(pause: int) -> None:
        await slots.acquire()
        await step(pause)
        slots.release()

    async def impatient() -> None:
        await slots.acquire()
        slots.release()

    first = asyncio.create_task(job(4))
    waiter = asyncio.create_task(impatient())
    await cancelled_after(9, waiter)
    await first
    await job(1)


@bug
async def leaked_from_the_pool(fixed: bool) -> None:
    """A connection is taken and checked before the `try` that gives it back."""
    pool = asyncio.Queue[str]()
    pool.put_nowait("connection")

    async def query() -> None:
        connection = await pool.get()
        try:
            if not fixed:
                pool.task_done()
            await step(2)
        finally:
            pool.put_nowait(connection)

    async def careless() -> None:
        connection = await pool.get()
        await step()  # is it alive?
        try:
            await step(2)
        finally:
            pool.put_nowait(connection)

    task = asyncio.create_task(query() if fixed else careless())
    await cancelled_after(9, task)
    await pool.get()


@bug
async def lock_kept_after_a_timeout(fixed: bool) -> None:
    """`release` stands at the end, not in a `finally`: if time is up before, the lock is kept."""
    lock = asyncio.Lock()

    async def careful() -> None:
        async with lock:
            await asyncio.sleep(0.0095)

    async def careless() -> None:
        await lock.acquire()
        await asyncio.sleep(0.0095)
        lock.release()

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(careful() if fixed else careless(), 0.010)
    await asyncio.wait_for(lock.acquire(), 5)


@bug
async def cancellation_swallowed(fixed: bool) -> None:
    """A retry loop catches everything, its own end included."""
    rounds, swallowed = [0], [False]

    async def poll() -> None:
        while rounds[0] < 8:
            rounds[0] += 1
            await step()  # until the next time
            try:
                await step()
            except asyncio.CancelledError:
                swallowed[0] = True
                if fixed:
                    raise

    task = asyncio.create_task(poll())
    await step(5)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or not swallowed[0]


@bug
async def paid_twice(fixed: bool) -> None:
    """A payment that was late is tried again, though it had gone through."""
    paid = set[str]() if fixed else list[str]()

    async def pay(key: str) -> None:
        await asyncio.sleep(0.0078)
        if isinstance(paid, set):
            paid.add("order")
        else:
            paid.append(key)
        await asyncio.sleep(0.0008)

    try:
        await asyncio.wait_for(pay("first"), 0.010)
    except TimeoutError:
        await pay("second")
    assert len(paid) == 1


@bug
async def generator_left_open(fixed: bool) -> None:
    """A cursor is an asynchronous generator; whoever breaks out of it leaves the lock to it."""
    lock, rows = asyncio.Lock(), list[int]()

    async def cursor() -> AsyncIterator[int]:
        async with lock:
            while rows:
                yield rows.pop(0)
                await step()

    async def reader() -> None:
        found = cursor()
        async with contextlib.AsyncExitStack() as stack:
            if fixed:
                await stack.enter_async_context(contextlib.aclosing(found))  # type: ignore[type-var]  # a generator is closed by it
            async for row in found:
                if row == 2:
                    kept.append(found)
                    break

    kept = list[AsyncIterator[int]]()

    async def writer() -> None:
        await step(3)
        rows.extend((1, 2))

    await asyncio.gather(reader(), writer())
    async with asyncio.timeout(1):
        await lock.acquire()


@bug
async def shielded_too_long(fixed: bool) -> None:
    """Work that is shielded goes on when its caller is cancelled, with a file that is closed."""
    state = {"open": True}

    async def write() -> None:
        await step(2)
        assert state["open"], "written to a closed file"

    async def save() -> None:
        work = asyncio.ensure_future(write())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if fixed:
                await work
            raise
        finally:
            state["open"] = False

    task = asyncio.create_task(save())
    await cancelled_after(9, task)
    await step(6)


@bug
async def failure_nobody_sees(fixed: bool) -> None:
    """A save that fails in the background; the request says that all is well."""
    saved, taken = list[str](), set[str]()

    async def save(name: str) -> None:
        await step()
        if name in taken:
            raise ValueError(name)
        taken.add(name)
        await step()
        saved.append(name)

    async def request(name: str, delay: int) -> None:
        await step(delay)
        work = asyncio.create_task(save(name))
        await asyncio.wait([work])
        if work.exception() is None or not fixed:
            answers.append(name)

    async def clean(delay: int) -> None:
        await step(delay)
        taken.clear()

    answers = list[str]()
    await asyncio.gather(request("ann", 0), clean(9), request("ann", 14))
    assert len(saved) == len(answers)


USER = contextvars.ContextVar("USER", default="nobody")


@bug
async def context_carried_on(fixed: bool) -> None:
    """A worker serves one request after the other, and does not reset who is logged in."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    seen = dict[str, str]()

    async def worker() -> None:
        for _ in range(2):
            request = await queue.get()
            token = USER.set("ann") if request == "private" else None
            seen[request] = USER.get()
            if fixed and token is not None:
                USER.reset(token)

    async def send(request: str, delay: int) -> None:
        await step(delay)
        queue.put_nowait(request)

    await asyncio.gather(worker(), send("public", 0), send("private", 4))
    assert seen["public"] == "nobody"


@bug
async def cleaned_up_halfway(fixed: bool) -> None:
    """Clean-up that awaits is cut short by a second cancellation."""
    closed, begun = list[str](), asyncio.Event()

    async def close() -> None:
        for name in ("cursor", "connection"):
            await step()
            closed.append(name)

    async def session() -> None:
        begun.set()
        try:
            await step(20)
        finally:
            await (until_done(close) if fixed else close())

    task = asyncio.create_task(session())
    await begun.wait()
    task.cancel()
    await step(6)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert closed == ["cursor", "connection"]


async def until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Shielded, and waited for."""
    task = asyncio.ensure_future(work())
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
