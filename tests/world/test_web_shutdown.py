"""The end of an application of `world.web`: a shutdown that fails is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

import foretold

WAYS = pytest.mark.parametrize("through", ["asgi", "uvicorn"])


@asynccontextmanager
async def broken_end(app: FastAPI) -> AsyncIterator[None]:
    """What is to be done at the end goes wrong."""
    yield
    raise LookupError("nothing to close")


async def says_failed(scope: Any, receive: Any, send: Any) -> None:
    """Its shutdown fails, and it says so without an exception."""
    for how in ("startup.complete", "shutdown.failed"):
        await receive()
        await send({"type": f"lifespan.{how}"})


@WAYS
@pytest.mark.parametrize("app", [FastAPI(lifespan=broken_end), says_failed])
@pytest.mark.parametrize("end", ["regular", "stop"])
def test_a_shutdown_that_fails_fails_the_run(through: str, app: Any, end: str) -> None:
    """As an exception in a background task does: at the end of a run and when the server is told to
    stop; and it stands in the story."""

    async def main(world: foretold.World) -> None:
        web = await world.web(app, through=through)
        if end == "stop":
            await web.host.stop()

    outcome = foretold.explore(main, runs=1)
    assert outcome.failure is not None
    assert "web, lifespan failed: " in outcome.failure.story
    assert type(outcome.failure.exception).__name__ in ("LookupError", "ShutdownFailed")
    foretold.run(main, background_errors="ignore")


@WAYS
@pytest.mark.parametrize("end", ["kill", "crash"])
def test_a_killed_server_has_no_shutdown_that_could_fail(through: str, end: str) -> None:
    """Nothing is run, so nothing goes wrong."""

    async def main(world: foretold.World) -> None:
        web = await world.web(FastAPI(lifespan=broken_end), through=through)
        getattr(web.host, end)()

    foretold.run(main)
