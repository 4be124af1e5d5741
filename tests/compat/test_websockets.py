"""websockets on both sides, unmodified, across more than a minute in which only pings pass."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError

import foretold
from tests.compat.scene import check, for_each, scenario

IDLE_S = 65


async def reverse(socket: ServerConnection) -> None:
    """Answer each message with itself, backwards."""
    async for message in socket:
        await socket.send(message[::-1])


async def main_of_server() -> None:
    """Serve until the host is stopped."""
    async with serve(reverse, "0.0.0.0", 8765):
        await asyncio.Event().wait()


@scenario
async def idle_pings(world: foretold.World) -> None:
    """The connection is used, left alone for 65 s (three pings each way), and used again."""
    api = world.host("api")
    api.start(main_of_server)
    await api.listening(8765)
    async with connect("ws://api:8765", proxy=None) as socket:
        await socket.send("before")
        assert await socket.recv() == "erofeb"
        await asyncio.sleep(IDLE_S)
        assert socket.latency > 0
        await socket.send("x" * 300_000)
        assert await socket.recv() == "x" * 300_000
    assert socket.close_code == 1000
    await api.stop()


@scenario
async def silent_peer(world: foretold.World) -> None:
    """Pings find out that the server has lost its power: nothing else would tell."""
    api = world.host("api")
    api.start(main_of_server)
    await api.listening(8765)
    socket = await connect("ws://api:8765", proxy=None)
    start = asyncio.get_running_loop().time()
    api.crash()
    with pytest.raises(ConnectionClosedError, match="keepalive ping timeout"):
        await socket.recv()
    assert 40 <= asyncio.get_running_loop().time() - start < 60


@for_each(idle_pings, silent_peer)
def test_websockets(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
