"""What a run leaves behind in the process: nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import foretold


async def serve() -> None:
    """Answers nobody, and has clean-up that a dead host never does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "0.0.0.0", 80)
    await server.serve_forever()


async def ask() -> None:
    """Waits for ever, deep inside."""
    async with asyncio.timeout(1e6), asyncio.TaskGroup() as tasks:
        reader, _ = await asyncio.open_connection("server", 80)
        tasks.create_task(reader.readline())
        await asyncio.sleep(1e6)


@pytest.mark.parametrize("end", ["kill", "crash", "pause", "restart", "nothing"])
@pytest.mark.parametrize("order", ["asyncio", "any"])
def test_no_world_outlives_its_run(end: str, order: str) -> None:
    """However its hosts ended, a world is freed with its run: a campaign does not grow.

    (Closing a coroutine that was abandoned leaks on Python 3.12, and the whole world with it.)
    """
    worlds: list[weakref.ref[foretold.World]] = []

    async def main(world: foretold.World) -> None:
        worlds.append(weakref.ref(world))
        server, client = world.host("server"), world.host("client")
        server.start(serve)
        await server.listening(80)
        client.start(ask)
        await world.clock.advance(1)
        for host in (client, server):
            if end != "nothing":
                getattr(host, end)()
        await world.clock.advance(1)
        if end not in ("kill", "crash"):
            client.kill()  # it would try for ever

    foretold.run(main, order=order)
    gc.collect()
    assert [world() for world in worlds] == [None]
