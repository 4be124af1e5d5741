"""Twelve races within one tick of the loop: six that stock asyncio can have, six that it cannot.

Those of the first kind need two things from outside (timers, messages, threads) in one batch; the
tests replay each of them in stock order. Those of the second kind need a task to overtake another
that was ready before it, which a first-in first-out queue never does: by construction, nothing from
outside comes between the steps that race, or what comes can come in one order only.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import foretold
from foretold.world.world import World

# --- what the programs share -------------------------------------------------------------------


class HandedOver:
    """One token, handed to the first who waits. It is lost if that one is cancelled meanwhile."""

    def __init__(self) -> None:
        self.free = True
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        if self.free:
            self.free = False
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def give_back(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
        self.free = True


# --- stock asyncio can do these ----------------------------------------------------------------


async def token_and_cancellation() -> None:
    """The holder's sleep and the caller's patience end in one batch: the token is lost."""
    token = HandedOver()

    async def job(seconds: float) -> None:
        await token.take()
        try:
            await asyncio.sleep(seconds)
        finally:
            token.give_back()

    async def impatient(task: asyncio.Task[None]) -> None:
        await asyncio.sleep(0.0032)
        task.cancel()

    jobs = [asyncio.create_task(job(s)) for s in (0.003, 0.002, 0.002)]
    await impatient(jobs[1])
    _, stuck = await asyncio.wait(jobs, timeout=60)
    assert not stuck, "the token is lost"


async def result_and_time_limit() -> None:
    """The result is there when the time limit expires, and nobody puts the connection back."""
    pool = ["connection"]
    loop = asyncio.get_running_loop()

    def hand_over(found: asyncio.Future[str]) -> None:
        if not found.done():
            found.set_result(pool.pop())

    async def acquire() -> str:
        found = loop.create_future()
        loop.call_later(0.004, hand_over, found)
        return str(await found)

    async def use() -> None:
        connection = await acquire()
        pool.append(connection)

    task = asyncio.create_task(use())
    await asyncio.sleep(0.00405)
    task.cancel()
    await asyncio.wait([task])
    assert pool or not task.cancelled(), "the connection is lost"


async def answer_and_patience(world: World) -> None:
    """A message of another host and a timer in one batch: given up, and answered all the same."""
    world.network.latency(0.001, 0.004)

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(b"!")
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answers, "0.0.0.0", 80)
        await server.serve_forever()

    host = world.host("server")
    host.start(serve)
    await host.listening(80)
    reader, writer = await asyncio.open_connection(host.ip, 80)
    log: list[str] = []

    async def ask() -> None:
        await reader.readexactly(1)
        log.append("answered")

    writer.write(b"?")
    task = asyncio.create_task(ask())
    await asyncio.sleep(0.006)
    if not log:
        log.append("given up")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert log == ["given up"], "answered after it was given up, before anybody was told"
    task.cancel()
    writer.close()


async def thread_and_time_limit() -> None:
    """A thread has its result when the loop's timer fires: both report it."""
    reports: list[str] = []

    async def compute() -> None:
        await asyncio.to_thread(time.sleep, 0.01)
        reports.append("done")

    async def watch() -> None:
        await asyncio.sleep(0.0104)
        if not reports:
            await asyncio.sleep(0)
            reports.append("late")

    await asyncio.gather(compute(), watch())
    assert len(reports) == 1, f"reported twice: {reports}"


async def two_hosts_at_one_door(world: World) -> None:
    """Messages of two hosts: the order to close comes in one batch with the last order."""
    world.network.latency(0.001, 0.003)
    accepted: list[bytes] = []
    state = {"closing": False}

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        word = await reader.readexactly(5)
        if word == b"close":
            state["closing"] = True
        elif not state["closing"]:
            await asyncio.sleep(0)  # it is booked
            assert not state["closing"], "accepted when the door was closing"
            accepted.append(word)
        writer.close()

    async def send(word: bytes) -> None:
        _, writer = await asyncio.open_connection(world.home.ip, 80)
        writer.write(word)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(takes, "0.0.0.0", 80)
    sent = [world.host(n).start(lambda w=w: send(w)) for n, w in (("a", b"order"), ("b", b"close"))]
    await asyncio.gather(*sent)
    await asyncio.sleep(0.1)
    server.close()


