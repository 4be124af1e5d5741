"""`world.web`: an application on its own host, clients for actors; what a test may do to both."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import StreamingResponse

import foretold
from foretold.errors import UsageError
from foretold.world.world import World

WAYS = pytest.mark.parametrize("through", ["asgi", "uvicorn"])


def application(log: list[Any]) -> FastAPI:
    """A small service that notes what happens to it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        log.append("startup")
        yield
        log.append("shutdown")

    app = FastAPI(lifespan=lifespan)

    @app.get("/peer")
    async def peer(request: Request) -> dict[str, Any]:
        assert request.client is not None
        return {"host": request.client.host, "path": request.scope["path"]}

    @app.get("/wait/{seconds}")
    async def wait(seconds: float) -> float:
        log.append("begins")
        await asyncio.sleep(seconds)
        log.append("ends")
        return seconds

    @app.get("/later")
    async def later(tasks: BackgroundTasks) -> None:
        tasks.add_task(work)

    async def work() -> None:
        await asyncio.sleep(0.5)
        log.append("worked")

    @app.get("/large")
    async def large() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            for number in range(40):
                log.append(number)
                yield b"x" * 50_000

        return StreamingResponse(parts())

    return app


def run(main: Any, **settings: Any) -> Any:
    """One run; its value."""
    return foretold.run(main, **settings).value


# --- clients -------------------------------------------------------------------------------------


@WAYS
def test_every_actor_has_an_address_of_its_own(through: str) -> None:
    """An actor keeps its address, by name or as an object with a name; another one has another;
    a client of nobody has that of the test's host."""

    class Actor:
        name = "ada"

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through)
        clients = [web.client("ada"), web.client(Actor()), web.client("bob"), web.client()]
        found = [(await client.get("/peer")).json()["host"] for client in clients]
        for client in clients:
            await client.aclose()
        return found, world.home.ip

    (ada, again, bob, nobody), home = run(main)
    assert ada == again != bob
    assert nobody == home not in (ada, bob)


@WAYS
def test_a_client_takes_the_options_of_httpx(through: str) -> None:
    """Headers, cookies, params, event hooks and the rest are httpx's; other servers are reached
    over the network."""

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through)
        await world.web(application([]), through="uvicorn", host="other", port=9000)
        async with web.client("ada", headers={"a": "1"}, cookies={"b": "2"}) as client:
            here = await client.get("/peer")
            there = await client.get("http://other:9000/peer")
        assert here.request.headers["a"] == "1"
        assert here.request.headers["cookie"] == "b=2"
        return here.json(), there.json()

    here, there = run(main)
    assert here == there


@WAYS
def test_a_root_path_is_in_the_scope(through: str) -> None:
    """As behind a proxy that takes a prefix away."""

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through, root_path="/api")
        async with web.client() as client:
            return (await client.get("/peer")).json()["path"]

    assert run(main) == "/api/peer"


@WAYS
def test_an_application_is_found_by_its_name(through: str) -> None:
    """Each process of an isolating host imports it anew: nothing survives a restart."""

    async def main(world: World) -> Any:
        world.host("web", isolate=["tests.fidelity.web_application"])
        web = await world.web("tests.fidelity.web_application:app", through=through)
        async with web.client() as client:
            before = (await client.get("/remember")).text, (await client.get("/remember")).text
        web.host.kill()
        web.host.restart()
        await web.host.listening(web.port)
        async with web.client() as client:
            return before, (await client.get("/remember")).text

    assert run(main) == (("1", "2"), "1")


# --- time ----------------------------------------------------------------------------------------


@WAYS
def test_what_runs_on_after_the_response_overlaps_with_the_next_request(through: str) -> None:
    """The client has its response at once; a background task goes on while it asks again, and the
    server does not end before it has."""
    log: list[Any] = []

    async def main(world: World) -> None:
        web = await world.web(application(log), through=through)
        loop = asyncio.get_running_loop()
        async with web.client() as client:
            began = loop.time()
            await client.get("/later")
            await client.get("/peer")
            assert loop.time() - began < 0.2
            assert "worked" not in log

    run(main)
    assert log == ["startup", "worked", "shutdown"]


def test_requests_take_the_latency_of_the_network() -> None:
    """It is drawn for each message, the calm one is the shortest; `world.network` sets it."""

    async def main(world: World) -> float:
        web = await world.web(application([]))
        world.network.latency(0.25)
        loop = asyncio.get_running_loop()
        async with web.client() as client:
            await client.get("/peer")
            began = loop.time()
            await client.get("/peer")
            return loop.time() - began

    assert 0.5 <= run(main) < 0.55


