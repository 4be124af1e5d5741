"""examples/cardinal on the network: NATS between shards, HTTP and WebSocket for players.

In the simulation the broker is ours and the sockets are the world's. Against a real `nats-server`
the same end-to-end test runs in real time, where one is installed and `make soak` asks for it.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import unittest
from typing import Any

import nats
import pytest
import websockets

import foretold
from examples.cardinal import e2e
from examples.cardinal.__main__ import arguments, make_world, serve
from examples.cardinal.archetype import EntityId
from examples.cardinal.broker import Broker, matches
from examples.cardinal.e2e import NoServer, NotAskedFor, play, run_e2e
from examples.cardinal.games import adventure, market
from examples.cardinal.gateway import Gateway, Personas
from examples.cardinal.http_face import HttpFace
from examples.cardinal.nats_face import NatsFace
from examples.cardinal.system import SystemContext
from examples.cardinal.testing import check_world
from examples.cardinal.world import RunLoop, World, WorldOptions
from tests.helpers import SOAK_FACTOR

URL = "nats://bus:4222"


async def start_bus(world: foretold.World) -> None:
    """Our broker on a host of its own."""
    bus = world.host("bus")
    bus.start(lambda: Broker().main())
    await bus.listening(4222)


@pytest.mark.parametrize(
    ("pattern", "subject", "right"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("*.b", "a.c", False),
        ("a.b.c", "a.b", False),
    ],
)
def test_subjects_match_as_in_nats(pattern: str, subject: str, right: bool) -> None:
    """`*` is one word, `>` all that follow."""
    assert matches(tuple(pattern.split(".")), tuple(subject.split("."))) is right


async def ask(client: Any, subject: str, request: Any) -> Any:
    """A request and its answer."""
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return json.loads((await client.request(subject, data, 2)).data)


async def on_nats(world: foretold.World) -> None:
    """A player claims a name, sends a command, sees the event, asks for the state; what is wrong is
    answered with a sentence."""
    await start_bus(world)
    shard = World(WorldOptions(address="eu"))
    adventure.setup(shard)
    face = NatsFace(Gateway(shard, Personas(b"s")), URL)
    await face.open()
    await shard.start()
    client: Any = await nats.connect(URL)
    events = list[Any]()

    async def note(message: Any) -> None:
        events.append(json.loads(message.data))

    await client.subscribe("cardinal.eu.event.*", cb=note)
    await client.flush()
    claimed = await ask(client, "cardinal.eu.persona", {"persona": "ada"})
    again = await ask(client, "cardinal.eu.persona", {"persona": "ada"})
    assert again == {"error": "ada belongs to somebody else"}
    attack = {"target": 0, "damage": 149}
    request = {**claimed, "payload": attack}
    assert await ask(client, "cardinal.eu.command.AttackPlayer", request) == {"number": 1}
    for wrong, said in (
        ({**request, "token": "x"}, "not the token"),
        ({**request, "payload": {"target": 0}}, "has the fields target, damage"),
        ({**request, "payload": {"target": "0", "damage": 1}}, "expected int"),
        (b"no json", "not the token"),
    ):
        answer = await ask(client, "cardinal.eu.command.AttackPlayer", wrong)
        assert said in answer["error"]
    assert "no command" in (await ask(client, "cardinal.eu.command.Fly", request))["error"]
    await shard.tick(1.0)
    found = await ask(client, "cardinal.eu.query", {"find": ["Gravestone"]})
    assert [each["Gravestone"]["nickname"] for each in found["entities"]] == ["default-0"]
    assert "error" in await ask(client, "cardinal.eu.query", {"find": ["Nothing"]})
    await asyncio.sleep(1)
    assert [each["event"] for each in events] == ["PlayerDied"]
    await client.close()
    await face.close()


def test_a_shard_on_nats() -> None:
    """nats-py, unmodified, on both sides."""
    foretold.explore(on_nats, runs=3, seed=0, confirm=False).raise_failure()


# ---------------------------------------------------------------- two shards


def goods_in(shard: World) -> int:
    """Ashore, under the hammer and at sea."""
    state, total = shard.core.state, 0
    for name in ("Store", "Lot", "Cargo"):
        wanted = [state.registry.id_of(name)]
        total += sum(value.goods for _, value in state.rows(state.containing(wanted), wanted))
    return total


async def trade(world: foretold.World, *, ships: int = 6) -> None:
    """Traders of the harbour ship goods to the island, on hosts of their own. When all ships have
    arrived, no goods are lost and none doubled."""
    await start_bus(world)
    shards: dict[str, World] = {}

    def main_of(address: str) -> Any:
        async def main() -> None:
            shard = World(WorldOptions(address=address))
            market.setup(shard)
            face = NatsFace(Gateway(shard, Personas(b"s")), URL)
            await face.open()
            shards[address] = shard
            await RunLoop(shard).run()

        return main

    for address in ("harbour", "island"):
        world.host(address).start(main_of(address))
    await asyncio.sleep(1)
    harbour, island = shards["harbour"], shards["island"]
    harbour.send("ada", market.Join("ada"))
    await asyncio.sleep(0.2)
    for _ in range(ships):
        cargo = market.Manifest(foretold.between(0, 3, "goods"), ["fragile"])
        harbour.send("ada", market.Ship(EntityId(0), cargo))
        await asyncio.sleep(foretold.between(0, 10, "pause") / 100)
    await asyncio.sleep(2)
    check_world(harbour)
    check_world(island)
    total = goods_in(harbour) + goods_in(island)
    foretold.always(total == market.START_GOODS, "goods are conserved", total=total)
    foretold.sometimes(goods_in(island) > 0, "goods arrive at the island")


def test_two_shards_trade() -> None:
    """Messages between shards, whatever the order."""
    foretold.explore(trade, runs=4, seed=0, confirm=False).raise_failure()


# ---------------------------------------------------------------- players


async def with_players(world: foretold.World) -> None:
    """HTTP and a WebSocket: what is asked for, what is told, and the developer's switches."""
    shard = World(WorldOptions(address="eu", tick_s=0.1))
    adventure.setup(shard)
    loop = RunLoop(shard)
    loop.pause()
    face = HttpFace(Gateway(shard, Personas(b"s")), loop)
    web = await world.web(face.app)
    running = asyncio.ensure_future(loop.run())
    player = web.client("player")
    token = (await player.post("/personas", json={"persona": "ada"})).json()
    request = {**token, "payload": {"target": 2, "damage": 149}}
    assert (await player.post("/commands/AttackPlayer", json=request)).json() == {"number": 1}
    assert (await player.post("/commands/Fly", json=request)).status_code == 400
    stepped = (await player.post("/debug/step")).json()
    assert stepped == {"height": 1, "paused": True}
    found = (await player.post("/query", json={"find": ["Player", "Health"]})).json()
    assert len(found["entities"]) == 9
    assert (await player.post("/debug/fly")).status_code == 400
    assert (await player.post("/debug/reset")).json()["height"] == 0
    assert (await player.post("/debug/resume")).json()["paused"] is False
    await asyncio.sleep(1)
    assert shard.height >= 9
    running.cancel()


