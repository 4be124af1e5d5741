"""The same commands and the same check on a real server: its own loop, real time, real sockets.

A world in its production configuration runs in the background, while random commands come over
NATS. It may end in one way only: it is cancelled. Then its structure is checked.

    def test_my_game_for_real():
        run_e2e(my_game.setup)                  # skipped, unless CARDINAL_E2E says how many seconds

    run_e2e(my_game.setup, seconds=30)          # with the `nats-server` that is installed
    run_e2e(make_world, seconds=30, url="nats://…:4222")  # `make_world()` gives a World of yours

`play` is the whole test as a coroutine. Inside a simulation the clock and the sockets are the
world's, so that the end-to-end test itself is tested deterministically.
"""

import asyncio
import inspect
import json
import os
import random
import shutil
import socket
import subprocess
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import nats

from examples.cardinal.gateway import Gateway, Personas, named
from examples.cardinal.invariants import check_world
from examples.cardinal.nats_face import NatsFace
from examples.cardinal.payloads import random_payload
from examples.cardinal.world import RunLoop, World

COMMAND_S_MAX = 2.0
PERSONA = "e2e"
LOOK_EVERY = 20
"""Commands from one look at the living entities to the next."""


class NotAskedFor(unittest.SkipTest):
    """An end-to-end test takes real time and may be flaky, so it is off. A test is skipped."""


class NoServer(unittest.SkipTest):
    """There is no `nats-server` on this machine: install it, or give `url`. A test is skipped."""


@dataclass
class Played:
    """What came of it."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    events: int = 0
    ticks: int = 0
    entities: int = 0


def run_e2e(
    setup: Callable[..., Any],
    *,
    seconds: float | None = None,
    seed: int = 0,
    url: str | None = None,
) -> Played:
    """`setup(world)` registers a game on a world with the options of production; a `setup()`
    without arguments gives the world itself."""
    seconds = float(os.environ.get("CARDINAL_E2E", 0)) if seconds is None else seconds
    if seconds <= 0:
        raise NotAskedFor("end-to-end tests are off: set CARDINAL_E2E=30, for 30 seconds each")
    world = world_of(setup)
    if url is not None:
        return asyncio.run(play(world, url, seconds, random.Random(seed)))
    with real_server() as own:
        return asyncio.run(play(world, own, seconds, random.Random(seed)))


def world_of(setup: Callable[..., Any]) -> World:
    if not inspect.signature(setup).parameters:
        made = setup()
        assert isinstance(made, World), f"{setup.__name__}() gives a World, not {made!r}"
        return made
    world = World()
    setup(world)
    return world


@contextmanager
def real_server() -> Iterator[str]:
    """The real `nats-server` on a free port."""
    program = shutil.which("nats-server")
    if program is None:
        raise NoServer("nats-server is not installed; install it, or pass url=")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, "-a", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def play(world: World, url: str, seconds: float, source: random.Random) -> Played:
    """The world runs, and is sent commands for so long. Raises whatever ended it but a cancel."""
    played = Played()
    gateway = Gateway(world, Personas(b"e2e"))
    face = NatsFace(gateway, url)
    await face.open()
    running = asyncio.ensure_future(RunLoop(world).run())
    try:
        await _bombard(world, url, seconds, source, played, running)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await face.close()
    played.ticks, played.entities = world.height, check_world(world)
    return played


async def _bombard(
    world: World,
    url: str,
    seconds: float,
    source: random.Random,
    played: Played,
    running: "asyncio.Future[None]",
) -> None:
    """Random commands, one after the other, as a player would send them."""

    async def count(message: Any) -> None:
        played.events += 1

    prefix = f"cardinal.{world.options.address}"
    client: Any = await nats.connect(url)
    await client.subscribe(f"{prefix}.event.*", cb=count)
    token = (await _ask(client, f"{prefix}.persona", {"persona": PERSONA}))["token"]
    kinds = list(world.commands.kinds.items())
    deadline_s = asyncio.get_running_loop().time() + seconds
    living: list[list[int]] = []
    sent = 0
    while asyncio.get_running_loop().time() < deadline_s and not running.done():
        if sent % LOOK_EVERY == 0:
            found = await _ask(client, f"{prefix}.query", {"find": []})
            ids = [each["entity"] for each in found["entities"]]
            living = [ids] if ids else []
        name, kind = source.choice(kinds)
        payload = named(random_payload(kind, source, living))
        request = {"persona": PERSONA, "token": token, "payload": payload}
        answer = await _ask(client, f"{prefix}.command.{name}", request)
        (played.refused if "error" in answer else played.accepted)[name] += 1
        sent += 1
    await client.close()


async def _ask(client: Any, subject: str, request: dict[str, Any]) -> Any:
    answer = await client.request(subject, json.dumps(request).encode(), COMMAND_S_MAX)
    return json.loads(answer.data)
