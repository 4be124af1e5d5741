"""Causal order: what could have influenced what, between hosts of a world and elsewhere."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import foretold
from foretold.kernel.session import session
from foretold.world.log import LoggedEvent
from foretold.world.world import World

PORT = 80
SEEDS = range(6)
Main = Callable[[], Coroutine[Any, Any, None]]


def saying(heard: str, answer: bool = True) -> Main:
    """A server that logs each line that it has read, and answers it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            foretold.event(heard)
            if answer:
                writer.write(b"yes\n")
        foretold.event("End")
        writer.close()

    async def serve() -> None:
        await asyncio.start_server(talk, "0.0.0.0", PORT)
        await asyncio.Event().wait()

    return serve


async def ask(server: str) -> None:
    """One request; an event before it, and one after its answer."""
    foretold.event("Asked", server=server)
    reader, writer = await asyncio.open_connection(server, PORT)
    writer.write(b"there?\n")
    await reader.readline()
    foretold.event("Answered", server=server)
    writer.close()


def the(world: World, name: str, host: str) -> LoggedEvent:
    """The only event of that name on that host."""
    (found,) = (each for each in world.log.of(name) if each.host == host)
    return found


def test_messages_of_the_world_order_events() -> None:
    """Two pairs of hosts that talk: inside of a pair a request is before what follows from it, and
    between the pairs nothing is before anything, whatever the virtual times say."""

    async def main(world: World) -> None:
        for name in ("left", "right"):
            world.host(name).start(saying("Heard"))
            await world.host(name).listening(PORT)
        askers = [world.host(f"asks-{name}").start(ask(name)) for name in ("left", "right")]
        for asker in askers:
            await asker.ended()
        order = foretold.causal(world.log.of("Asked", "Heard", "Answered"))
        for name in ("left", "right"):
            asked, heard = the(world, "Asked", f"asks-{name}"), the(world, "Heard", name)
            answered = the(world, "Answered", f"asks-{name}")
            assert order.before(asked, heard)
            assert order.before(heard, answered)
            assert order.before(asked, answered)
            assert not order.before(heard, asked)
            assert not order.concurrent(asked, answered)
        assert order.concurrent(the(world, "Heard", "left"), the(world, "Answered", "asks-right"))
        assert len(order.concurrent_pairs) == 9
        assert order.violations == []

    with session():
        for seed in SEEDS:
            foretold.run(main, seed=seed)


def test_what_has_arrived_and_was_not_read_is_not_known() -> None:
    """A host learns what its program reads. Bytes that lie in its buffer have influenced nothing,
    although the event that sent them is long ago."""

    async def slow() -> None:
        with socket.create_server(("0.0.0.0", PORT)) as server, server.accept()[0] as connection:
            connection.recv(1)
            foretold.event("First")
            await asyncio.sleep(1)
            foretold.event("Idle")
            connection.recv(1)
            foretold.event("Second")

    async def send() -> None:
        _, writer = await asyncio.open_connection("slow", PORT)
        writer.write(b"1")
        await asyncio.sleep(0.5)
        foretold.event("Sent")
        writer.write(b"2")
        await asyncio.sleep(5)

    async def main(world: World) -> None:
        slow_host = world.host("slow")
        done = slow_host.start(slow)
        await slow_host.listening(PORT)
        world.host("sender").start(send)
        await done
        order = foretold.causal(world.log)
        sent = the(world, "Sent", "sender")
        assert sent.time_s < the(world, "Idle", "slow").time_s
        assert order.concurrent(sent, the(world, "First", "slow"))
        assert order.concurrent(sent, the(world, "Idle", "slow"))
        assert order.before(sent, the(world, "Second", "slow"))

    with session():
        for seed in SEEDS:
            foretold.run(main, seed=seed)


