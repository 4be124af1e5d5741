"""A shard that runs by itself.

    python -m examples.cardinal --game adventure --port 8000
    python -m examples.cardinal --game market --address island --nats nats://127.0.0.1:4222 \\
        --store file:/var/lib/island --scheduler concurrent
"""

import argparse
import asyncio
import logging
import os
import secrets

import uvicorn

from examples.cardinal.commands import Backlog, FileBacklog, MemoryBacklog
from examples.cardinal.games import adventure, market
from examples.cardinal.gateway import Gateway, Personas
from examples.cardinal.http_face import HttpFace
from examples.cardinal.nats_face import NatsFace
from examples.cardinal.schedulers import Concurrent, Scheduler, Sequential
from examples.cardinal.stores import FileStore, HttpStore, MemoryStore, SnapshotStore
from examples.cardinal.world import RunLoop, World, WorldOptions

GAMES = {"adventure": adventure.setup, "market": market.setup}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.cardinal", description=__doc__)
    parser.add_argument("--game", choices=sorted(GAMES), default="adventure")
    parser.add_argument("--address", default="world", help="the name of this shard")
    parser.add_argument("--port", type=int, default=8000, help="HTTP and WebSocket for players")
    parser.add_argument("--nats", help="the URL of a NATS server; none: no other shards")
    parser.add_argument("--store", default="memory", help="memory, file:DIRECTORY or http://…")
    parser.add_argument("--scheduler", choices=("sequential", "concurrent"), default="sequential")
    parser.add_argument("--tick-s", type=float, default=0.05)
    parser.add_argument("--seconds", type=float, help="end after so long; for ever if not given")
    return parser.parse_args(given)


def make_world(chosen: argparse.Namespace) -> World:
    """The world of these arguments, with its game."""
    store, backlog = _storage(chosen.store, chosen.game)
    scheduler: Scheduler = Concurrent() if chosen.scheduler == "concurrent" else Sequential()
    options = WorldOptions(address=chosen.address, tick_s=chosen.tick_s)
    world = World(options, store=store, backlog=backlog, scheduler=scheduler)
    GAMES[chosen.game](world)
    return world


def _storage(where: str, game: str) -> tuple[SnapshotStore, Backlog]:
    if where.startswith("file:"):
        folder = where.removeprefix("file:")
        os.makedirs(folder, exist_ok=True)
        probe = World()
        GAMES[game](probe)
        path = os.path.join(folder, "commands")
        return FileStore(folder), FileBacklog(path, probe.commands.kinds)
    if where.startswith("http"):
        return HttpStore(where), MemoryBacklog()
    return MemoryStore(), MemoryBacklog()


async def serve(chosen: argparse.Namespace, secret: bytes, host: str = "127.0.0.1") -> None:
    """The loop, the players' server and the connection to NATS, until one of them ends."""
    world = make_world(chosen)
    loop, gateway = RunLoop(world), Gateway(world, Personas(secret))
    http = HttpFace(gateway, loop)
    config = uvicorn.Config(
        http.app, host=host, port=chosen.port, log_level="warning", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    face = NatsFace(gateway, chosen.nats) if chosen.nats else None
    if face is not None:
        await face.open()
    running = [asyncio.ensure_future(loop.run()), asyncio.ensure_future(server.serve())]
    print(f"{chosen.game} at {chosen.address}: http://127.0.0.1:{chosen.port}", flush=True)
    try:
        ended, _ = await asyncio.wait(
            running, timeout=chosen.seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for each in ended:
            each.result()
    finally:
        server.should_exit = True
        running[0].cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if face is not None:
            await face.close()
    print(f"{world.height} ticks", flush=True)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    secret = os.environ.get("CARDINAL_SECRET", "").encode() or secrets.token_bytes(32)
    asyncio.run(serve(arguments(), secret))


if __name__ == "__main__":
    main()
