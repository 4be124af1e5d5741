"""Threads of the standard library: executors, queues, primitives, loops called from threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import logging
import logging.handlers
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foretold
from tests.compat.scene import check, for_each, scenario

WORKERS = 3
LINES = 8


def in_threads(work: Callable[[int], Any], number: int = WORKERS) -> None:
    """So many threads, each with its number, to their end."""
    threads = [threading.Thread(target=work, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- executors -------------------------------------------------------------------------------


def slow_square(number: int) -> int:
    """Takes longer for some than for others."""
    time.sleep(number % 3 / 10)
    return number * number


@scenario
def executors(world: foretold.World) -> None:
    """submit, map, as_completed and wait; what is cancelled before its turn never runs."""
    started = threading.Barrier(2)

    def hold() -> str:
        started.wait()
        time.sleep(1)
        return "held"

    with concurrent.futures.ThreadPoolExecutor(WORKERS, thread_name_prefix="w") as pool:
        assert list(pool.map(slow_square, range(7), timeout=60)) == [n * n for n in range(7)]
        futures = {pool.submit(slow_square, n): n for n in range(7)}
        for future in concurrent.futures.as_completed(futures):
            assert future.result() == futures[future] ** 2
        pair = [pool.submit(time.sleep, seconds) for seconds in (1, 9)]
        done, left = concurrent.futures.wait(pair, return_when="FIRST_COMPLETED")
        assert (done, left) == ({pair[0]}, {pair[1]})
        done, left = concurrent.futures.wait(pair, timeout=3)
        assert (done, left) == ({pair[0]}, {pair[1]})
    with concurrent.futures.ThreadPoolExecutor(1) as single:
        first, second = single.submit(hold), single.submit(hold)
        started.wait()
        assert second.cancel()
        assert not first.cancel()
        assert first.result(5) == "held"


@scenario
def stages(world: foretold.World) -> Any:
    """Three stages with bounded queues between them; every item passes each of them once."""
    first: queue.Queue[int | None] = queue.Queue(2)
    second: queue.Queue[int | None] = queue.Queue(2)
    found: queue.PriorityQueue[int] = queue.PriorityQueue()

    def square() -> None:
        while (number := first.get()) is not None:
            second.put(slow_square(number))
            first.task_done()
        second.put(None)

    def keep() -> None:
        ended = 0
        while ended < WORKERS:
            number = second.get(timeout=60)
            if number is None:
                ended += 1
            else:
                found.put(number)

    with concurrent.futures.ThreadPoolExecutor(WORKERS + 1) as pool:
        keeper = pool.submit(keep)
        squarers = [pool.submit(square) for _ in range(WORKERS)]
        for number in range(12):
            first.put(number)
        first.join()
        for _ in squarers:
            first.put(None)
        keeper.result()
    assert [found.get_nowait() for _ in range(12)] == [n * n for n in range(12)]


# --- primitives ------------------------------------------------------------------------------


@scenario
def primitives(world: foretold.World) -> None:
    """Barrier, semaphore, condition, event, timer and thread-local data keep their promises."""
    rounds, inside, most = [0] * WORKERS, 0, 0
    meet, gate = threading.Barrier(WORKERS), threading.BoundedSemaphore(2)
    lock, local = threading.Lock(), threading.local()

    def work(number: int) -> None:
        nonlocal inside, most
        local.number = number
        for turn in range(3):
            rounds[number] = turn
            meet.wait()
            assert set(rounds) == {turn}  # nobody is ahead, nobody behind
            meet.wait()
            with gate:
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.1)
                with lock:
                    inside -= 1
        assert local.number == number

    in_threads(work)
    assert most == 2
    assert not hasattr(local, "number")


@scenario
def timers(world: foretold.World) -> None:
    """Timers fire in their order, hours away; one that is cancelled never does."""
    fired: list[str] = []
    last = threading.Event()
    waiting = {
        name: threading.Timer(hours * 3600, fired.append, [name])
        for name, hours in (("late", 3), ("never", 2), ("early", 1))
    }
    waiting["last"] = threading.Timer(4 * 3600, last.set)
    began = time.monotonic()  # before: a thread may be held up after it has started the others
    for timer in waiting.values():
        timer.start()
    waiting["never"].cancel()
    assert last.wait(5 * 3600)
    assert fired == ["early", "late"]
    assert 4 * 3600 <= time.monotonic() - began < 4 * 3600 + 60


@scenario
def broken_barrier(world: foretold.World) -> None:
    """Whoever waits at a barrier that somebody gave up is told so."""
    meet, told = threading.Barrier(WORKERS + 1), []

    def work(number: int) -> None:
        try:
            meet.wait(timeout=5 if number == 0 else None)
        except threading.BrokenBarrierError:
            told.append(number)

    in_threads(work)
    assert sorted(told) == list(range(WORKERS))


# --- loops and threads -----------------------------------------------------------------------


@scenario
async def there_and_back(world: foretold.World) -> None:
    """to_thread with its context, run_coroutine_threadsafe and call_soon_threadsafe."""
    loop, who = asyncio.get_running_loop(), contextvars.ContextVar("who", default="nobody")
    told, seen = asyncio.Event(), list[str]()

    async def add(number: int) -> int:
        await asyncio.sleep(0.1)
        return number + 1

    def work(number: int) -> int:
        seen.append(who.get())
        return asyncio.run_coroutine_threadsafe(add(number), loop).result(5)

    who.set("me")
    assert await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(4))) == [1, 2, 3, 4]
    assert seen == ["me"] * 4
    threading.Timer(60, loop.call_soon_threadsafe, [told.set]).start()
    await asyncio.wait_for(told.wait(), 61)


@scenario
async def a_loop_in_a_thread(world: foretold.World) -> None:
    """The usual bridge: a loop for ever in a daemon thread, and plain code that hands it work."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def work(number: int) -> int:
        await asyncio.sleep(number)
        return number

    def plain() -> list[int]:
        futures = [asyncio.run_coroutine_threadsafe(work(n), loop) for n in (3, 1, 2)]
        return [future.result() for future in concurrent.futures.as_completed(futures)]

    assert await asyncio.to_thread(plain) == [1, 2, 3]
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(thread.join)
    loop.close()