def test_ends_of_streams_datagrams_starts_and_results_count() -> None:
    """Whatever tells a program something: a hang-up without a byte, a datagram, the start of a
    host, and the result of a main that the test awaits."""

    async def hang_up() -> None:
        foretold.event("Up")
        _, writer = await asyncio.open_connection("server", PORT)
        foretold.event("Leaves")
        writer.close()

    async def listen() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as own:
            own.bind(("0.0.0.0", PORT))
            own.recvfrom(100)
        foretold.event("Datagram")

    async def main(world: World) -> None:
        foretold.event("Begun")
        server, listener = world.host("server"), world.host("listener")
        server.start(saying("Heard"))
        heard = listener.start(listen)
        await server.listening(PORT)
        await world.host("guest").start(hang_up)
        foretold.event("Awaited")
        await world.clock.advance(1)
        with socket.socket(type=socket.SOCK_DGRAM) as own:
            own.sendto(b"x", ("listener", PORT))
        await heard.ended()
        order = foretold.causal(world.log)
        leaves = the(world, "Leaves", "guest")
        assert order.before(the(world, "Begun", "main"), the(world, "Up", "guest"))
        assert order.before(leaves, the(world, "End", "server"))
        assert order.before(leaves, the(world, "Awaited", "main"))
        assert order.before(leaves, the(world, "Datagram", "listener"))
        assert order.concurrent(the(world, "Awaited", "main"), the(world, "End", "server"))

    with session():
        for seed in SEEDS:
            foretold.run(main, seed=seed)


def test_requests_of_a_web_client_count() -> None:
    """`world.web` carries messages and not bytes; they order events as well."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        foretold.event("Served")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def main(world: World) -> None:
        web = await world.web(app)
        foretold.event("Asked")
        async with web.client("ann") as client:
            await client.get("/")
        foretold.event("Answered")
        asked, served, answered = world.log
        order = foretold.causal(world.log)
        assert served.host != asked.host
        assert order.before(asked, served)
        assert order.before(served, answered)

    foretold.run(main)


def test_to_log_changes_nothing_in_a_run() -> None:
    """What hosts know is no part of a run: with and without it a tape has one digest."""

    async def main(world: World) -> None:
        world.host("left").start(saying("Heard"))
        await world.host("left").listening(PORT)
        await world.host("asks").start(ask("left"))

    async def forgetful(world: World) -> None:
        log_event = world.log_event

        def forget(*given: Any) -> None:
            log_event(*given)
            world.network.knowledge = None

        vars(world)["log_event"] = forget  # as if nothing were kept
        await main(world)

    main.__name__ = forgetful.__name__ = "main"
    main.__qualname__ = forgetful.__qualname__ = "main"
    with session():
        foretold.run(main)
        assert foretold.run(main).digest == foretold.run(forgetful).digest


def chat(*order: str) -> list[dict[str, Any]]:
    """A history of three people: `a1` is a about message 1."""
    return [{"actor": each[0], "message": each[1]} for each in order]


def test_an_effect_seen_before_its_cause_is_found() -> None:
    """b answers message 1 with 2; c sees the answer first. The planted bug of every group chat."""
    history = chat("a1", "b1", "b2", "c2", "c1")
    order = foretold.causal(history, about="message")
    (violation,) = order.violations
    assert (violation.process, violation.effect, violation.cause) == ("c", history[3], history[4])
    assert "c saw {'actor': 'c', 'message': '2'} before" in str(violation)
    assert order.before(history[0], history[3])


@pytest.mark.parametrize(
    "order",
    [
        ("a1", "b1", "b2", "c1", "c2"),
        ("a1", "b2", "c2", "c1"),
        ("a1", "b2", "b1", "c2", "c1"),
        ("a1", "b1", "b2", "c2"),
        ("a1", "b1", "b2", "c1", "a2"),
    ],
    ids=["in order", "independent", "seen too late to matter", "never seen", "own"],
)
def test_right_histories_have_no_violation(order: tuple[str, ...]) -> None:
    """An order that is right, two messages that are independent of each other, and a message that
    is none of a process' business."""
    assert foretold.causal(chat(*order), about="message").violations == []


