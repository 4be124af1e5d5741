"""aiohttp on both sides, unmodified: requests, streams, websockets, over http and https."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import foretold
from foretold.world.world import World
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario

PIECE = bytes(range(256)) * 64


async def echo(request: web.Request) -> web.StreamResponse:
    """Send back what comes, while it comes."""
    response = web.StreamResponse()
    await response.prepare(request)
    async for piece in request.content.iter_any():
        await response.write(piece)
    return response


async def after_a_while(request: web.Request) -> web.Response:
    """Answer later, with who asked."""
    number = int(request.match_info["number"])
    await asyncio.sleep(0.1 * (number % 3))
    return web.json_response({"number": number, "remote": request.remote})


async def count(request: web.Request) -> web.WebSocketResponse:
    """A websocket that answers each number with the next, until the client leaves."""
    socket = web.WebSocketResponse(heartbeat=10)
    await socket.prepare(request)
    async for message in socket:
        if message.type is aiohttp.WSMsgType.TEXT:
            await socket.send_str(str(int(message.data) + 1))
    request.app[LEFT].append(socket.close_code)
    return socket


LEFT: web.AppKey[list[int | None]] = web.AppKey("left", list)


def start(world: World, *, secure: bool) -> tuple[str, web.Application]:
    """The application on host `api`; returns its address."""
    app = web.Application()
    app[LEFT] = []
    app.add_routes(
        [
            web.post("/echo", echo),
            web.get("/later/{number}", after_a_while),
            web.get("/count", count),
        ]
    )

    async def main() -> None:
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, port=80, ssl_context=tls.SERVER if secure else None)
        await site.start()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    world.host("api").start(main)
    return f"{'https' if secure else 'http'}://api:80", app


def session() -> aiohttp.ClientSession:
    """A client that trusts the authority of these tests."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls.CLIENT))


async def requests_of(world: World, url: str, app: web.Application) -> None:
    """Nine requests at a time, each with its own answer; the server sees the client's address."""
    async with session() as client:

        async def ask(number: int) -> Any:
            async with client.get(f"{url}/later/{number}") as response:
                return await response.json()

        answers = await asyncio.gather(*map(ask, range(9)))
    assert [answer["number"] for answer in answers] == list(range(9))
    own = {world.home.stack.ipv4, world.home.stack.ipv6}
    assert {answer["remote"] for answer in answers} <= own


async def streams_of(world: World, url: str, app: web.Application) -> None:
    """A body of 240 KiB comes back while it is still being sent."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(15):
            yield PIECE
            await asyncio.sleep(0.001)

    async with session() as client, client.post(f"{url}/echo", data=body()) as response:
        assert await response.read() == PIECE * 15


async def websocket_of(world: World, url: str, app: web.Application) -> None:
    """A conversation with idle minutes in it: heartbeats keep it alive, the close code arrives.

    aiohttp answers pings only while somebody receives, so the client always does.
    """
    seen: list[str] = []

    async def read(socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            seen.append(message.data)

    async with session() as client:
        async with client.ws_connect(f"{url}/count", heartbeat=15) as socket:
            reader = asyncio.create_task(read(socket))
            for number in range(3):
                await socket.send_str(str(number))
                await asyncio.sleep(45)
            await socket.close()
            await reader
        await asyncio.sleep(1)
    assert seen == ["1", "2", "3"]
    assert app[LEFT] == [1000]


def scenario_of(part: Any, *, secure: bool) -> Any:
    """One of the parts above as a scenario, over http or https."""

    async def main(world: World) -> None:
        url, app = start(world, secure=secure)
        await world.host("api").listening(80)
        await part(world, url, app)
        await world.host("api").stop()

    main.__name__ = part.__name__.removesuffix("_of") + ("_https" if secure else "")
    return scenario(main)


PARTS = (requests_of, streams_of, websocket_of)
ALL = [scenario_of(part, secure=secure) for secure in (False, True) for part in PARTS]


@for_each(*ALL)
def test_aiohttp(main: Any) -> None:
    """What each part says holds on every tape, without TLS and with it."""
    check(main)


def test_aiohttp_asks_the_world_for_names_though_aiodns_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """aiodns would ask the real network, on a thread of its library. Outside it still does."""
    resolver: Any = aiohttp.resolver

    class Aiodns:
        @staticmethod
        def DNSResolver(*args: Any, **names: Any) -> None:  # noqa: N802 - its name in aiodns
            raise ConnectionError("the real network")

    monkeypatch.setattr(resolver, "aiodns", Aiodns)

    async def main(world: World) -> list[str]:
        world.host("api")
        asked = resolver.AsyncResolver(nameservers=["9.9.9.9"])
        found = await asked.resolve("api", 80)
        await asked.close()
        return [each["host"] for each in found]

    assert foretold.run(main).value == ["10.0.0.2"]

    async def outside() -> None:
        with pytest.raises(ConnectionError):
            resolver.AsyncResolver(nameservers=["9.9.9.9"])

    asyncio.run(outside())