def test_players_over_http() -> None:
    """The application in a web server of the world."""
    foretold.run(with_players)


async def whole_server(world: foretold.World) -> None:
    """`python -m examples.cardinal` on a host, with uvicorn; a player at the other end of a real
    WebSocket client."""
    host = world.host("eu")

    async def main() -> None:
        chosen = arguments(["--seconds", "5", "--tick-s", "0.1", "--port", "8000"])
        await serve(chosen, b"secret", "0.0.0.0")

    host.start(main)
    await host.listening(8000)
    heard = list[Any]()
    async with websockets.connect("ws://eu:8000/events?persona=ada") as socket:
        while len(heard) < 5:
            heard.append(json.loads(await socket.recv()))
    ticks = [each["tick"] for each in heard]
    foretold.always(ticks == list(range(ticks[0], ticks[0] + 5)), "each tick is told", ticks=ticks)


def test_the_whole_server_tells_its_ticks() -> None:
    """uvicorn, starlette and websockets as in production, on the world's network."""
    foretold.run(whole_server)


# ---------------------------------------------------------------- end to end


@pytest.mark.parametrize("game", [adventure, market])
def test_the_end_to_end_test_in_virtual_time(game: Any) -> None:
    """The same coroutine as in reality; the clock and the sockets are the world's."""

    async def main(world: foretold.World) -> Any:
        await start_bus(world)
        shard = World()
        game.setup(shard)
        return await play(shard, URL, 5.0, random.Random(foretold.between(0, 99, "seed")))

    played = foretold.run(main, seed=1).value
    assert played.ticks >= 60
    assert set(played.accepted) == set(e2e.world_of(game.setup).commands.kinds)
    assert not played.refused
    assert played.entities


def test_only_a_cancel_ends_a_world_rightly() -> None:
    """A system that fails in the background fails the end-to-end test."""

    def broken(world: World) -> None:
        adventure.setup(world)

        def fail(ctx: SystemContext) -> None:
            if ctx.height == 30:
                raise RuntimeError("a bug in a system")

        world.system(fail)

    async def main(world: foretold.World) -> None:
        await start_bus(world)
        await play(e2e.world_of(broken), URL, 5.0, random.Random(1))

    with pytest.raises(RuntimeError, match="a bug in a system"):
        foretold.run(main)


def test_without_a_nats_server_the_end_to_end_test_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never passes by doing nothing: pytest shows a skip, with the reason."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoServer, match="nats-server is not installed"):
        run_e2e(adventure.setup, seconds=30)
    monkeypatch.delenv("CARDINAL_E2E", raising=False)
    with pytest.raises(NotAskedFor, match="set CARDINAL_E2E=30"):
        run_e2e(adventure.setup)
    assert issubclass(NoServer, unittest.SkipTest)
    assert issubclass(NotAskedFor, unittest.SkipTest)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed")
@pytest.mark.parametrize("game", ["adventure", "market"])
def test_end_to_end_in_real_time(game: str) -> None:
    """Production configuration, real loop, real sockets, 30 seconds."""
    chosen = arguments(["--game", game, "--scheduler", "concurrent"])
    played = run_e2e(lambda: make_world(chosen), seconds=30.0 * min(SOAK_FACTOR, 4))
    print(played)  # noqa: T201  # the figures
    assert played.ticks > 100
    assert sum(played.accepted.values()) > 100