def test_messages_may_be_given() -> None:
    """For a history from elsewhere: pairs of events, and a name for what a process is."""
    sent, other, received, late = ({"node": n} for n in (1, 3, 2, 2))
    history = [sent, other, received, late]
    order = foretold.causal(history, process="node", messages=[(sent, received)])
    assert order.before(sent, late)
    assert order.concurrent_pairs == [(sent, other), (other, received), (other, late)]
    assert not order.before(sent, sent)
    assert not order.concurrent(sent, sent)


def test_a_message_received_before_it_was_sent() -> None:
    """A record that cannot be right (two clocks, say) is told and not obeyed."""
    received, sent = {"actor": "b"}, {"actor": "a"}
    order = foretold.causal([received, sent], messages=[(sent, received)])
    assert "received before it was sent" in str(order.violations)
    assert order.concurrent(received, sent)


def test_operations_have_actors() -> None:
    """The operations that `foretold.linearizable` takes are a history as well."""
    first, second = foretold.Operation("ann", "put"), foretold.Operation("ann", "get")
    assert foretold.causal([first, second]).before(first, second)


def test_wrong_calls_are_told() -> None:
    """Events of no process, and events of another history."""
    with pytest.raises(foretold.UsageError, match="does not know of which process"):
        foretold.causal([{"what": 1}])
    order = foretold.causal([{"actor": "a"}])
    with pytest.raises(foretold.UsageError, match="not an event of this history"):
        order.before({"actor": "a"}, order.events[0])


class Chat(foretold.Machine):
    """Three replicas of a chat. Each sends what it writes to all others, over connections that
    partitions hold up; `waits` makes a replica wait for what a message answers."""

    faults = foretold.faults.network.only("hold", "latency")
    steps = 6
    waits = True

    async def setup(self) -> None:
        self.seen: dict[str, list[int]] = {name: [] for name in ("a", "b", "c")}
        self.early: dict[str, list[tuple[int, list[int]]]] = {name: [] for name in self.seen}
        self.number = 0
        for name in self.seen:
            self.world.host(name).start(functools.partial(self.serve, name))
            await self.world.host(name).listening(PORT)

    async def serve(self, name: str) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number, *answers = map(int, (await reader.readline()).split())
            self.early[name].append((number, answers))
            self.show(name)
            writer.close()

        await asyncio.start_server(talk, "0.0.0.0", PORT)
        await asyncio.Event().wait()

    def show(self, name: str) -> None:
        for number, answers in list(self.early[name]):
            if not self.waits or set(answers) <= set(self.seen[name]):
                self.early[name].remove((number, answers))
                self.seen[name].append(number)
                foretold.event("Seen", message=number)
                return self.show(name)
        return None

    @foretold.rule()
    async def write(self) -> None:
        name = foretold.choose(["a", "b", "c"])
        await self.world.host(name).start(lambda: self.post(name)).ended()

    async def post(self, name: str) -> None:
        self.number += 1
        number, answers = self.number, list(self.seen[name])
        self.seen[name].append(number)
        foretold.event("Written", message=number)
        others = [other for other in self.seen if other != name]
        await foretold.together(*(self.send(other, number, answers) for other in others))

    async def send(self, other: str, number: int, answers: list[int]) -> None:
        async def now() -> None:
            _, writer = await asyncio.open_connection(other, PORT)
            writer.write(" ".join(map(str, (number, *answers))).encode() + b"\n")
            writer.close()

        asyncio.get_running_loop().create_task(now())

    @foretold.invariant(when="end")
    def causes_come_first(self) -> None:
        assert foretold.causal(self.world.log, about="message").violations == []


def test_a_chat_that_does_not_wait_for_causes_is_found() -> None:
    """Planted: a replica shows what it gets at once. The right one is silent under the same
    faults."""
    hasty = type("Hasty", (Chat,), {"waits": False})
    found = foretold.explore(hasty, runs=60, shrink=False, confirm=False)
    assert found.failure is not None
    assert "saw" in str(found.failure.exception)
    assert foretold.explore(Chat, runs=25, shrink=False, confirm=False).failure is None
