"""Processes of a host: what a new one begins with, who starts it again, and what ends it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.world.world import World

ASGI = """
N = 0

async def app(scope, receive, send):
    global N
    N += 1
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(N).encode()})
"""


async def for_ever() -> None:
    """A main that does not end by itself."""
    await asyncio.Event().wait()


async def listener() -> None:
    """A server on port 80."""
    await asyncio.start_server(lambda reader, writer: writer.close(), "0.0.0.0", 80)
    await for_ever()


def fastapi_app(events: list[str]) -> Any:
    """An application that tells of its life, and has a slow answer."""
    import fastapi

    @asynccontextmanager
    async def life(app: Any) -> Any:
        events.append("up")
        yield
        events.append("down")

    app = fastapi.FastAPI(lifespan=life)

    @app.get("/slow")
    async def slow() -> int:
        await asyncio.sleep(3)
        return 1

    return app


# --- served applications -------------------------------------------------------------------------


def test_a_stopped_server_serves_again() -> None:
    """A new process has a new `uvicorn.Server`: the old one was told to exit, and would."""
    import httpx

    async def main(world: World) -> Any:
        events: list[str] = []
        host = world.host("api")
        host.serve(fastapi_app(events), port=80)
        await host.listening(80)
        assert await host.stop()
        host.restart()
        await host.listening(80)
        await asyncio.sleep(2)
        async with httpx.AsyncClient() as client:
            status = (await client.get("http://api/slow")).status_code
        return status, list(events)

    assert foretold.run(main).value == (200, ["up", "down", "up"])


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_connections_of_a_dead_server_do_not_delay_the_next(end: str) -> None:
    """Who died with a request open is not waited for by the next process: `stop` is quick, and the
    application's shutdown runs."""
    import httpx

    async def main(world: World) -> Any:
        events: list[str] = []
        host = world.host("api")
        host.serve(fastapi_app(events), port=80)
        await host.listening(80)
        async with httpx.AsyncClient(timeout=5) as client:
            asking = asyncio.create_task(client.get("http://api/slow"))
            await asyncio.sleep(1)
            getattr(host, end)()
            host.restart()
            await host.listening(80)
            await asyncio.gather(asking, return_exceptions=True)
        began = time.monotonic()
        return await host.stop(), time.monotonic() - began < 1, events

    assert foretold.run(main).value == (True, True, ["up", "up", "down"])


