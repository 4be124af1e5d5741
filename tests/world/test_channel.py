"""A message channel between two hosts keeps its contract: latency, loss, and retry under loss.

The contract is that of a fake channel which people write by hand for such tests; here the channel
is a real datagram endpoint, and the network is the world's. Nothing here depends on real time, so
nothing here is ever switched off.
"""

from __future__ import annotations

import asyncio
from typing import Any

import foretold

PORT = 9000
TRIES = 5
SEEDS = range(60)


class Inbox(asyncio.DatagramProtocol):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.messages.append(data)


async def channel(world: foretold.World) -> tuple[Inbox, asyncio.DatagramTransport]:
    """An inbox on host b, and a sender on the test's own host."""
    inbox = Inbox()

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: inbox, local_addr=("0.0.0.0", PORT))

    await world.host("b").start(listen)
    loop = asyncio.get_running_loop()
    sender, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=("b", PORT)
    )
    return inbox, sender


def test_nothing_at_50_ms_and_delivered_at_100() -> None:
    """With 100 ms latency a message is not there after 50 ms, and is there after 100: exactly."""

    async def main(world: foretold.World) -> list[int]:
        world.host("b")
        world.network.latency(0.1, 0.1)
        inbox, sender = await channel(world)
        sender.sendto(b"hello")
        seen = []
        for _ in range(2):
            await world.clock.advance(0.05)
            seen.append(len(inbox.messages))
        return seen

    for seed in SEEDS:
        assert foretold.run(main, seed=seed, exact_time=True).value == [0, 1]


def test_a_reliable_channel_delivers_everything_once() -> None:
    """Without loss each message arrives once, whatever the tape says about order and delay."""

    async def main(world: foretold.World) -> list[bytes]:
        inbox, sender = await channel(world)
        for number in range(10):
            sender.sendto(b"%d" % number)
        await world.clock.advance(1)
        return sorted(inbox.messages)

    for seed in SEEDS:
        assert foretold.run(main, seed=seed).value == [b"%d" % n for n in range(10)]


async def lossy(world: foretold.World, share: float) -> int:
    """How many of 20 messages arrive."""
    inbox, sender = await channel(world)
    world.network.loss(share, between=("main", "b"))
    for number in range(20):
        sender.sendto(b"%d" % number)
        await world.clock.advance(0.1)
    return len(inbox.messages)


def test_loss_loses_its_share() -> None:
    """Of messages over a channel that loses 30 %, about 70 % arrive; the same ones for one seed."""

    async def main(world: foretold.World) -> int:
        return await lossy(world, 0.3)

    arrived = [foretold.run(main, seed=seed).value for seed in SEEDS]
    assert 0.6 < sum(arrived) / (20 * len(arrived)) < 0.8
    assert len(set(arrived)) > 1
    assert arrived == [foretold.run(main, seed=seed).value for seed in SEEDS]


def test_five_tries_get_through_30_percent_loss() -> None:
    """A sender that tries five times gets through in nearly every run, and sometimes only by
    trying again; without retries it would fail in a third of them."""

    async def main(world: foretold.World) -> int:
        inbox, sender = await channel(world)
        world.network.loss(0.3, between=("main", "b"))
        for tried in range(1, TRIES + 1):
            sender.sendto(b"hello")
            await world.clock.advance(0.05)
            if inbox.messages:
                return tried
        return TRIES + 1

    needed = [foretold.run(main, seed=seed).value for seed in SEEDS]
    assert sum(1 for tries in needed if tries > TRIES) <= 1
    assert 0.5 < sum(1 for tries in needed if tries == 1) / len(needed) < 0.9
    assert max(needed) > 2
