"""nats-py against a small NATS server on streams: subjects, queue groups, requests, reconnects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats

import foretold
from tests.compat.scene import check, for_each, scenario


class NatsServer:
    """INFO, CONNECT, PING, SUB, UNSUB and PUB, without wildcards except a trailing `*`."""

    def __init__(self) -> None:
        self.subscriptions: dict[tuple[Any, str], tuple[str, str]] = {}

    async def main(self) -> None:
        """Serve until the host is stopped."""
        async with await asyncio.start_server(self.session, "0.0.0.0", 4222) as server:
            await server.serve_forever()

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        info = {"server_id": "S", "version": "2.10.0", "max_payload": 1_048_576, "headers": False}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            verb, *rest = line.decode().split()
            if verb == "PING":
                writer.write(b"PONG\r\n")
            elif verb == "SUB":
                group = rest[1] if len(rest) == 3 else ""
                self.subscriptions[writer, rest[-1]] = (rest[0], group)
            elif verb == "UNSUB":
                self.subscriptions.pop((writer, rest[0]), None)
            elif verb == "PUB":
                payload = (await reader.readexactly(int(rest[-1]) + 2))[:-2]
                self.publish(rest[0], rest[1] if len(rest) == 3 else "", payload)
        for key in [key for key in self.subscriptions if key[0] is writer]:
            del self.subscriptions[key]
        writer.close()

    def publish(self, subject: str, reply: str, payload: bytes) -> None:
        """To every subscriber, but to one only of each queue group."""
        served = set()
        for (writer, number), (pattern, group) in self.subscriptions.items():
            if not self.matches(pattern, subject) or (group and group in served):
                continue
            served.add(group)
            head = " ".join(filter(None, ["MSG", subject, number, reply, str(len(payload))]))
            writer.write(head.encode() + b"\r\n" + payload + b"\r\n")

    @staticmethod
    def matches(pattern: str, subject: str) -> bool:
        """Whether a subscription is meant."""
        if pattern.endswith("*"):
            return subject.startswith(pattern[:-1])
        return pattern == subject


async def start(world: foretold.World) -> None:
    """The server on host `bus`."""
    bus = world.host("bus")
    bus.start(lambda: NatsServer().main())
    await bus.listening(4222)


@scenario
async def messages(world: foretold.World) -> None:
    """Two subscribers each get everything, in order; a queue group gets each message once."""
    await start(world)
    client = await nats.connect("nats://bus:4222")
    seen: dict[str, list[bytes]] = {name: [] for name in ("a", "b", "group")}

    def into(name: str) -> Any:
        async def note(message: Any) -> None:
            seen[name].append(message.data)

        return note

    for name in ("a", "b"):
        await client.subscribe("news", cb=into(name))
    for _ in range(3):
        await client.subscribe("news", "workers", cb=into("group"))
    for number in range(10):
        await client.publish("news", b"%d" % number)
    await client.flush()
    await asyncio.sleep(1)
    expected = [b"%d" % number for number in range(10)]
    assert seen == {"a": expected, "b": expected, "group": expected}
    await client.drain()


@scenario
async def requests(world: foretold.World) -> None:
    """Requests at a time to a service on another host get their own answers."""
    await start(world)

    async def service() -> None:
        own = await nats.connect("nats://bus:4222")

        async def answer(message: Any) -> None:
            await message.respond(message.data.upper())

        await own.subscribe("shout", cb=answer)
        await own.flush()
        ready.set()
        await asyncio.Event().wait()

    ready = asyncio.Event()
    world.host("service").start(service)
    client = await nats.connect("nats://bus:4222")
    while not ready.is_set():
        await asyncio.sleep(0.01)
    words = [b"word %d" % n for n in range(6)]
    answers = await asyncio.gather(*(client.request("shout", w, timeout=5) for w in words))
    assert [answer.data for answer in answers] == [word.upper() for word in words]
    await client.close()


@scenario
async def reconnect(world: foretold.World) -> None:
    """The server dies and comes back: the client reconnects and subscribes again by itself."""
    await start(world)
    events: list[str] = []

    async def lost() -> None:
        events.append("lost")

    async def found() -> None:
        events.append("found")

    async def refused(error: Exception) -> None:
        events.append("error")

    client = await nats.connect(
        "nats://bus:4222",
        disconnected_cb=lost,
        reconnected_cb=found,
        error_cb=refused,
        reconnect_time_wait=1,
    )
    subscription = await client.subscribe("news")
    await client.flush()
    world.host("bus").kill()
    await asyncio.sleep(5)
    world.host("bus").restart()
    await asyncio.sleep(10)
    assert [event for event in events if event != "error"] == ["lost", "found"]
    await client.publish("news", b"after")
    assert (await subscription.next_msg(timeout=5)).data == b"after"
    await client.close()


@scenario
async def left_open(world: foretold.World) -> None:
    """The run ends while clients talk, and nobody closes anything: they would reconnect for ever,
    and the bus waits until they have hung up."""
    await start(world)

    async def talker() -> None:
        own = await nats.connect("nats://bus:4222", max_reconnect_attempts=-1)
        await own.subscribe("news")
        while True:
            await own.publish("news", b"again")
            await asyncio.sleep(0.05)

    world.host("one").start(talker)
    world.host("two").start(talker)
    await asyncio.sleep(0.5)


@for_each(messages, requests, reconnect, left_open)
def test_nats(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