def test_an_isolated_application_is_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The globals of a module are those of the process: gone with it."""
    import httpx

    (tmp_path / "served_anew.py").write_text(ASGI)
    monkeypatch.syspath_prepend(str(tmp_path))

    async def main(world: World) -> list[int]:
        host = world.host("api", isolate=["served_anew"])
        host.serve("served_anew:app", port=80, lifespan="off")
        counted = []
        for _ in range(2):
            await host.listening(80)
            for _ in range(2):
                async with httpx.AsyncClient() as client:
                    counted.append(int((await client.get("http://api/")).text))
            host.kill()
            host.restart()
        return counted

    assert foretold.run(main).value == [1, 2, 1, 2]


# --- who starts a host again ---------------------------------------------------------------------


def ended_by(act: Callable[[Any], Any]) -> Callable[[World], Any]:
    """A test that ends its host for good, and looks for ten seconds whether it is back."""

    async def main(world: World) -> bool:
        host = world.host("one")
        host.start(listener)
        await host.listening(80)
        await asyncio.sleep(2)
        if asyncio.iscoroutine(done := act(host)):
            await done
        for _ in range(100):
            await asyncio.sleep(0.1)
            if host.stack.is_listening(80):
                return True
        return False

    return main


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("kind", ["kill", "crash"])
@pytest.mark.parametrize("act", ["crash", "kill", "stop"])
def test_a_fault_starts_no_host_that_the_test_has_ended(kind: str, act: str) -> None:
    """Whether the fault had struck before, or not at all: ended is ended."""
    main = ended_by(lambda host: getattr(host, act)())
    faults = foretold.faults.hosts.only(kind)
    assert not any(foretold.run(main, seed=seed, faults=faults).value for seed in range(60))


@pytest.mark.usefixtures("one_session")
def test_a_fault_starts_again_what_it_has_killed() -> None:
    """So that the test above could fail: the fault does strike, and its host does come back."""
    begun: list[int] = []

    async def main(world: World) -> int:
        mains: list[int] = []

        async def program() -> None:
            mains.append(1)
            await listener()

        world.host("one").start(program)
        await asyncio.sleep(40)
        assert world.host("one").stack.is_listening(80)
        return len(mains)

    faults = foretold.faults.hosts.only("kill")
    begun = [foretold.run(main, seed=seed, faults=faults).value for seed in range(30)]
    assert max(begun) > 1


def test_restart_starts_all_mains_in_their_order() -> None:
    """A host is a computer: all that ran on it runs again; with `main=` only that."""
    ran: list[str] = []

    def named(name: str) -> Any:
        async def program() -> None:
            ran.append(name)
            await for_ever()

        return program

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(named("a"))
        host.start(named("b"))
        host.start(named("a coroutine")())
        for act in (host.kill, host.crash):
            await asyncio.sleep(1)
            act()
            host.restart()
        await asyncio.sleep(1)
        host.restart(named("c"))
        await asyncio.sleep(1)
        host.kill()
        host.restart()
        await asyncio.sleep(1)

    foretold.run(main, order="asyncio")
    assert ran == ["a", "b", "a coroutine", "a", "b", "a", "b", "c", "c"]


# --- paused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_a_new_process_is_not_paused(end: str) -> None:
    """SIGSTOP stops a process, not its computer."""

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(listener)
        await host.listening(80)
        host.pause()
        await asyncio.sleep(1)
        getattr(host, end)()
        host.restart()
        await host.listening(80)

    foretold.run(main)


def test_heal_lets_paused_hosts_go_on() -> None:
    """As it repairs a partition, whoever has cut it."""

    async def main(world: World) -> None:
        host = world.host("one")
        started = host.start(asyncio.sleep(1))
        host.pause()
        await asyncio.sleep(10)
        assert not started.done()
        await world.heal()
        await started

    foretold.run(main)


# --- signals -------------------------------------------------------------------------------------


def test_what_signals_do_to_a_process() -> None:
    """SIGKILL kills without a `finally`; what is ignored, by the program or by default, does
    nothing; SIGSTOP and SIGCONT pause and resume; what is left ends the main."""

    async def main(world: World) -> list[str]:
        seen: list[str] = []

        async def program() -> None:
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            assert signal.signal(signal.SIGUSR2, signal.SIG_DFL) is signal.SIG_DFL
            try:
                await for_ever()
            finally:
                seen.append("finally")

        host = world.host("one")
        started = host.start(program)
        await asyncio.sleep(1)
        harmless = (signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG, signal.SIGCONT, signal.SIGUSR1)
        for number in harmless:
            host.signal(number)
            await asyncio.sleep(1)
            assert not started.done(), number
        paused = []
        for number in (signal.SIGSTOP, signal.SIGCONT):
            host.signal(number)
            paused.append(host.paused)
        assert paused == [True, False]
        host.signal(signal.SIGKILL)
        await asyncio.sleep(1)
        assert started.done()
        assert not seen
        started = host.restart()
        await asyncio.sleep(1)
        host.signal(signal.SIGUSR2)
        await started.ended()
        return seen

    assert foretold.run(main).value == ["finally"]


# --- who waits for the dead ----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_whoever_awaits_a_dead_main_is_told(end: str) -> None:
    """An error of its own kind: a TaskGroup would take a CancelledError for its own."""

    async def main(world: World) -> None:
        host = world.host("one")
        started = host.start(for_ever)

        async def wait() -> None:
            await started

        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            await asyncio.sleep(1)
            getattr(host, end)()

    with pytest.raises(ExceptionGroup) as caught:
        foretold.run(main)
    assert caught.group_contains(foretold.HostDied, match="one was killed or has crashed")


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_stop_says_that_the_host_was_killed_meanwhile(end: str) -> None:
    """It did not end by itself, even if its grace was not over."""

    async def slow_to_end() -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(10)

    async def main(world: World) -> bool:
        host = world.host("one")
        host.start(slow_to_end)
        await asyncio.sleep(1)
        stopping = asyncio.create_task(host.stop())
        await asyncio.sleep(1)
        getattr(host, end)()
        return await stopping

    assert foretold.run(main).value is False


# --- the test's own host -------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["crash", "kill", "stop", "pause", "restart"])
def test_the_test_does_not_end_its_own_host(verb: str) -> None:
    """A test that ends itself would say nothing any more."""

    async def main(world: World) -> None:
        done = getattr(world.host("main"), verb)()
        if asyncio.iscoroutine(done):
            await done

    with pytest.raises(foretold.UsageError, match=rf"{verb}: the test itself runs on host main"):
        foretold.run(main)


# --- what a person reads -------------------------------------------------------------------------


def test_verbs_by_hand_stand_in_the_story() -> None:
    """Whatever a test does to its world is part of what happened."""

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(for_ever)
        world.network.loss(0.5)
        world.network.latency(0.1, between=("main", "one"))
        world.network.bandwidth(1e6)
        host.clock.skew(60)
        host.clock.drift(-50)
        host.pause()
        host.resume()
        await asyncio.sleep(1)
        await host.stop()
        host.restart()
        await world.heal()
        foretold.always(False, "the end")

    story = foretold.explore(main, runs=1).failures[0].story
    for setting in (
        "latency main <-> one of 0.1 to 0.1 s",
        "bandwidth everywhere of 1e+06 bytes per s",
        "no more faults (heal)",
    ):
        assert f"the test sets: {setting}\n" in story, setting
    for fault in (
        "loss everywhere of 50%",
        "the clock of one is wrong by +60 s",
        "the clock of one drifts by -50 ppm",
        "pause one",
        "stop one",
    ):
        assert f"fault: {fault}\n" in story, fault
    for repair in ("resume one", "restart one"):
        assert f"fault: {repair}\n" not in story, repair
        assert f" s, {repair}\n" in story, repair
