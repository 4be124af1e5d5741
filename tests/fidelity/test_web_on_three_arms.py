"""A client cannot tell the difference: straight into ASGI, uvicorn in the world, uvicorn on Linux.

Each program runs on all three, and must have seen the same: status, headers, bodies, exceptions and
their words, connections; and so must the application that it talks to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn

import foretold
from tests.fidelity import web_probes, web_programs
from tests.fidelity.web_application import Application

SEEDS = range(3)
INSECURE = httpx.create_ssl_context(verify=False)


class Stage:
    """What a program needs of its arm."""

    def __init__(self, app: Application, client: Any, kill: Callable[[], object], url: str) -> None:
        self.log = app.log
        self.client, self.kill = client, kill
        self._address = url.removeprefix("http://")

    def without_address(self, data: Any) -> Any:
        """The scope, with no word about where the server is."""
        headers = data["scope"]["headers"]
        data["scope"]["headers"] = [
            [name, re.sub(re.escape(self._address), "HERE", value)] for name, value in headers
        ]
        return data


def in_the_world(program: Any, through: str, seed: int) -> Any:
    """On one of the simulated arms."""

    async def main(world: foretold.World) -> Any:
        app = Application()
        web = await world.web(app, through=through)
        stage = Stage(app, lambda **options: web.client("ada", **options), web.host.kill, web.url)
        return await program(stage)

    return foretold.run(main, seed=seed)


async def _on_linux(program: Any) -> Any:
    app = Application()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    (listening,) = server.servers[0].sockets
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def kill() -> None:
        """As the kernel does with the sockets of a dead process."""
        for listener in server.servers:
            listener.close()
        for connection in list(server.server_state.connections):
            connection.transport.close()

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, verify=INSECURE, **options)

    try:
        return await program(Stage(app, client, kill, url))
    finally:
        server.should_exit = True
        await serving


@pytest.fixture(autouse=True)
def _quiet():
    """uvicorn logs every mistake of the application."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("program", web_programs.PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("through", ["asgi", "uvicorn"])
def test_clients_see_the_same_on_every_arm(program: Any, through: str) -> None:
    """What the real arm observes is what every simulated world does, and each seed has one
    digest."""
    real = asyncio.run(_on_linux(program))
    assert real, "a program that reports nothing compares nothing"
    for seed in SEEDS:
        first = in_the_world(program, through, seed)
        assert first.value == real, f"seed {seed}"
        assert in_the_world(program, through, seed).digest == first.digest


@pytest.mark.parametrize("probes", [web_probes.answers, web_probes.questions])
@pytest.mark.parametrize("through", ["asgi", "uvicorn"])
def test_the_edge_of_http_is_the_same_on_every_arm(probes: Any, through: str) -> None:
    """What h11 refuses leaves neither a client nor a server, what it rewrites arrives rewritten:
    for each probe the client sees the same and the application hears the same, and the same
    connections are used again."""
    real = asyncio.run(_on_linux(probes))
    found = in_the_world(probes, through, seed=0).value
    assert found.keys() == real.keys()
    assert {name: seen for name, seen in found.items() if seen != real[name]} == {}


def test_a_transport_that_waits_for_the_application_is_noticed() -> None:
    """The suite can fail: httpx's own way into ASGI gives the response when the application has
    returned, and all of a body at once, and lets every header through. Three programs see that."""

    async def differs(program: Any) -> bool:
        app = Application()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)

        def client(**options: Any) -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=transport, base_url="http://web", **options)

        seen = await program(Stage(app, client, lambda: None, "http://web"))
        return bool(seen != await _on_linux(program))

    assert asyncio.run(differs(web_programs.background))
    assert asyncio.run(differs(web_programs.mistakes))
    assert asyncio.run(differs(web_probes.answers))


# --- lifespans -----------------------------------------------------------------------------------


def _lives(app: Application, through: str) -> Any:
    """What an application notes of its life, and whether it could be served."""

    async def main(world: foretold.World) -> Any:
        try:
            web = await world.web(app, through=through)
        except Exception as error:
            return type(error).__name__
        async with web.client() as client:
            return (await client.get("/scope")).json()["scope"]["state"]

    return foretold.run(main, background_errors="ignore").value, app.log


async def _serve(server: uvicorn.Server) -> None:
    with contextlib.suppress(SystemExit):
        await server.serve()


async def _lives_on_linux(app: Application) -> Any:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    serving = asyncio.create_task(_serve(server))
    while not server.started and not serving.done():
        await asyncio.sleep(0)
    if serving.done():
        return "not served", app.log
    (listening,) = server.servers[0].sockets
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, verify=INSECURE) as client:
        state = (await client.get("/scope")).json()["scope"]["state"]
    server.should_exit = True
    await serving
    return state, app.log


@pytest.mark.parametrize("through", ["asgi", "uvicorn"])
@pytest.mark.parametrize(
    ("startup", "shutdown"),
    [("complete", "complete"), ("complete", "failed"), ("failed", ""), ("raises", "")],
)
def test_lifespans_are_the_same_on_every_arm(through: str, startup: str, shutdown: str) -> None:
    """Startup, shutdown and state are the application's on all arms; one whose startup fails is
    served on none, one that knows no lifespan is."""
    real = asyncio.run(_lives_on_linux(Application(startup=startup, shutdown=shutdown)))
    found, log = _lives(Application(startup=startup, shutdown=shutdown), through)
    if startup == "failed":
        assert real[0] == "not served"
        assert found == "StartupFailed"
    else:
        assert found == real[0]
    assert log == real[1]