def test_other_seeds_have_other_latencies_and_each_seed_its_own() -> None:
    """The whole exchange is on the tape."""

    async def main(world: World) -> None:
        web = await world.web(application([]))
        async with web.client("ada") as ada, web.client("bob") as bob:
            await asyncio.gather(ada.get("/peer"), bob.get("/peer"), ada.get("/wait/0.1"))

    digests = [foretold.run(main, seed=seed).digest for seed in range(6)]
    assert len(set(digests)) == 6
    assert digests == [foretold.run(main, seed=seed).digest for seed in range(6)]


@WAYS
def test_time_limits_are_in_virtual_time(through: str) -> None:
    """An hour's patience costs nothing, and ends when it ends."""

    async def main(world: World) -> float:
        web = await world.web(application([]), through=through)
        loop = asyncio.get_running_loop()
        async with web.client(timeout=3_600) as client:
            began = loop.time()
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/wait/4000")
            return loop.time() - began

    started = time.perf_counter()
    assert 3_600 <= run(main) < 3_601
    assert time.perf_counter() - started < 60


@WAYS
def test_a_client_that_does_not_read_holds_the_application_back(through: str) -> None:
    """Buffers are finite: who streams a large body waits until the client has read."""
    log: list[Any] = []

    async def main(world: World) -> int:
        web = await world.web(application(log), through=through)
        async with web.client() as client, client.stream("GET", "/large") as response:
            await asyncio.sleep(5)
            sent = len([entry for entry in log if isinstance(entry, int)])
            size = len(b"".join([part async for part in response.aiter_bytes()]))
        assert size == 40 * 50_000
        return sent

    assert 5 < run(main) < 20


# --- the server's life ---------------------------------------------------------------------------


@WAYS
def test_sigterm_lets_requests_end(through: str) -> None:
    """New clients are refused, requests in flight get their response, then the lifespan ends."""
    log: list[Any] = []

    async def main(world: World) -> None:
        web = await world.web(application(log), through=through)
        async with web.client() as client, web.client() as other:
            asking = asyncio.create_task(client.get("/wait/1"))
            await asyncio.sleep(0.5)
            stopping = asyncio.create_task(web.host.stop())
            await asyncio.sleep(0.2)
            with pytest.raises(httpx.ConnectError):
                await other.get("/peer")
            assert (await asking).json() == 1
            assert await stopping

    run(main)
    assert log == ["startup", "begins", "ends", "shutdown"]


@WAYS
def test_a_killed_server_closes_its_connections_and_starts_anew(through: str) -> None:
    """Requests in flight end with an error, nobody is there until the restart, no `shutdown` is
    seen, and the lifespan begins anew."""
    log: list[Any] = []

    async def main(world: World) -> None:
        web = await world.web(application(log), through=through)
        async with web.client() as client:
            asking = asyncio.create_task(client.get("/wait/1"))
            await asyncio.sleep(0.5)
            web.host.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                await asking
            with pytest.raises(httpx.ConnectError):
                await client.get("/peer")
            web.host.restart()
            await web.host.listening(web.port)
            assert (await client.get("/peer")).status_code == 200

    run(main)
    assert log == ["startup", "begins", "startup", "shutdown"]


@WAYS
def test_a_crashed_server_is_silent(through: str) -> None:
    """The power is gone: nobody says anything, and clients wait as long as they want to."""

    async def main(world: World) -> None:
        web = await world.web(application([]), through=through)
        async with web.client() as client:
            asking = asyncio.create_task(client.get("/wait/1"))
            await asyncio.sleep(0.5)
            web.host.crash()
            with pytest.raises(httpx.ReadTimeout):
                await asking
            with pytest.raises(httpx.ConnectTimeout):
                await client.get("/peer")
            web.host.restart()
            await web.host.listening(web.port)
            assert (await client.get("/peer")).status_code == 200

    run(main)


@WAYS
def test_a_paused_server_answers_when_it_goes_on(through: str) -> None:
    """SIGSTOP: its kernel takes connections, its program does nothing."""

    async def main(world: World) -> float:
        web = await world.web(application([]), through=through)
        loop = asyncio.get_running_loop()
        async with web.client(timeout=60) as client:
            await client.get("/peer")
            web.host.pause()
            began = loop.time()
            asking = asyncio.create_task(client.get("/peer"))
            await asyncio.sleep(3)
            web.host.resume()
            await asking
            return loop.time() - began

    assert 3 <= run(main) < 3.1