async def notified_and_cancelled() -> None:
    """A consumer is stopped in the tick in which it is notified: the job is announced to nobody."""
    waiting: deque[asyncio.Future[None]] = deque()
    jobs: list[asyncio.Future[None]] = []

    async def consumer() -> None:
        while True:
            while not jobs:
                future = asyncio.get_running_loop().create_future()
                waiting.append(future)
                await future
            jobs.pop().set_result(None)

    async def submit() -> None:
        await asyncio.sleep(0.005)
        job = asyncio.get_running_loop().create_future()
        jobs.append(job)
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(None)
                break
        done, _ = await asyncio.wait([job], timeout=10)
        assert done, "announced to nobody"

    async def scale_down() -> None:
        await asyncio.sleep(0.0052)
        consumers[0].cancel()

    consumers = [asyncio.create_task(consumer()) for _ in range(2)]
    await asyncio.gather(submit(), scale_down())


# --- stock asyncio cannot do these -------------------------------------------------------------


async def lost_update() -> None:
    """Both make as many hops before they write; the second reads after the first has written."""
    balance = {"a": 0}

    async def add(late: int) -> None:
        for _ in range(late):
            await asyncio.sleep(0)
        read = balance["a"]
        await asyncio.sleep(0)
        balance["a"] = read + 1

    await asyncio.gather(add(0), add(3))
    assert balance["a"] == 2, "lost update"


async def locks_in_two_orders() -> None:
    """The one has both locks before the other asks for its first."""
    first, second = asyncio.Lock(), asyncio.Lock()

    async def take(one: asyncio.Lock, other: asyncio.Lock, late: int) -> None:
        for _ in range(late):
            await asyncio.sleep(0)
        async with one:
            await asyncio.sleep(0)
            async with other:
                pass

    await asyncio.gather(take(first, second, 0), take(second, first, 3))


async def woken_long_before_cancelled() -> None:
    """The waiter is woken three ticks before it is cancelled: it has gone on by then."""
    token = HandedOver()
    await token.take()

    async def job() -> None:
        await token.take()
        token.give_back()

    async def release() -> None:
        token.give_back()

    async def cancel() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()

    task = asyncio.create_task(job())
    await asyncio.sleep(0)
    await asyncio.gather(release(), cancel())
    await asyncio.wait([task])
    assert token.free, "the token is lost"


async def queue_with_a_time_limit() -> None:
    """A time limit of a minute guards a queue; who asked first is served first, by the queue."""
    queue: asyncio.Queue[int] = asyncio.Queue()
    served: list[str] = []

    async def consumer(name: str) -> None:
        await asyncio.wait_for(queue.get(), 60)
        served.append(name)

    consumers = [asyncio.create_task(consumer(name)) for name in "ab"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    queue.put_nowait(1)
    queue.put_nowait(2)
    await asyncio.gather(*consumers)
    assert served == ["a", "b"], f"served as {served}"


async def chosen_hops() -> None:
    """Whatever is chosen, the second comes two ticks after the first."""
    hops = foretold.between(0, 5)
    log: list[str] = []

    async def goes(name: str, hops: int) -> None:
        for _ in range(hops):
            await asyncio.sleep(0)
        log.append(name)

    await asyncio.gather(goes("first", hops), goes("second", hops + 2))
    assert log == ["first", "second"], f"{log} with {hops} hops"


async def timers_in_line() -> None:
    """Both sleep equally long, one after the other: no lateness lets the second wake first."""
    log: list[str] = []

    async def goes(name: str) -> None:
        await asyncio.sleep(0.01)
        log.append(name)

    await asyncio.gather(goes("first"), goes("second"), goes("third"))
    assert log == ["first", "second", "third"], f"{log}"


Program = Callable[..., Any]
POSSIBLE: tuple[Program, ...] = (
    token_and_cancellation,
    result_and_time_limit,
    answer_and_patience,
    thread_and_time_limit,
    two_hosts_at_one_door,
    notified_and_cancelled,
)
IMPOSSIBLE: tuple[Program, ...] = (
    lost_update,
    locks_in_two_orders,
    woken_long_before_cancelled,
    queue_with_a_time_limit,
    chosen_hops,
    timers_in_line,
)
