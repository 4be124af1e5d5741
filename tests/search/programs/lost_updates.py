"""The lost update at various distances, and over a network: the figures that are promised."""

from __future__ import annotations

import asyncio

import foretold


async def lost_update(k: int, fixed: bool = False) -> None:
    """Two increments; `b` begins k steps later, and has to overtake `a` between read and write."""
    value, lock = [0], asyncio.Lock()

    async def add() -> None:
        read = value[0]
        await asyncio.sleep(0)
        value[0] = read + 1

    async def increment() -> None:
        if fixed:
            async with lock:
                await add()
        else:
            await add()

    async def a() -> None:
        await increment()

    async def b() -> None:
        for _ in range(k):
            await asyncio.sleep(0)
        await increment()

    await asyncio.gather(a(), b())
    assert value[0] == 2, "lost update"


async def lost_update_tcp(fixed: bool = False) -> None:
    """Two hosts, latencies of 1 to 50 ms; get, then put. The second client begins 0.2 s later."""
    world, value = foretold.current_world(), [0]
    world.network.latency(0.001, 0.050)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line == b"get\n":
            writer.write(b"%d\n" % value[0])
        else:
            value[0] = value[0] + 1 if line == b"add\n" else int(line)
            writer.write(b"ok\n")
        writer.close()

    async def server() -> None:
        await asyncio.start_server(handle, "0.0.0.0", 18200)

    async def call(line: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("server", 18200)
        writer.write(line)
        answer = await reader.readline()
        writer.close()
        return answer

    async def increment() -> None:
        await call(b"add\n" if fixed else b"%d\n" % (int(await call(b"get\n")) + 1))

    await world.host("server").start(server)
    first = asyncio.ensure_future(increment())
    await asyncio.sleep(0.2)
    await asyncio.gather(first, increment())
    assert value[0] == 2, "lost update"
