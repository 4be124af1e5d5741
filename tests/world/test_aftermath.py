"""After the test's main has returned: what fails the run, and what is only told.

Each rule is shown with its opposite: what does not count while a peer is gone counts while it is
there, and what counts in the middle of a run does not count at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import warnings
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp.web
import httpx
import pytest
import redis.asyncio

import foretold
from foretold.world.run import Run
from foretold.world.world import World
from tests.compat.test_redis import RedisServer
from tests.helpers import run_of
from tests.world.test_hosts import ORDERS

SEEDS = range(3)


def runs_of(main: Any, **changes: Any) -> list[Run]:
    """Runs on several tapes in both orders."""
    return [run_of(main, seed, order=order, **changes) for seed in SEEDS for order in ORDERS]


class GoodbyeFailed(Exception):
    """What a program of one's own raises."""


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A session that answers each line."""
    with contextlib.suppress(ConnectionError):
        while await reader.readline():
            writer.write(b"ok\n")
    writer.close()


async def server() -> None:
    """Answers on port 1 until it is stopped."""
    async with await asyncio.start_server(answering, "0.0.0.0", 1) as listening:
        await listening.serve_forever()


async def goodbye() -> None:
    """One line to the server, and its answer."""
    reader, writer = await asyncio.open_connection("db", 1)
    try:
        writer.write(b"bye\n")
        assert await reader.readline() == b"ok\n"
    finally:
        writer.close()


def worker_that(at_end: Callable[[], Any]) -> Any:
    """A worker that has something to do when it is stopped."""

    async def worker() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await at_end()

    async def worker_with_a_handler() -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await stopped.wait()
        await at_end()

    # CPython forgets the context of an exception that passes a `finally` of a cancelled task.
    return worker_with_a_handler if at_end is wrapped_without_from else worker


def server_and_worker(at_end: Callable[[], Any], *, server_first: bool = True) -> Any:
    """A test of a server and a worker; the one that is started last is stopped first."""

    async def main(world: World) -> None:
        programs = {"db": server, "worker": worker_that(at_end)}
        for name in ("db", "worker") if server_first else ("worker", "db"):
            world.host(name).start(programs[name])
        await world.host("db").listening(1)
        await asyncio.sleep(5)

    return main


# --- lost peers ----------------------------------------------------------------------------------


def test_a_worker_says_goodbye_to_a_server_that_was_started_before_it() -> None:
    """It is stopped before the server, which answers; there is nothing to tell either."""
    for done in runs_of(server_and_worker(goodbye)):
        assert done.error is None
        assert done.notes == []


def test_a_goodbye_to_a_server_that_was_stopped_first_is_told() -> None:
    """The server was started last, so foretold stops it first: its refusal is foretold's doing."""
    for done in runs_of(server_and_worker(goodbye, server_first=False)):
        assert done.error is None
        (note,) = done.notes
        assert note.startswith("after the test's main had returned, worker raised OSError")
        assert "connected to db" in note


async def wrapped() -> None:
    """An exception of the program's own, from a lost connection."""
    try:
        await goodbye()
    except OSError as error:
        raise GoodbyeFailed from error


async def wrapped_without_from() -> None:
    """The same as many write it."""
    try:
        await goodbye()
    except OSError:
        raise GoodbyeFailed  # noqa: B904  # that is how many write it


async def several() -> None:
    """Two goodbyes in a group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(goodbye())
        group.create_task(goodbye())


async def through_httpx() -> None:
    """A library with exceptions of its own."""
    async with httpx.AsyncClient() as client:
        await client.get("http://db:1/")


async def through_redis() -> None:
    """A library whose ConnectionError is not Python's."""
    async with redis.asyncio.Redis(host="db", port=1) as client:
        await client.get("x")


