"""Correct programs of tasks: plain asyncio, one process, no faults but the order of execution."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import foretold
from tests.correct.program import program


@program()
async def ledger_with_a_lock(world: foretold.World, *, broken: bool) -> None:
    """Read, compute elsewhere, write. Broken: without the lock."""
    balance, lock = {"ada": 0}, asyncio.Lock()

    async def deposit(amount: int) -> None:
        async with contextlib.nullcontext() if broken else lock:
            before = balance["ada"]
            await asyncio.sleep(0.001)
            balance["ada"] = before + amount

    await asyncio.gather(*(deposit(n) for n in range(1, 6)))
    assert balance["ada"] == 15


@program()
async def bounded_queue(world: foretold.World, *, broken: bool) -> None:
    """Producers and consumers; `join` means that all was done. Broken: `task_done` comes early."""
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    done: list[int] = []

    async def produce(first: int) -> None:
        for item in range(first, first + 4):
            await queue.put(item)

    async def consume() -> None:
        while True:
            item = await queue.get()
            if broken:
                queue.task_done()
            await asyncio.sleep(0.001)
            done.append(item)
            if not broken:
                queue.task_done()

    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    await asyncio.gather(produce(0), produce(10))
    await queue.join()
    assert sorted(done) == [0, 1, 2, 3, 10, 11, 12, 13]
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)


@program()
async def rate_limiter(world: foretold.World, *, broken: bool) -> None:
    """At most two requests are under way. Broken: the number is looked at before a wait."""
    permits, under_way, most = asyncio.BoundedSemaphore(2), 0, 0

    async def permitted() -> None:
        if not broken:
            await permits.acquire()
            return
        while under_way >= 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)

    async def request() -> None:
        nonlocal under_way, most
        await permitted()
        under_way += 1
        most = max(most, under_way)
        try:
            await asyncio.sleep(0.005)
        finally:
            under_way -= 1
            if not broken:
                permits.release()

    await asyncio.gather(*(request() for _ in range(6)))
    assert under_way == 0
    assert most <= 2, f"{most} requests were under way"


@program()
async def buffer_with_a_condition(world: foretold.World, *, broken: bool) -> None:
    """Who is woken looks again. Broken: `if` instead of `while`."""
    items: deque[int] = deque()
    changed = asyncio.Condition()
    taken: list[int] = []

    async def take() -> None:
        async with changed:
            if broken:
                if not items:
                    await changed.wait()
            else:
                while not items:
                    await changed.wait()
            taken.append(items.popleft())

    async def give(item: int) -> None:
        async with changed:
            items.append(item)
            changed.notify_all()

    await asyncio.gather(*(take() for _ in range(4)), *(give(n) for n in range(4)))
    assert sorted(taken) == [0, 1, 2, 3]


class Broker:
    """Everybody gets all that was published, from the first on."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.queues: list[asyncio.Queue[int]] = []

    def publish(self, item: int) -> None:
        """Keep it, and tell all who are there."""
        self.log.append(item)
        for queue in self.queues:
            queue.put_nowait(item)

    async def subscribe(self, *, broken: bool) -> AsyncGenerator[int, None]:
        """What was published, then what will be. Nothing may come between the two."""
        queue: asyncio.Queue[int] = asyncio.Queue()
        missed = list(self.log)
        if broken:
            await asyncio.sleep(0)
        self.queues.append(queue)
        for item in missed:
            yield item
        while True:
            yield await queue.get()


@program()
async def fan_out(world: foretold.World, *, broken: bool) -> None:
    """Subscribers that come late miss nothing. Broken: a gap between reading and joining."""
    broker = Broker()

    async def subscriber() -> list[int]:
        seen: list[int] = []
        async with contextlib.aclosing(broker.subscribe(broken=broken)) as items:
            async for item in items:
                seen.append(item)
                if len(seen) == 5:
                    return seen
        raise AssertionError("a subscription does not end by itself")

    async def publisher() -> None:
        for item in range(5):
            broker.publish(item)
            await asyncio.sleep(0)

    *_, one, two, three = await asyncio.gather(
        publisher(), subscriber(), subscriber(), subscriber()
    )
    assert one == two == three == [0, 1, 2, 3, 4]


@program()
async def hedged_requests(world: foretold.World, *, broken: bool) -> None:
    """The first of two answers wins, the other request is cancelled, and no connection stays open.
    Broken: a cancelled request does not give its connection back."""
    opened: set[int] = set()

    async def request(number: int) -> int:
        await asyncio.sleep(0)
        opened.add(number)
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            if not broken:
                opened.discard(number)
            raise
        opened.discard(number)
        return number

    async def hedged() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(request(number)) for number in range(3)}
            done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in late:
                task.cancel()
        return done.pop().result()

    assert await hedged() in range(3)
    assert not opened


@program()
async def lock_with_a_time_limit(world: foretold.World, *, broken: bool) -> None:
    """Who does not get the lock in time goes without. Broken: it releases the lock all the same."""
    lock, inside, worked = asyncio.Lock(), 0, 0

    async def work() -> None:
        nonlocal inside, worked
        inside += 1
        assert inside == 1, "two are inside"
        await asyncio.sleep(0.004)
        inside -= 1
        worked += 1

    async def attempt() -> bool:
        try:
            async with asyncio.timeout(0.006):
                await lock.acquire()
        except TimeoutError:
            if broken and lock.locked():
                lock.release()
            return False
        try:
            await work()
        finally:
            lock.release()
        return True

    got = await asyncio.gather(*(attempt() for _ in range(4)))
    assert worked == sum(got) >= 1
    assert not lock.locked()


