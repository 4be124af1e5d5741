"""Datagrams between hosts: their order, their buffers, and what the verbs do to both."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import foretold
from foretold import World

PORT = 53
COUNT = 60


Heard = list[tuple[int, float]]
"""The numbers of datagrams, and how long each was on its way."""


async def _sent(world: World, into: Heard | None = None) -> Heard:
    """What another host hears of numbered datagrams."""
    heard = [] if into is None else into
    loop = asyncio.get_running_loop()

    class Listener(asyncio.DatagramProtocol):
        """Keeps what it hears."""

        def datagram_received(self, data: bytes, addr: Any) -> None:
            number, sent = data.split()
            heard.append((int(number), loop.time() - float(sent)))

    async def listen() -> None:
        here = asyncio.get_running_loop()
        await here.create_datagram_endpoint(Listener, ("0.0.0.0", PORT))

    host = world.host("ear")
    await host.start(listen)
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=(host.ip, PORT)
    )
    for number in range(COUNT):
        transport.sendto(f"{number} {loop.time()}".encode())
        await asyncio.sleep(0.000_1)
    await asyncio.sleep(5)
    transport.close()
    return heard


def test_a_flow_keeps_its_order() -> None:
    """Latencies vary far more than the gaps, and no datagram overtakes another: routers send the
    datagrams of one flow one way. With `reordering`, and only then, some are overtaken."""
    for reordering in (0.0, 0.2):

        async def main(world: World, reordering: float = reordering) -> Heard:
            world.network.latency(0.001, 0.05)
            world.network.reordering(reordering)
            return await _sent(world)

        for seed in range(4):
            heard = foretold.run(main, seed=seed).value
            numbers = [number for number, _ in heard]
            assert sorted(numbers) == list(range(COUNT))
            assert (numbers == sorted(numbers)) == (reordering == 0.0), f"seed {seed}"
            assert len({round(delay, 5) for _, delay in heard}) > COUNT / 4


def test_a_hold_holds_back_overtaken_ones_too() -> None:
    """What takes a detour is held as well: nothing is heard before the release."""

    async def main(world: World) -> tuple[int, int]:
        world.network.reordering(0.5)
        world.network.hold("main", world.host("ear"))
        heard: Heard = []
        sending = asyncio.ensure_future(_sent(world, heard))
        await asyncio.sleep(4)
        before = len(heard)
        world.network.release("main", "ear")
        return before, len(await sending)

    assert foretold.run(main, seed=1).value == (0, COUNT)


def test_reordering_with_little_bandwidth() -> None:
    """A detour is not a place in the queue: those that overtake do not wait for it."""

    async def main(world: World) -> Heard:
        world.network.latency(0.01)
        world.network.bandwidth(1_000_000)
        world.network.reordering(0.2)
        return await _sent(world)

    for seed in range(4):
        numbers = [number for number, _ in foretold.run(main, seed=seed).value]
        assert sorted(numbers) == list(range(COUNT))
        assert numbers != sorted(numbers)


def test_receiving_is_charged_to_the_receive_buffer() -> None:
    """`buffers(send=…)` limits no receiver; `buffers(receive=…)` does, but for one datagram."""

    async def main(world: World, send: int, receive: int) -> int:
        world.network.buffers(send=send, receive=receive)
        with (
            socket.socket(type=socket.SOCK_DGRAM) as one,
            socket.socket(type=socket.SOCK_DGRAM) as two,
        ):
            one.bind(("127.0.0.1", PORT))
            one.setblocking(False)
            for _ in range(10):
                two.sendto(b"x" * 100, one.getsockname())
            await asyncio.sleep(1)
            count = 0
            while True:
                try:
                    count += len(one.recv(1_000)) // 100
                except BlockingIOError:
                    return count

    for send, receive, expected in ((400, 1_000_000, 10), (1_000_000, 400, 1)):

        async def limited(world: World, send: int = send, receive: int = receive) -> int:
            return await main(world, send, receive)

        assert foretold.run(limited).value == expected


def test_a_shared_port_divides_the_flows() -> None:
    """SO_REUSEPORT: each flow has its socket, the tape decides which, and none is left out for
    ever."""

    def bound(port: int) -> socket.socket:
        made = socket.socket(type=socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(("127.0.0.1", port))
        made.setblocking(False)
        return made

    async def main() -> list[list[bytes]]:
        workers = [bound(PORT), bound(PORT)]
        for number in range(8):
            with socket.socket(type=socket.SOCK_DGRAM) as client:
                for _ in range(3):
                    client.sendto(b"%d" % number, ("127.0.0.1", PORT))
        await asyncio.sleep(1)
        heard: list[list[bytes]] = [[], []]
        for worker, got in zip(workers, heard, strict=True):
            with worker:
                while worker in (await _ready(worker)):
                    got.append(worker.recv(9))
        return heard

    shares = set()
    for seed in range(5):
        one, two = foretold.run(main, seed=seed).value
        assert sorted(one + two) == sorted([b"%d" % number for number in range(8)] * 3)
        assert not set(one) & set(two), "a flow has one socket"
        shares.add(len(one))
    assert len(shares) > 1


async def _ready(sock: socket.socket) -> list[socket.socket]:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return []
    return [sock]
