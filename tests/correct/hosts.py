"""Correct programs of several hosts: messages get lost and come twice, processes die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any

import foretold
from tests.correct.program import program
from tests.correct.rpc import call, insist, serve

EVERYWHERE = foretold.faults.network + foretold.faults.hosts


def keep(path: str, lines: Iterable[Any], *, durable: bool = True) -> None:
    """Append to a file; what was kept is there after a power cut."""
    with open(path, "ab") as file:
        for line in lines:
            file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())
    if durable:
        _keep_name(path)


def _keep_name(path: str) -> None:
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def kept(path: str) -> list[Any]:
    """What the file has. A line that was half written when the power went is cut off."""
    with contextlib.suppress(FileNotFoundError):
        with open(path, "rb") as file:
            whole, _, half = file.read().rpartition(b"\n")
        if half:
            os.truncate(path, len(whole) + 1 if whole else 0)
        return [json.loads(line) for line in whole.split(b"\n")] if whole else []
    return []


@program(faults=EVERYWHERE, runs_max=60)
async def delivery_with_dedup(world: foretold.World, *, broken: bool) -> None:
    """At least once on the wire, exactly once on the disk: the sender insists, the receiver knows
    what it has. Broken: it does not look."""
    path = "/var/inbox"

    async def receiver() -> None:
        seen = {each["id"] for each in kept(path)}

        async def receive(message: Any) -> str:
            if broken or message["id"] not in seen:
                keep(path, [message])
                seen.add(message["id"])
            return "kept"

        await serve(receive)

    inbox = world.host("inbox")
    inbox.start(receiver)

    async def send(number: int) -> None:
        await insist("inbox", {"id": number, "text": f"message {number}"})

    await asyncio.gather(*(send(number) for number in range(4)))
    await world.heal()
    assert sorted(await look(world, inbox, path)) == [0, 1, 2, 3]


async def look(world: foretold.World, host: Any, path: str) -> list[int]:
    """The ids in a file of that host, read there."""

    async def read() -> list[int]:
        return [each["id"] for each in kept(path)]

    if host.stack.dead:
        host.restart()
    return list(await host.start(read()))


@program(faults=foretold.faults.network, runs_max=60)
async def payment_with_a_key(world: foretold.World, *, broken: bool) -> None:
    """A payment that is tried again under the same key is made once, and answered alike. Broken:
    the key is kept only after the work."""
    answers: dict[str, Any] = {}
    charged: list[str] = []

    async def pay(request: Any) -> Any:
        key = request["key"]
        if broken:
            if key not in answers:
                receipt = await charge(request)
                answers[key] = receipt
            return answers[key]
        if key not in answers:
            answers[key] = asyncio.ensure_future(charge(request))
        return await answers[key]

    async def charge(request: Any) -> str:
        await asyncio.sleep(0.3)
        charged.append(request["key"])
        return f"receipt {len(charged)}"

    world.host("bank").start(lambda: serve(pay))

    async def customer(name: str) -> None:
        request = {"key": f"order of {name}", "amount": 5}
        first = await insist("bank", request)
        assert await insist("bank", request) == first

    await asyncio.gather(customer("ada"), customer("bob"))
    assert sorted(charged) == ["order of ada", "order of bob"]


class Lessor:
    """Gives a lease for a while, with a number that only grows."""

    def __init__(self) -> None:
        self.token, self.holder, self.until = 0, "", 0.0

    async def answer(self, name: str) -> int:
        """The number of the lease, or 0 if somebody else has it."""
        now = asyncio.get_running_loop().time()
        if now >= self.until or self.holder == name:
            self.token += self.holder != name or now >= self.until
            self.holder, self.until = name, now + 0.2
            return self.token
        return 0


@program(
    faults=foretold.faults.network + foretold.faults.hosts.only("pause"), runs_max=200, slow=True
)
async def fenced_lease(world: foretold.World, *, broken: bool) -> None:
    """A worker may sleep past the end of its lease. The storage refuses who comes with an older
    number than the last. Broken: it does not look at numbers."""
    lessor, written = Lessor(), list[tuple[int, str]]()

    async def store(request: Any) -> bool:
        token, name = request
        if written and token < written[-1][0] and not broken:
            return False
        written.append((token, name))
        return True

    world.host("lessor").start(lambda: serve(lessor.answer))
    world.host("storage").start(lambda: serve(store))

    def worker(name: str) -> Any:
        async def work() -> None:
            for _ in range(6):
                with contextlib.suppress(OSError):
                    token = await call("lessor", name)
                    if token:
                        await call("storage", [token, name])
                await asyncio.sleep(0.1)

        return work

    await asyncio.gather(*(world.host(name).start(worker(name)).ended() for name in ("one", "two")))
    tokens = [token for token, _ in written]
    assert tokens == sorted(tokens), "somebody wrote after the lease was another's"


@program(faults=EVERYWHERE, runs_max=100)
async def leader_election(world: foretold.World, *, broken: bool) -> None:
    """A term has one leader at most: a voter keeps its vote on its disk before it tells anybody.
    Broken: it keeps it in memory alone, and is restarted."""
    path, voters = "/var/votes", ("north", "east", "south")
    elected: dict[int, set[str]] = {}

    async def voter() -> None:
        votes = dict(kept(path))

        async def vote(request: Any) -> bool:
            term, name = request
            if term not in votes:
                votes[term] = name
                if not broken:
                    keep(path, [[term, name]])
            return bool(votes[term] == name)

        await serve(vote)

    async def campaign(name: str) -> None:
        for term in range(1, 5):
            given = 0
            for voter in voters:
                with contextlib.suppress(OSError):
                    given += await call(voter, [term, name])
                await asyncio.sleep(foretold.between(0, 40, "thinks for") / 1000)
            if given >= 2:
                elected.setdefault(term, set()).add(name)

    async def deploy() -> None:
        for name in voters:
            await asyncio.sleep(foretold.between(0, 100, "deploys after") / 1000)
            world.host(name).restart()

    for voter_name in voters:
        world.host(voter_name).start(voter)
    await asyncio.gather(campaign("ada"), campaign("bob"), deploy())
    assert all(len(names) == 1 for names in elected.values()), elected
    foretold.sometimes(bool(elected), "somebody is elected")


@program(faults=foretold.faults.network, runs_max=100)
async def saga(world: foretold.World, *, broken: bool) -> None:
    """All is booked, or all is undone, also what may have been booked. Broken: what was not
    answered is taken for not done."""
    rooms = {"flight": 2, "hotel": 1, "car": 2}
    booked: dict[str, set[str]] = {name: set() for name in rooms}
    undone: dict[str, set[str]] = {name: set() for name in rooms}

    def service(name: str) -> Any:
        async def answer(request: Any) -> bool:
            what, trip = request
            if what == "undo":
                undone[name].add(trip)  # should the booking come later, it is refused
                booked[name].discard(trip)
                return True
            full = len(booked[name]) >= rooms[name] and trip not in booked[name]
            if full or trip in undone[name]:
                return False
            booked[name].add(trip)
            return True

        return lambda: serve(answer)

    async def book(trip: str) -> bool:
        tried: list[str] = []
        for name in rooms:
            answered = False
            with contextlib.suppress(OSError):
                answered = await call(name, ["book", trip])
            if answered or not broken:
                tried.append(name)
            if not answered:
                for each in reversed(tried):
                    await insist(each, ["undo", trip])
                return False
        return True

    for name in rooms:
        world.host(name).start(service(name))
    for name in rooms:
        await world.host(name).listening(7000)
    kept_trips = {
        trip
        for trip, is_booked in zip("xy", await asyncio.gather(book("x"), book("y")), strict=True)
        if is_booked
    }
    await world.heal()
    await asyncio.sleep(5)  # whatever is still under way arrives
    assert all(trips == kept_trips for trips in booked.values()), booked


@program(faults=foretold.faults.network, runs_max=100, slow=True)
async def worker_says_goodbye(world: foretold.World, *, broken: bool) -> None:
    """A worker is in the register while it works, and no longer. Broken: a sign of life that is
    under way when the worker goes puts it back."""
    present: set[str] = set()
    gone: set[str] = set()

    async def register(request: Any) -> bool:
        what, name = request
        if what == "bye":
            gone.add(name)
            present.discard(name)
        elif broken or name not in gone:
            present.add(name)
        return True

    async def worker() -> None:
        async def beat() -> None:
            while True:
                with contextlib.suppress(OSError):
                    await call("register", ["alive", "worker"])
                await asyncio.sleep(0.02)

        beats = [asyncio.create_task(beat()) for _ in range(2)]
        try:
            await asyncio.gather(*beats)
        finally:
            await insist("register", ["bye", "worker"])

    world.host("register").start(lambda: serve(register))
    host = world.host("worker")
    host.start(worker)
    await asyncio.sleep(0.5)
    assert await host.stop()
    await world.heal()
    await asyncio.sleep(5)  # whatever is still under way arrives
    assert gone == {"worker"}
    assert not present
