"""grpclib on both sides: calls, streams, deadlines and errors over HTTP/2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpclib.client import Channel, StreamStreamMethod, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.server import Server

import foretold
from tests.compat.scene import check, for_each, scenario


class Raw(CodecBase):
    """Messages are bytes: no generated code is needed."""

    __content_subtype__ = "raw"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


class Shouter:
    """A service as protoc's plugin for grpclib would have written it."""

    async def shout(self, stream: Any) -> None:
        """One message, one answer; an empty one is an error."""
        word = await stream.recv_message()
        if not word:
            raise GRPCError(Status.INVALID_ARGUMENT, "nothing to shout")
        await asyncio.sleep(0.1)
        await stream.send_message(word.upper())

    async def repeat(self, stream: Any) -> None:
        """One message, five answers."""
        word = await stream.recv_message()
        for _ in range(5):
            await stream.send_message(word)

    async def converse(self, stream: Any) -> None:
        """Each message is answered as it comes."""
        async for word in stream:
            await stream.send_message(word[::-1])

    def __mapping__(self) -> dict[str, Handler]:
        kinds = {
            "shout": Cardinality.UNARY_UNARY,
            "repeat": Cardinality.UNARY_STREAM,
            "converse": Cardinality.STREAM_STREAM,
        }
        return {
            f"/Shouter/{name}": Handler(getattr(self, name), kind, bytes, bytes)
            for name, kind in kinds.items()
        }


async def start(world: foretold.World) -> Channel:
    """The service on host `api`, and a channel to it."""
    api = world.host("api")

    async def main() -> None:
        server = Server([Shouter()], codec=Raw())
        await server.start("0.0.0.0", 50051)
        try:
            await server.wait_closed()
        finally:
            server.close()
            await server.wait_closed()

    api.start(main)
    await api.listening(50051)
    return Channel("api", 50051, codec=Raw())


@scenario
async def calls(world: foretold.World) -> None:
    """Eight calls at a time share one connection; a large message passes the flow control."""
    channel = await start(world)
    shout = UnaryUnaryMethod(channel, "/Shouter/shout", bytes, bytes)
    answers = await asyncio.gather(*(shout(b"word %d" % n) for n in range(8)))
    assert answers == [b"WORD %d" % n for n in range(8)]
    assert await shout(b"x" * 200_000) == b"X" * 200_000
    channel.close()
    await world.host("api").stop()


@scenario
async def streams(world: foretold.World) -> None:
    """Streams from the server, and in both directions."""
    channel = await start(world)
    repeat = UnaryStreamMethod(channel, "/Shouter/repeat", bytes, bytes)
    assert await repeat(b"again") == [b"again"] * 5
    converse = StreamStreamMethod(channel, "/Shouter/converse", bytes, bytes)
    async with converse.open() as stream:
        for word in (b"one", b"two"):
            await stream.send_message(word)
            assert await stream.recv_message() == word[::-1]
        await stream.end()
    channel.close()
    await world.host("api").stop()


@scenario
async def errors(world: foretold.World) -> None:
    """A status arrives as it was raised; a deadline passes in virtual time, and whichever side
    notices first says so."""
    channel = await start(world)
    shout = UnaryUnaryMethod(channel, "/Shouter/shout", bytes, bytes)
    with pytest.raises(GRPCError, match="nothing to shout"):
        await shout(b"")
    with pytest.raises((TimeoutError, GRPCError)) as late:
        await shout(b"too late", timeout=0.05)
    assert getattr(late.value, "status", None) in (None, Status.DEADLINE_EXCEEDED)
    assert await shout(b"still there") == b"STILL THERE"
    channel.close()
    await world.host("api").stop()


@for_each(calls, streams, errors)
def test_grpclib(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
