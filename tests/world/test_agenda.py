"""Which host is due next: the agenda says what a look at all of them would say, and costs the same
in a world of four hosts and in one of forty."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foretold
from foretold.kernel.timed import first_of
from foretold.world.agenda import NEVER
from foretold.world.host import Host
from foretold.world.hosttask import resolve
from foretold.world.outside import Outside
from tests.helpers import run_of

PORT = 7000
FAULTS = foretold.faults.network + foretold.faults.hosts
Main = Callable[[foretold.World], Awaitable[None]]


class Talker(asyncio.DatagramProtocol):
    """Answers each datagram once, and sets a time limit that is mostly called off."""

    def __init__(self) -> None:
        self.limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if self.limit is not None:
            self.limit.cancel()
        self.limit = asyncio.get_running_loop().call_later(0.05, lambda: None)
        if data == b"ping":
            self.transport.sendto(b"pong", address)


def ring_of(hosts: int, *, threads: bool = False) -> Main:
    """Each host talks to the next one."""

    async def main(world: foretold.World) -> None:
        ring = [world.host(f"h{number}") for number in range(hosts)]
        sleepers: list[asyncio.Future[None]] = []

        def program(number: int) -> Callable[[], Awaitable[None]]:
            async def talk() -> None:
                loop = asyncio.get_running_loop()
                local = ("0.0.0.0", PORT)
                transport, _ = await loop.create_datagram_endpoint(Talker, local_addr=local)
                for turn in range(8):
                    await asyncio.sleep(0.01)
                    transport.sendto(b"ping", (ring[(number + 1) % hosts].ip, PORT))
                    if threads and number % 3 == turn % 3 == 0:
                        await asyncio.to_thread(lambda: None)
                called = loop.create_future()
                sleepers.append(called)
                await called
                transport.close()

            return talk

        for number, host in enumerate(ring):
            host.start(program(number))
        await world.clock.advance(0.2)
        await world.heal()
        for number, called in enumerate(sleepers):
            # Behind the back of its host, which sleeps: at once, or in a while.
            loop = called.get_loop()
            if number % 2 and not loop.is_closed():
                loop.call_later(0.01, resolve, called)
            else:
                resolve(called)
        await world.clock.advance(0.1)

    return main


def due_by_a_look_at_all(outside: Outside) -> tuple[int, Host | None]:
    """What the agenda must say."""
    wire_ns = outside.wire.next_ns()
    best_ns, chosen = NEVER if wire_ns is None else wire_ns, None
    for host in outside.others:
        if (host_ns := host.next_ns()) < best_ns:
            best_ns, chosen = host_ns, host
    return best_ns, chosen


@pytest.mark.parametrize("threads", [False, True])
def test_the_agenda_says_what_a_look_at_all_hosts_says(
    monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    """At each event of twenty runs with kills, pauses, restarts, threads and alarms that are called
    off. A host that is stirred by something the agenda does not hear of fails here."""
    found = Outside._next
    looks = 0

    def checked(self: Outside) -> tuple[int, Host | None]:
        nonlocal looks
        looks += 1
        said = found(self)
        assert said == due_by_a_look_at_all(self)
        return said

    monkeypatch.setattr(Outside, "_next", checked)
    for seed in range(20):
        run = run_of(ring_of(4, threads=threads), seed, faults=FAULTS)
        assert run.error is None, run.error
    assert looks > 2_000


def looks_per_host(monkeypatch: pytest.MonkeyPatch, hosts: int) -> float:
    """How often a host is asked when it is due, in a whole run."""
    asked, looks = Host.next_ns, 0

    def counted(self: Host) -> int:
        nonlocal looks
        looks += 1
        return asked(self)

    with monkeypatch.context() as patch:
        patch.setattr(Host, "next_ns", counted)
        assert run_of(ring_of(hosts), 1).error is None
    return looks / hosts


def test_a_host_costs_the_same_among_four_and_among_forty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at all hosts before each event would make this ten times as much."""
    few, many = looks_per_host(monkeypatch, 4), looks_per_host(monkeypatch, 40)
    assert many < 1.2 * few


def test_the_first_of_a_heap() -> None:
    """As `heapq.nsmallest`, up to an end."""
    dice = random.Random(1)
    for size in range(60):
        heap = [(dice.randrange(50), number) for number in range(size)]
        heapq.heapify(heap)
        for end in (0, 10, 60):
            expected = [entry for entry in heapq.nsmallest(8, heap) if entry[0] < end]
            assert first_of(heap, 8, (end,)) == expected
