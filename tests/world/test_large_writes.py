"""One large write costs what its bytes cost, however many pieces the kernel takes it in."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import Iterator

import pytest

import foretold
from foretold.world.net.chunks import first_bytes
from foretold.world.world import World

MB = 1_000_000


def test_what_has_no_room_is_not_touched() -> None:
    """The first bytes of many buffers: later buffers are not even looked at."""

    def buffers() -> Iterator[bytes]:
        yield b"abc"
        yield b""
        yield b"defg"
        raise AssertionError("nobody asked for more")

    assert first_bytes(buffers(), 5) == b"abcde"
    assert first_bytes([b"abc", bytearray(b"d")], 100) == b"abcd"
    assert first_bytes([], 100) == b""
    assert first_bytes([bytes(MB)], 10) == bytes(10)
    with pytest.raises(TypeError):
        first_bytes([5], 100)


def test_a_call_copies_no_more_than_it_sends() -> None:
    """`sendmsg` with 20 MB in two buffers, of which few fit: it needs no memory for the rest."""

    async def main(world: World) -> tuple[int, int]:
        with socket.create_server(("127.0.0.1", 80)), socket.socket() as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", 80))
            buffers = [bytes(10 * MB), bytes(10 * MB)]
            tracemalloc.start()
            sent = client.sendmsg(buffers)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return sent, peak

    sent, peak = foretold.run(main).value
    assert 0 < sent < MB
    assert peak < 4 * MB


def test_fifty_megabytes_at_once() -> None:
    """Over 10 MB/s they take 5 s of virtual time, and all of them arrive."""

    async def sink(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = 0
        while data := await reader.read(1 << 18):
            count += len(data)
        writer.write(str(count).encode())
        writer.close()

    async def serve() -> None:
        await asyncio.start_server(sink, "0.0.0.0", 80)

    async def main(world: World) -> tuple[bytes, float]:
        server = world.host("server")
        await server.start(serve)
        world.network.bandwidth(10 * MB)
        reader, writer = await asyncio.open_connection("server", 80)
        before = world.virtual_s
        writer.write(bytes(50 * MB))
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer, world.virtual_s - before

    answer, took_s = foretold.run(main).value
    assert answer == b"50000000"
    assert 5 <= took_s < 8