# --- logging ---------------------------------------------------------------------------------


def log_from_threads(handler: logging.Handler) -> None:
    """Some threads log, each some lines."""
    logger = logging.Logger("compat")
    logger.addHandler(handler)

    def work(number: int) -> None:
        for step in range(LINES):
            logger.info("%d.%d", number, step)

    in_threads(work)


def in_their_order(lines: list[str]) -> None:
    """Every line is there, whole, and those of each thread in its order."""
    for number in range(WORKERS):
        mine = [line for line in lines if line.startswith(f"{number}.")]
        assert mine == [f"{number}.{step}" for step in range(LINES)]
    assert len(lines) == WORKERS * LINES


@scenario
def queued_logs(world: foretold.World) -> Any:
    """QueueHandler in the threads, QueueListener in one of its own."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            time.sleep(0.01)
            lines.append(record.getMessage())

    waiting: queue.Queue[Any] = queue.Queue()
    listener = logging.handlers.QueueListener(waiting, Keep())
    listener.start()
    log_from_threads(logging.handlers.QueueHandler(waiting))
    listener.stop()
    in_their_order(lines)
    return lines


@scenario
def rotated_logs(world: foretold.World) -> Any:
    """RotatingFileHandler onto the simulated disk: no line is lost or torn when files change."""
    folder = Path("/var/log/compat")
    folder.mkdir(parents=True)
    path = folder / "log"
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=16, backupCount=99)
    log_from_threads(handler)
    handler.close()
    files = sorted(folder.iterdir(), key=lambda file: int(file.suffix[1:] or 0), reverse=True)
    assert len(files) > 2
    lines = [line for file in files for line in file.read_text().splitlines()]
    in_their_order(lines)
    return lines


@for_each(executors, stages, primitives, timers, broken_barrier)
def test_executors(main: Any) -> None:
    """What each scenario says holds on every tape."""
    check(main)


@for_each(there_and_back, a_loop_in_a_thread)
def test_loops_and_threads(main: Any) -> None:
    """All ways between a loop and threads, on every tape."""
    check(main)


@for_each(queued_logs, rotated_logs)
def test_logging(main: Any) -> None:
    """Logging from several threads, on every tape."""
    check(main)
