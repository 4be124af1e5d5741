"""janus 1.1.0: join() of the async side waits for ever (aio-libs/janus#716).

A thread works through what tasks have put; the program waits until all is done.
"""

import asyncio

from patterns import pause

KIND = "test"
BUGGY = ("janus==1.1.0",)
FIXED = ("janus==1.2.0",)
CHANCE = False


async def main() -> None:
    import janus

    queue: janus.Queue[int] = janus.Queue()

    def work() -> None:
        while queue.sync_q.get() >= 0:
            queue.sync_q.task_done()
        queue.sync_q.task_done()

    async def produce() -> None:
        for number in range(3):
            await pause(0.002)
            await queue.async_q.put(number)

    working = asyncio.get_running_loop().run_in_executor(None, work)
    await asyncio.gather(produce(), produce())
    await asyncio.wait_for(queue.async_q.join(), 30)
    await queue.async_q.put(-1)
    await working
    queue.close()
    await queue.wait_closed()
