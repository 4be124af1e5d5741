"""anyio's listeners and connections: TCP, UDP and unix sockets."""

from __future__ import annotations

import socket

import anyio
import anyio.abc

from foretold.world.world import World
from tests.compat.scene import check, for_each, scenario


async def shout(stream: anyio.abc.SocketStream) -> None:
    """Answer in capitals until the client has sent its last byte."""
    async with stream:
        async for piece in stream:
            await stream.send(piece.upper())


async def converse(stream: anyio.abc.ByteStream) -> bytes:
    """Send two words, say that this was all, and return everything that comes back."""
    async with stream:
        await stream.send(b"first ")
        await stream.send(b"second")
        await stream.send_eof()
        return b"".join([piece async for piece in stream])


@scenario
async def tcp(world: World) -> None:
    """Five clients at a time, over whichever address family happy eyeballs prefers."""
    api = world.host("api")

    async def main() -> None:
        await (await anyio.create_tcp_listener(local_port=9000)).serve(shout)

    api.start(main)
    await api.listening(9000)
    answers: list[bytes] = []

    async def client() -> None:
        answers.append(await converse(await anyio.connect_tcp("api", 9000)))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(client)
    assert answers == [b"FIRST SECOND"] * 5
    await api.stop()


@scenario
async def unix(world: World) -> None:
    """A unix socket within one host.

    It is bound by hand: `anyio.create_unix_listener` does that in a thread, and there are none yet.
    """

    async def main() -> bytes:
        own = socket.socket(socket.AF_UNIX)
        own.setblocking(False)
        own.bind("service.sock")
        own.listen()
        listener = await anyio.abc.SocketListener.from_socket(own)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, shout)
            answer = await converse(await anyio.connect_unix("service.sock"))
            group.cancel_scope.cancel()
        return answer

    assert await world.host("api").start(main) == b"FIRST SECOND"


@scenario
async def udp(world: World) -> None:
    """Datagrams keep their boundaries and their sender; a connected socket needs no address."""
    api = world.host("api")

    async def main() -> None:
        async with await anyio.create_udp_socket(
            family=socket.AF_INET, local_host="0.0.0.0", local_port=5353
        ) as server:
            async for packet, (ip, port) in server:
                await server.sendto(packet.upper() + ip.encode(), ip, port)

    api.start(main)
    await anyio.sleep(0.01)
    async with await anyio.create_connected_udp_socket(
        "api", 5353, family=socket.AF_INET
    ) as client:
        for word in (b"one ", b"two ", b"three "):
            await client.send(word)
            with anyio.fail_after(5):
                assert await client.receive() == word.upper() + world.home.ip.encode()
    await api.stop()


@for_each(tcp, unix, udp)
def test_anyio(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
