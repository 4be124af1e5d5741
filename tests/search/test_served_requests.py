"""Requests to an application under `host.serve` have their own names in a story."""

from __future__ import annotations

import asyncio
from typing import Any

import foretold
from foretold.trace.events import Visited
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World


class Counter:
    """An application that loses an update if two requests meet."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"  # it has no lifespan
        count = self.count
        await asyncio.sleep(0.01)
        self.count = count + 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


async def main(world: World, alike: int = 1) -> None:
    """Requests of two hosts at the same time."""
    app, api = Counter(), world.host("api")
    api.serve(app, 8000)
    await api.listening(8000)

    async def add(path: str) -> None:
        reader, writer = await asyncio.open_connection("api", 8000)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()

    shop = world.host("shop").start(lambda: add("/sold"))
    await foretold.together(*(add("/added") for _ in range(alike)))
    await shop.ended()
    assert app.count == 1 + alike


def test_requests_are_told_by_their_names() -> None:
    """Method, path and the host that asks. Not `run_asgi`, which is a function of uvicorn's."""
    failure = foretold.explore(main, runs=20, confirm=False).failure
    assert failure is not None
    story = str(failure.story)
    assert "  GET /added of main " in story
    assert "  GET /sold of shop " in story
    assert "run_asgi" not in story


def test_requests_that_are_alike_have_numbers() -> None:
    """Two of one host for one path: the story could not tell them apart."""
    settings = Settings()
    tape = foretold.Tape.seeded(0, settings.on_tape())
    done = execute(bind_main(lambda world: main(world, alike=2)), tape, settings, detail=True)
    visits = [f"{e.asks} of {e.client}" for e in done.trace.events if isinstance(e, Visited)]
    assert sorted(visits) == ["GET /added (2) of main", "GET /added of main", "GET /sold of shop"]


def test_to_tell_of_requests_changes_nothing() -> None:
    """With details and without, a tape has one digest."""
    for seed in range(3):
        digests = set()
        for detail in (False, True, True):
            settings = Settings()
            tape = foretold.Tape.seeded(seed, settings.on_tape())
            digests.add(execute(bind_main(main), tape, settings, detail=detail).trace.digest)
        assert len(digests) == 1