@WAYS
def test_the_network_verbs_reach_requests(through: str) -> None:
    """A partition is silent until it is repaired; a reset breaks connections."""

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through)
        async with web.client() as client:
            await client.get("/peer")
            world.network.partition("main", "web")
            with pytest.raises(httpx.TimeoutException):
                await client.get("/peer")
            world.network.repair("main", "web")
            assert (await client.get("/peer")).status_code == 200
            asking = asyncio.create_task(client.get("/wait/1"))
            await asyncio.sleep(0.5)
            world.network.reset("main", "web")
            with pytest.raises(httpx.ReadError):
                await asking

    run(main)


@WAYS
def test_an_application_that_does_not_start_again_is_tried_again(through: str) -> None:
    """As a supervisor does: after a restart whose startup fails, once a second."""
    starts: list[int] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        starts.append(len(starts))
        if len(starts) in (2, 3):
            raise RuntimeError("the database is not there yet")
        yield

    async def main(world: World) -> None:
        web = await world.web(FastAPI(lifespan=lifespan), through=through)
        web.host.kill()
        web.host.restart()
        async with web.client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/")
            await web.host.listening(web.port)
            assert (await client.get("/")).status_code == 404

    run(main)
    assert starts == [0, 1, 2, 3]


@WAYS
def test_an_exception_of_the_application_is_in_the_story(through: str) -> None:
    """The client sees a 500; the reader of a failure sees why."""
    app = FastAPI()

    @app.get("/")
    async def fails() -> None:
        raise KeyError("lamp")

    async def main(world: World) -> None:
        web = await world.web(app, through=through)
        async with web.client() as client:
            foretold.always((await client.get("/")).status_code == 200, "no server error")

    outcome = foretold.explore(main, runs=1)
    assert outcome.failure is not None
    [line] = [each for each in outcome.failure.story.splitlines() if "web, application" in each]
    assert line.endswith("web, application: GET / raised KeyError: 'lamp'")
    raised_at = fails.__code__.co_firstlineno + 2
    assert f"{os.path.basename(__file__)}:{raised_at}  " in line


# --- bad input -----------------------------------------------------------------------------------


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    """Not what is wanted."""
    return []


async def too_few(scope: Any) -> None:
    """The second version of ASGI."""


@pytest.mark.parametrize(
    ("app", "options", "said"),
    [
        (None, {}, "needs an ASGI application"),
        (FastAPI, {}, "needs an ASGI application"),
        (wsgi, {}, "a WSGI application"),
        (too_few, {}, "does not take scope, receive and send"),
        (FastAPI(), {"through": "asg"}, "Did you mean 'asgi'?"),
        (FastAPI(), {"port": 0}, "a whole number from 1 to 65535"),
        (FastAPI(), {"port": "80"}, "a whole number from 1 to 65535"),
        (FastAPI(), {"host": "main"}, "that host is in use"),
        ("no.such.module:app", {}, "no.such.module"),
    ],
)
def test_bad_input_is_refused(app: Any, options: dict[str, Any], said: str) -> None:
    """The error says what is wrong and what to write instead."""

    async def main(world: World) -> None:
        await world.web(app, **options)

    with pytest.raises((UsageError, ModuleNotFoundError), match=said.replace("?", r"\?")):
        run(main)


@WAYS
def test_a_port_that_is_taken_is_refused(through: str) -> None:
    """Two servers of one host need two ports."""

    async def main(world: World) -> None:
        await world.web(FastAPI(), through=through)
        await world.web(FastAPI(), through=through, port=8001)
        with pytest.raises(UsageError, match="a program listens on that port of web already"):
            await world.web(FastAPI(), through=through)

    run(main)


@WAYS
def test_a_lifespan_that_fails_is_the_tests_own_error(through: str) -> None:
    """The application's exception, with a note; no wrapper, and nothing else fails."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if "DATABASE_URL" not in os.environ:
            raise LookupError("no DATABASE_URL")
        yield

    async def main(world: World) -> list[str]:
        with pytest.raises(LookupError) as caught:
            await world.web(FastAPI(lifespan=lifespan), through=through)
        return caught.value.__notes__

    assert "foretold: the application at web did not start" in run(main)


@WAYS
def test_a_variable_that_is_missing_is_named_with_what_to_write(through: str) -> None:
    """`os.environ["DATABASE_URL"]` in a world where nobody gave one; another KeyError stays."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        os.environ["DATABASE_URL"]
        yield

    @asynccontextmanager
    async def broken(app: FastAPI) -> AsyncIterator[None]:
        settings: dict[str, str] = {}
        settings["DATABASE_URL"]
        yield

    async def main(world: World) -> None:
        with pytest.raises(UsageError, match="async def serve") as caught:
            await world.web(FastAPI(lifespan=lifespan), through=through)
        assert 'environment={"DATABASE_URL": …}' in str(caught.value)
        with pytest.raises(KeyError):
            await world.web(FastAPI(lifespan=broken), through=through, port=8001)

    run(main)


