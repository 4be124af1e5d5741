"""aiorwlock 1.4.0: a waiter that gives up breaks the lock for everybody (aio-libs/aiorwlock#400).

Readers and a few writers of one page; some of them give up.
"""

import asyncio

from patterns import all_end, pause, some_give_up

KIND = "test"
BUGGY = ("aiorwlock==1.4.0",)
FIXED = ("aiorwlock==1.5.1",)


async def main() -> None:
    import aiorwlock

    page = aiorwlock.RWLock()

    async def reader() -> None:
        await pause(0.01)
        async with page.reader_lock:
            await pause(0.003)

    async def writer() -> None:
        await pause(0.01)
        async with page.writer_lock:
            await pause(0.003)

    tasks = [asyncio.create_task(each()) for each in (reader, writer, reader, reader, writer)]
    await some_give_up(tasks, 2, 0.015)
    await all_end(tasks)
