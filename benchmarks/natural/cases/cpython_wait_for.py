"""wait_for before Python 3.12: a cancellation that comes with the result is lost (bpo-37658).

Written out. Workers ask a queue with a time limit, again and again, until they are cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

from patterns import all_end, pause

KIND = "training"


async def old_wait_for(asked: Coroutine[object, object, int], timeout_s: float) -> int:
    """As it was: if the result is there, it is returned, whatever else has come."""
    task, over = asyncio.ensure_future(asked), asyncio.get_running_loop().create_future()
    timer = asyncio.get_running_loop().call_later(
        timeout_s, lambda: over.done() or over.set_result(None)
    )
    task.add_done_callback(lambda _: over.done() or over.set_result(None))
    try:
        await over
    except asyncio.CancelledError:
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        raise
    finally:
        timer.cancel()
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait({task})
    raise TimeoutError


async def new_wait_for(asked: Coroutine[object, object, int], timeout_s: float) -> int:
    async with asyncio.timeout(timeout_s):
        return await asked


async def workers_stop(
    wait_for: Callable[[Coroutine[object, object, int], float], Awaitable[int]],
) -> None:
    queue = asyncio.Queue[int]()

    async def work() -> None:
        while True:
            try:
                await wait_for(queue.get(), 5)
            except TimeoutError:
                return

    async def feed() -> None:
        for number in range(6):
            await pause(0.005)
            queue.put_nowait(number)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    feeding = asyncio.create_task(feed())
    for worker in workers:
        await pause(0.01)
        worker.cancel()
    await feeding
    _, left = await asyncio.wait(workers, timeout=1)
    assert not left, "a worker was cancelled and goes on"
    await all_end(workers)


async def main() -> None:
    await workers_stop(old_wait_for)


async def repaired() -> None:
    await workers_stop(new_wait_for)