@pytest.mark.parametrize("actor", ["", 5, object()])
def test_a_client_needs_a_name(actor: Any) -> None:
    """An actor or a text."""

    async def main(world: World) -> None:
        web = await world.web(FastAPI())
        with pytest.raises(UsageError, match="takes an actor or a name"):
            web.client(actor)

    run(main)


ANOTHER_WAY = {
    "transport": httpx.MockTransport(lambda request: httpx.Response(200)),
    "mounts": {"all://": None},
    "proxy": "http://proxy:3128",
    "http1": False,
    "http2": True,
    "trust_env": True,
}


@WAYS
@pytest.mark.parametrize("option", ANOTHER_WAY)
def test_an_option_that_would_have_no_effect_is_refused(through: str, option: str) -> None:
    """No option of httpx is ignored silently; one that says what is the case anyway is taken."""

    async def main(world: World) -> None:
        web = await world.web(FastAPI(), through=through)
        with pytest.raises(UsageError, match=f"{option}=.*decides how requests are sent"):
            web.client("ada", **{option: ANOTHER_WAY[option]})
        calm: dict[str, Any] = {"proxy": None, "http1": True, "http2": False, "trust_env": False}
        async with web.client("ada", **calm) as ada:
            assert (await ada.get("/")).status_code == 404

    run(main)


@WAYS
@pytest.mark.parametrize(("patience", "answered", "until"), [(0.5, 2, 1), (1.5, 6, 3)])
def test_a_client_keeps_to_its_limits(
    through: str, patience: float, answered: int, until: int
) -> None:
    """Requests wait for a connection, and no longer than the client wants to. (In httpcore, its
    patience begins anew when it was not the quickest to take one.)"""

    async def main(world: World) -> Any:
        web = await world.web(application([]), through=through)
        limits, loop = httpx.Limits(max_connections=2), asyncio.get_running_loop()
        async with web.client(limits=limits, timeout=httpx.Timeout(9, pool=patience)) as client:
            began = loop.time()
            asking = [client.get("/wait/1") for _ in range(6)]
            found = await asyncio.gather(*asking, return_exceptions=True)
            return [type(one).__name__ for one in found], loop.time() - began

    found, took = run(main)
    assert (found.count("Response"), found.count("PoolTimeout")) == (answered, 6 - answered)
    assert until <= took < until + 0.1


def test_a_websocket_straight_into_asgi_is_refused() -> None:
    """One that is meant, with all of its headers, is told where WebSockets are."""
    headers = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }

    async def main(world: World) -> None:
        web = await world.web(FastAPI())
        async with web.client() as client:
            with pytest.raises(UsageError, match="does not work with through"):
                await client.get("/", headers=headers)

    run(main)


@WAYS
@pytest.mark.parametrize("end", ["kill", "crash", "restart", "nothing"])
def test_no_world_outlives_its_run(through: str, end: str) -> None:
    """With requests in flight, clients that nobody closed and a response that is half sent."""
    worlds: list[weakref.ref[World]] = []

    async def main(world: World) -> None:
        worlds.append(weakref.ref(world))
        web = await world.web(application([]), through=through)
        client = web.client("ada")
        asking = [asyncio.create_task(client.get(f"/wait/{n}")) for n in (1, 100)]
        if (end, through) != ("crash", "uvicorn"):  # nobody tells its socket, which would complain
            await client.send(client.build_request("GET", "/large"), stream=True)
        await asyncio.sleep(0.5)
        if end != "nothing":
            getattr(web.host, end)()
        await asyncio.wait(asking, timeout=2)

    foretold.run(main, background_errors="ignore")
    gc.collect()
    assert [world() for world in worlds] == [None]


def test_a_program_that_connects_by_a_socket_is_told_what_to_write() -> None:
    """Nobody would accept the connection, and the program would take that for an outage."""

    async def main(world: World) -> Any:
        web = await world.web(application([]))
        async with httpx.AsyncClient(trust_env=False) as client:
            with contextlib.suppress(httpx.TransportError):
                await client.get(web.url)

    with pytest.raises(UsageError, match="main has connected to web:8000 by a socket"):
        foretold.run(main, seed=1)