class SingleFlight:
    """A cache in which a key is loaded once, however many ask for it meanwhile."""

    def __init__(self, load: Callable[[str], Awaitable[str]], *, broken: bool) -> None:
        self.load, self.broken = load, broken
        self.values: dict[str, asyncio.Task[str] | str] = {}

    async def get(self, key: str) -> str:
        """From the cache, from a load that is under way, or from a new one."""
        if self.broken:
            if key not in self.values:
                self.values[key] = await self.load(key)
            return str(self.values[key])
        task = self.values.get(key)
        if task is None:
            task = self.values[key] = asyncio.ensure_future(self._loaded(key))
        assert isinstance(task, asyncio.Task)
        return await asyncio.shield(task)

    async def _loaded(self, key: str) -> str:
        try:
            return await self.load(key)
        except BaseException:
            del self.values[key]  # the next one tries again
            raise


@program()
async def single_flight(world: foretold.World, *, broken: bool) -> None:
    """One load for all, and one who gives up does not spoil it. Broken: look, load, store."""
    loads: list[str] = []

    async def load(key: str) -> str:
        loads.append(key)
        await asyncio.sleep(0.002)
        return key.upper()

    cache = SingleFlight(load, broken=broken)

    async def impatient() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cache.get("a"), 0.001)

    async def patient() -> None:
        assert await cache.get("a") == "A"

    await asyncio.gather(impatient(), patient(), patient(), patient())
    assert loads == ["a"]


class ReadWriteLock:
    """Many readers or one writer."""

    def __init__(self, *, broken: bool) -> None:
        self.readers, self.writing, self.broken = 0, False, broken
        self.changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Together with other readers."""
        async with self.changed:
            await self.changed.wait_for(lambda: not self.writing)
            self.readers += 1
        try:
            yield
        finally:
            async with self.changed:
                self.readers -= 1
                self.changed.notify_all()

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """Alone. Broken: it does not wait for those who read."""
        async with self.changed:
            await self.changed.wait_for(
                lambda: not self.writing and (self.broken or not self.readers)
            )
            self.writing = True
        try:
            yield
        finally:
            async with self.changed:
                self.writing = False
                self.changed.notify_all()


@program()
async def read_write_lock(world: foretold.World, *, broken: bool) -> None:
    """Readers see both halves of a write or neither. Broken: writers do not wait for readers."""
    lock, pair = ReadWriteLock(broken=broken), [0, 0]

    async def read() -> None:
        async with lock.reading():
            first = pair[0]
            await asyncio.sleep(0.001)
            assert pair[1] == first, "half a write was read"

    async def write() -> None:
        async with lock.write():
            pair[0] += 1
            await asyncio.sleep(0.001)
            pair[1] += 1

    await asyncio.gather(read(), write(), read(), write(), read())
    assert pair == [2, 2]


@program()
async def graceful_shutdown(world: foretold.World, *, broken: bool) -> None:
    """What was accepted is done before the workers go. Broken: they are cancelled at once."""
    jobs: asyncio.Queue[int | None] = asyncio.Queue()
    closed = False
    accepted: list[int] = []
    done: list[int] = []

    async def client(number: int) -> None:
        await asyncio.sleep(0.001 * number)
        if not closed:
            accepted.append(number)
            jobs.put_nowait(number)

    async def work() -> None:
        while (job := await jobs.get()) is not None:
            await asyncio.sleep(0.002)
            done.append(job)

    workers = [asyncio.create_task(work()) for _ in range(2)]
    clients = [asyncio.create_task(client(n)) for n in range(6)]
    await asyncio.sleep(0.003)
    closed = True
    for worker in workers:
        if broken:
            worker.cancel()
        else:
            jobs.put_nowait(None)
    await asyncio.gather(*workers, return_exceptions=broken)
    assert sorted(done) == sorted(accepted)
    await asyncio.gather(*clients)


class Pool:
    """At most `size` connections, made when they are needed, handed on when they are given back."""

    def __init__(self, size: int, connect: Callable[[], Awaitable[Any]], *, broken: bool) -> None:
        self.size, self.connect, self.broken = size, connect, broken
        self.open = 0
        self.idle: deque[Any] = deque()
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> Any:
        """An idle connection, a new one, or the next that is given back."""
        while not self.idle and self.open >= self.size:
            turn = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()  # its turn is another's
                raise
            finally:
                with contextlib.suppress(ValueError):
                    self.waiting.remove(turn)
        if self.idle:
            return self.idle.popleft()
        if self.broken:
            connection = await self.connect()
            self.open += 1
            return connection
        self.open += 1
        try:
            return await self.connect()
        except BaseException:
            self.open -= 1
            self._wake_one()
            raise

    def release(self, connection: Any) -> None:
        """Give it back."""
        self.idle.append(connection)
        self._wake_one()

    def _wake_one(self) -> None:
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


@program()
async def connection_pool(world: foretold.World, *, broken: bool) -> None:
    """Never more connections than allowed, although some users give up while they wait and some
    attempts fail. Broken: a connection is counted when it is made."""
    attempts = made = used = 0

    async def connect() -> int:
        nonlocal attempts, made
        attempts += 1
        mine = attempts
        await asyncio.sleep(0.001)
        if mine == 2:
            raise ConnectionRefusedError
        made += 1
        return mine

    pool = Pool(2, connect, broken=broken)

    async def use(patience_s: float) -> None:
        nonlocal used
        try:
            connection = await asyncio.wait_for(pool.acquire(), patience_s)
        except (TimeoutError, ConnectionRefusedError):
            return
        await asyncio.sleep(0.002)
        used += 1
        pool.release(connection)

    await asyncio.gather(*(use(patience_s) for patience_s in (9, 9, 9, 0.002, 9)))
    assert pool.open <= 2
    assert made <= 2, f"{made} connections were made"
    assert used >= 3