@pytest.mark.parametrize(
    "at_end", [wrapped, wrapped_without_from, several, through_httpx, through_redis]
)
def test_what_is_made_of_a_lost_connection_does_not_count_either(at_end: Any) -> None:
    """Wrapped, in a group, or as an exception of a library."""
    for done in runs_of(server_and_worker(at_end, server_first=False)):
        assert done.error is None
        assert len(done.notes) == 1


async def asserts() -> None:
    """An assertion, after the peer is gone."""
    with contextlib.suppress(OSError):
        await goodbye()
    assert not "all is well"


async def has_a_bug() -> None:
    """A plain exception, after the peer is gone."""
    with contextlib.suppress(OSError):
        await goodbye()
    raise KeyError("missing")


async def violates() -> None:
    """A property that does not hold, and an exception that nobody sees."""
    with contextlib.suppress(foretold.PropertyViolated, OSError):
        foretold.always(False, "all was flushed")


@pytest.mark.parametrize(
    ("at_end", "kind"),
    [(asserts, AssertionError), (has_a_bug, KeyError), (violates, foretold.PropertyViolated)],
)
@pytest.mark.parametrize("server_first", [True, False])
def test_what_a_lost_peer_does_not_explain_fails_the_run(
    at_end: Any, kind: type[BaseException], server_first: bool
) -> None:
    """Whether the server is still there or not: a property is a property, a bug is a bug."""
    for done in runs_of(server_and_worker(at_end, server_first=server_first)):
        assert isinstance(done.error, kind)


def test_a_connection_error_counts_while_every_peer_is_there() -> None:
    """The server hangs up on everybody. The worker is stopped first, so that is the server's own
    doing; and the exception says that it came after the end."""

    async def rude() -> None:
        async with await asyncio.start_server(lambda r, w: w.close(), "0.0.0.0", 1) as listening:
            await listening.serve_forever()

    async def careless() -> None:
        reader, writer = await asyncio.open_connection("db", 1)
        try:
            await reader.readexactly(3)
        finally:
            writer.close()

    async def main(world: World) -> None:
        world.host("db").start(rude)
        await world.host("db").listening(1)
        world.host("worker").start(worker_that(careless))
        await asyncio.sleep(1)

    for done in runs_of(main):
        assert isinstance(done.error, asyncio.IncompleteReadError | ConnectionError)
        assert any("after the test's main had returned" in n for n in done.error.__notes__)
        assert done.notes == []


@pytest.mark.usefixtures("one_session")
def test_faults_end_with_the_tests_main() -> None:
    """A goodbye that no retry protects holds under all faults of hosts and the network, if it comes
    after the end; a host that a fault had killed is not started again, and is no peer any more."""

    async def main(world: World) -> None:
        world.host("db").start(server)
        await world.host("db").listening(1)
        world.host("worker").start(worker_that(goodbye))
        await asyncio.sleep(0.3)

    faults = foretold.faults.network + foretold.faults.hosts
    for seed in range(60):
        assert run_of(main, seed, faults=faults).error is None


# --- what was left open --------------------------------------------------------------------------


async def hello(request: aiohttp.web.Request) -> aiohttp.web.Response:
    """Answers every request."""
    return aiohttp.web.Response(text="hello")


async def web_server() -> None:
    """An aiohttp server on port 80."""
    app = aiohttp.web.Application()
    app.router.add_get("/", hello)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "0.0.0.0", 80).start()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def open_session() -> Any:
    """A session of aiohttp that has a connection, and that nobody closes."""
    session = aiohttp.ClientSession()
    async with session.get("http://web/") as response:
        assert await response.text() == "hello"
    return session


async def open_pipeline() -> Any:
    """A pipeline of redis that has a connection."""
    pipe = redis.asyncio.Redis(host="cache", protocol=2).pipeline(transaction=True)
    await pipe.watch("x")
    return pipe


async def servers(world: World) -> None:
    """Start both."""
    world.host("cache").start(RedisServer().main)
    world.host("web").start(web_server)
    await world.host("cache").listening(6379)
    await world.host("web").listening(80)


