"""anyio 4.3.0: an item is sent to a receiver that is being cancelled, and lost (fixed in 4.4.0).

A reader polls a stream with a time limit, until all items are there.
"""

import asyncio

from patterns import pause

KIND = "test"
BUGGY = ("anyio==4.3.0", "sniffio==1.3.1")
FIXED = ("anyio==4.4.0", "sniffio==1.3.1")


async def main() -> None:
    import anyio

    sender, receiver = anyio.create_memory_object_stream[int](20)
    taken: list[int] = []

    async def read() -> None:
        for _ in range(40):
            with anyio.move_on_after(0.002):
                taken.append(await receiver.receive())

    reading = asyncio.create_task(read())
    for item in range(8):
        await pause(0.008)
        sender.send_nowait(item)
    await reading
    left = receiver.statistics().current_buffer_used
    assert len(taken) + left == 8, f"8 items were sent, {len(taken) + left} are there"
    sender.close()
    receiver.close()
