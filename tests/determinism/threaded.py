"""Programs whose results depend on the order of threads, alone and beside a loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
import time
from typing import Any

import foretold
from tests.determinism.registry import free


@free
def threads_and_locks() -> object:
    """Which thread comes next shows in the list; a set of threads is walked through."""
    log: list[Any] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        for step in range(3):
            with lock:
                log.append((name, step))

    threads = {threading.Thread(target=work, args=(name,)) for name in "abcd"}
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return log, [thread.name for thread in threads]


@free
def pool_and_queue() -> object:
    """Workers of a pool fill a queue of two."""
    filled: queue.Queue[Any] = queue.Queue(2)

    def work(number: int) -> None:
        time.sleep(number % 2)
        filled.put((number, threading.current_thread().name))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {pool.submit(work, number) for number in range(8)}
        got = [filled.get() for _ in range(8)]
        concurrent.futures.wait(futures)
    return got


@free
async def threads_beside_a_loop(world: foretold.World) -> object:
    """Tasks, threads, and threads on another host."""
    log: list[Any] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        for step in range(3):
            with lock:
                log.append((name, step))

    async def task() -> None:
        for step in range(3):
            await asyncio.sleep(0)
            log.append(("task", step))

    async def elsewhere() -> None:
        await asyncio.gather(*(asyncio.to_thread(work, f"host {n}") for n in range(2)))

    other = world.host("other").start(elsewhere)
    await asyncio.gather(task(), *(asyncio.to_thread(work, f"own {n}") for n in range(2)))
    await other
    return log