OPENERS = {"Unclosed client session": open_session, "Unclosed Pipeline client": open_pipeline}


@pytest.mark.filterwarnings("ignore:(?i)unclosed:ResourceWarning")
@pytest.mark.parametrize("where", ["home", "app"])
@pytest.mark.parametrize("message", OPENERS)
def test_what_a_main_leaves_open_is_told_and_does_not_count(message: str, where: str) -> None:
    """Freed as its main returns, on the test's own host, or as it is cancelled, on another."""

    async def app() -> None:
        kept = await OPENERS[message]()
        await asyncio.Event().wait()
        del kept

    async def main(world: World) -> None:
        await servers(world)
        if where == "app":
            world.host("app").start(app)
            await asyncio.sleep(1)
        else:
            kept = await OPENERS[message]()
            assert kept

    left = f"left open when host {'main' if where == 'home' else 'app'} ended"
    for done in runs_of(main):
        assert done.error is None
        assert any(message in note and left in note for note in done.notes)


@pytest.mark.filterwarnings("ignore:(?i)unclosed:ResourceWarning")
def test_a_plain_main_that_runs_a_loop_of_its_own() -> None:
    """What is freed as the coroutine of `asyncio.run` returns is left open at the end, too."""

    async def program() -> None:
        kept = await open_pipeline()
        assert kept

    def main(world: World) -> None:
        world.host("cache").start(RedisServer().main)
        asyncio.run(program())

    for done in runs_of(main):
        assert done.error is None
        assert any("Unclosed Pipeline client" in note for note in done.notes)


@pytest.mark.filterwarnings("ignore:(?i)unclosed:ResourceWarning")
def test_what_is_leaked_while_the_program_goes_on_counts() -> None:
    """The same pipeline, freed in the middle of the run."""

    async def main(world: World) -> None:
        await servers(world)
        await open_pipeline()
        await asyncio.sleep(1)

    for done in runs_of(main):
        assert isinstance(done.error, foretold.BackgroundFailure)
        assert "Unclosed Pipeline client" in str(done.error)


@pytest.mark.usefixtures("one_session")
def test_what_another_host_has_not_closed_is_closed_with_its_process() -> None:
    """A connection is accepted as its server ends, and nobody is told of it any more. Python warns
    of a transport that is freed open; but here its process has ended long since."""

    async def server() -> None:
        kept: list[Any] = []
        async with await asyncio.start_server(
            lambda *streams: kept.append(streams), "0.0.0.0", 80
        ) as listening:
            await listening.serve_forever()

    async def main(world: World) -> None:
        web = world.host("web")
        web.start(server)
        await web.listening(80)

        async def call() -> None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("web", 80)
                writer.close()

        calls = [asyncio.create_task(call()) for _ in range(8)]
        await asyncio.sleep(foretold.between(0, 4_000) / 1e6)
        web.restart()
        await asyncio.wait(calls)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for seed in range(200):
            foretold.run(main, seed=seed, order="any")
    assert [str(each.message) for each in seen if each.category is ResourceWarning] == []


def test_a_task_destroyed_at_the_end_still_counts() -> None:
    """It is a message without an exception as well, but about a task."""

    async def main() -> None:
        async def late() -> None:
            await asyncio.sleep(1)

        async def cleaning() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                kept.append(asyncio.get_running_loop().create_task(late()))

        kept.append(asyncio.create_task(cleaning()))
        await asyncio.sleep(1)

    kept: list[Any] = []
    for done in runs_of(main):
        assert "was destroyed but it is pending" in str(done.error)


# --- asyncio's debug mode ------------------------------------------------------------------------


def test_hosts_end_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's debug mode refuses `call_soon` from another thread. That a host has ended is told
    to the loop that waits for it by the world, and is no call of the program."""
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")

    async def idle() -> None:
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        assert asyncio.get_running_loop().get_debug()
        world.host("db").start(idle)
        await asyncio.sleep(1)

    for done in runs_of(main):
        assert done.error is None
