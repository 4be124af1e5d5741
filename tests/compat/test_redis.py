"""redis.asyncio against a server of the world: fakeredis' command logic behind asyncio streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio
from fakeredis import FakeServer, TcpFakeServer
from fakeredis._clients._tcp_server import encode_reply
from fakeredis._socket import AsyncFakeSocket

import foretold
from tests.compat.scene import check, for_each, scenario


@pytest.fixture(autouse=True)
def forget_scripts() -> Iterator[None]:
    """redis keeps the client that first used a lock with its class, for ever: a whole world."""
    yield
    for script in ("lua_release", "lua_extend", "lua_reacquire"):
        setattr(redis.asyncio.lock.Lock, script, None)


class RedisServer:
    """One set of databases, and a session for each client."""

    def __init__(self) -> None:
        self.data = FakeServer()

    async def main(self) -> None:
        """Serve until the host is stopped."""
        async with await asyncio.start_server(self.session, "0.0.0.0", 6379) as server:
            await server.serve_forever()

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Feed what arrives to fakeredis; what it answers, or pushes, goes back."""
        commands = AsyncFakeSocket(self.data, 0, client_class=redis.asyncio.Redis)
        answers = asyncio.create_task(self.answer(commands, writer))
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65_536):
                commands.sendall(piece)
        answers.cancel()
        commands.close()
        writer.close()

    async def answer(self, commands: Any, writer: asyncio.StreamWriter) -> None:
        """Write replies in their order."""
        while True:
            reply = await commands.responses.get()
            writer.write(encode_reply(reply, commands._client_info.protocol_version))


async def start(world: foretold.World) -> redis.asyncio.Redis:
    """A server on host `cache`, and a client of it."""
    cache = world.host("cache")
    cache.start(RedisServer().main)
    await cache.listening(6379)
    return redis.asyncio.Redis(host="cache", protocol=2, decode_responses=True)


@scenario
async def pipeline(world: foretold.World) -> None:
    """Transactions: ten tasks each count up by twice one, and nobody sees an odd number."""
    client = await start(world)
    seen: list[int] = []

    async def count_up() -> None:
        async with client.pipeline(transaction=True) as pipe:
            pipe.incr("n")
            pipe.incr("n")
            seen.append((await pipe.execute())[1])

    await asyncio.gather(*(count_up() for _ in range(10)))
    assert sorted(seen) == list(range(2, 22, 2))
    await client.set("short", "lived", ex=30)
    await asyncio.sleep(29)
    assert await client.get("short") == "lived"
    await asyncio.sleep(2)
    assert await client.get("short") is None
    await client.aclose()


@scenario
async def pubsub(world: foretold.World) -> None:
    """A subscriber gets what is published after it subscribed, in order."""
    client = await start(world)
    async with client.pubsub() as channel:
        await channel.subscribe("news")
        assert (await channel.get_message(timeout=5))["type"] == "subscribe"
        for number in range(5):
            assert await client.publish("news", f"item {number}") == 1
        got = [(await channel.get_message(timeout=5))["data"] for _ in range(5)]
    assert got == [f"item {number}" for number in range(5)]
    await client.aclose()


@scenario
async def lock(world: foretold.World) -> None:
    """Six tasks on two hosts pass one lock around; never two of them hold it."""
    client = await start(world)
    inside, most, turns = 0, 0, 0

    async def worker(own: redis.asyncio.Redis) -> None:
        nonlocal inside, most, turns
        async with own.lock("door", timeout=60, sleep=0.05):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.2)
            inside -= 1
            turns += 1

    async def elsewhere() -> None:
        async with redis.asyncio.Redis(host="cache", protocol=2) as own:
            await asyncio.gather(*(worker(own) for _ in range(3)))

    other = world.host("other").start(elsewhere)
    await asyncio.gather(*(worker(client) for _ in range(3)))
    await other
    assert (most, turns) == (1, 6)
    await client.aclose()


@scenario
async def blocking_pop(world: foretold.World) -> None:
    """BLPOP waits on the server until somebody pushes, or until its time is up."""
    client = await start(world)
    loop = asyncio.get_running_loop()
    waiting = asyncio.ensure_future(client.blpop(["queue"], timeout=10))
    await asyncio.sleep(3)
    await client.rpush("queue", "job")
    assert list(await waiting or ()) == ["queue", "job"]
    begun = loop.time()
    assert await client.blpop(["queue"], timeout=2) is None
    assert 1.9 < loop.time() - begun < 3
    await client.aclose()


@scenario
async def its_own_server(world: foretold.World) -> None:
    """fakeredis' TCP server, unmodified: threads of socketserver, whose sockets it makes
    non-blocking by fcntl."""

    def serve() -> None:
        with TcpFakeServer(("0.0.0.0", 6379)) as server:
            server.serve_forever(poll_interval=0.01)

    cache = world.host("cache")
    cache.start(serve)
    await cache.listening(6379)
    async with redis.asyncio.Redis(host="cache", protocol=2, decode_responses=True) as client:
        assert await client.set("key", "value")
        assert await client.get("key") == "value"
        assert sorted(await asyncio.gather(*(client.incr("n") for _ in range(3)))) == [1, 2, 3]
    cache.kill()


@for_each(pipeline, pubsub, lock, blocking_pop, its_own_server)
def test_redis(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
