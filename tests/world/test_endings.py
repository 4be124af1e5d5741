"""How a run ends while hosts are busy: all are asked, get their grace, and are killed then."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import weakref
from typing import Any

import pytest

import foretold
from foretold.trace.events import Fault
from foretold.world.ending import GRACE_S, GRACE_STEPS
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World
from tests.helpers import run_of
from tests.world.test_hosts import ORDERS, SEEDS, ask, echo_server

KILLED = "killed: its grace is over"


def ended(main: Any, **changes: Any) -> list[Run]:
    """Runs of `main` on several tapes: none fails, and each is the same when it is repeated."""
    done = []
    for seed in SEEDS:
        for order in ORDERS:
            done.append(foretold.run(main, seed=seed, order=order, **changes))
            assert foretold.run(main, seed=seed, order=order, **changes).digest == done[-1].digest
    return done


def lines_of(main: Any) -> list[str]:
    """The trace of a run, line by line, and the events of its story."""
    lines: list[str] = []
    done = execute(
        bind_main(main),
        foretold.Tape.seeded(0),
        Settings(),
        detail=True,
        sink=lambda line: lines.append(str(line)),
    )
    assert done.error is None
    assert not any(isinstance(event, Fault) for event in done.trace.events)
    return lines


def with_host(program: Any) -> Any:
    """A test that starts `program` on a host, waits for a second, and returns."""

    async def main(world: World) -> None:
        world.host("one").start(program)
        await asyncio.sleep(1)

    return main


async def deaf() -> None:
    """Takes no notice of being cancelled."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


async def restless() -> None:
    """Renews a timer for ever, cancelled or not."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


async def spinning() -> None:
    """Never waits for anything."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def handler_without_effect() -> None:
    """Catches SIGTERM and does nothing about it."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await asyncio.Event().wait()


# --- those that do not want to end -------------------------------------------------------------


@pytest.mark.parametrize("program", [deaf, restless, handler_without_effect])
def test_who_does_not_end_is_killed_when_its_grace_is_over(program: Any) -> None:
    """A second of the test, then the grace, to the second; and the run is no failure."""
    for done in ended(with_host(program)):
        assert done.virtual_s == pytest.approx(1 + GRACE_S, abs=1)


@pytest.mark.parametrize("exact_time", [False, True])
def test_who_never_waits_is_killed_after_its_steps(exact_time: bool) -> None:
    """Virtual time hardly passes for it, or not at all; its steps are counted instead."""

    async def main(world: World) -> None:
        world.host("one").start(spinning if not exact_time else later)
        await asyncio.sleep(0.001)

    async def later() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await spinning()

    for order in ORDERS:
        world_of: list[World] = []

        async def noting(world: World, into: list[World] = world_of) -> None:
            into.append(world)
            await main(world)

        foretold.run(noting, order=order, exact_time=exact_time)
        steps = world_of[0].host("one").kernel.steps
        assert GRACE_STEPS <= steps < 1.5 * GRACE_STEPS


def test_the_kill_is_in_the_trace_and_not_in_the_story() -> None:
    """It is the supervisor's doing and not a fault of the world. Who ends by itself has no such
    line: the check can fail."""
    assert any(KILLED in line for line in lines_of(with_host(deaf)))
    assert not any(KILLED in line for line in lines_of(with_host(echo_server)))


def test_hosts_that_talk_for_ever_are_ended() -> None:
    """A client that reconnects whatever happens, and a server that waits until its clients hang
    up: each keeps the other alive, and both run out of grace."""

    async def client() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await ask("server")
                    await asyncio.sleep(0.01)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)

    async def server() -> None:
        await asyncio.start_server(echo, "0.0.0.0", 80)
        await deaf()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(100):  # a client may be cancelled while it reads
                writer.write(data)

    async def main(world: World) -> None:
        world.host("server").start(server)
        await world.host("server").listening(80)
        world.host("client").start(client)
        await asyncio.sleep(1)

    for order in ORDERS:
        assert foretold.run(main, order=order).virtual_s < 1.1 + GRACE_S


def test_a_run_near_its_limit_of_time_ends_as_well() -> None:
    """A grace that would go past `virtual_s_max` is cut short: no LimitExceeded."""
    assert run_of(with_host(restless), virtual_s_max=5).error is None


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["home", "other"])
def test_idle_connections_end_cleanly(where: str) -> None:
    """A server waits for idle clients (`wait_closed`, since 3.12): the test's own are closed with
    its program, others by their own host, at once. Its `finally` runs, with the loop open."""
    log: list[str] = []

    async def server() -> None:
        try:
            await echo_server()
        finally:
            await asyncio.sleep(0.01)
            log.append("server")

    async def client() -> None:
        kept.append(await asyncio.open_connection("server", 80))
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        kept.clear()
        log.clear()
        world.host("server").start(server)
        await world.host("server").listening(80)
        if where == "home":
            kept.append(await asyncio.open_connection("server", 80))
        else:
            world.host("other").start(client)
        await asyncio.sleep(1)

    kept: list[Any] = []
    for done in ended(main):
        assert done.virtual_s < 1.5
        assert log == ["server"]


def test_a_partition_in_force_does_not_hold_up_the_end() -> None:
    """The client's goodbye never arrives. Both hosts end, one perhaps by the end of its grace."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", 80)
        try:
            while True:
                writer.write(b"x" * 1000)
                await asyncio.sleep(0.1)
        finally:
            writer.close()
            await writer.wait_closed()
            del reader

    async def main(world: World) -> None:
        world.host("server").start(echo_server)
        await world.host("server").listening(80)
        world.host("client").start(client)
        await asyncio.sleep(1)
        world.network.partition("server", "client")
        world.network.hold("server", "main")
        await asyncio.sleep(1)

    for done in ended(main):
        assert done.virtual_s < 3 + GRACE_S


def test_faults_of_the_world_do_not_hold_up_the_end() -> None:
    """Kills and restarts, pauses and partitions that strike while hosts are being ended."""

    async def client() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await ask("server")
            await asyncio.sleep(0.05)

    async def main(world: World) -> None:
        world.host("server").start(echo_server)
        for number in range(3):
            world.host(f"client-{number}").start(client)
        await asyncio.sleep(0.5)

    for seed in range(20):
        done = run_of(main, seed, faults=foretold.faults.network, background_errors="ignore")
        assert done.error is None
        assert done.virtual_s < 1 + 2 * GRACE_S


# --- all states a host can be in -----------------------------------------------------------------


def test_hosts_in_every_state_end() -> None:
    """Paused, crashed, killed, stopped, never started, main returned, several mains and loops."""
    log: list[str] = []

    def program(name: str) -> Any:
        async def run() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                log.append(name)

        return run

    async def brief() -> None:
        task.append(asyncio.create_task(program("left by main")()))

    task: list[Any] = []

    async def main(world: World) -> None:
        log.clear()
        for name in ("paused", "crashed", "killed", "stopped", "twice", "twice", "loops"):
            world.host(name).start(program(name))
        world.host("idle")
        world.host("brief").start(brief)
        task.append(world.host("loops").another_loop().create_task(program("second loop")()))
        await asyncio.sleep(1)
        world.host("paused").pause()
        world.host("crashed").crash()
        world.host("killed").kill()
        await world.host("stopped").stop()
        assert log == ["stopped"]

    for done in ended(main):
        assert sorted(log) == [
            "left by main",
            "loops",
            "paused",
            "second loop",
            "stopped",
            "twice",
            "twice",
        ]
        assert done.virtual_s < 1.5


def test_hosts_that_are_started_meanwhile() -> None:
    """By somebody who is being ended: they are asked as well, and get what grace is left. A main
    that is started on a host that is ending is cancelled with the rest of it."""
    log: list[str] = []

    async def main(world: World) -> None:
        log.clear()

        async def heir() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("heir")

        async def watchdog() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                world.host("fresh").start(heir)
                world.host("watchdog").start(heir)
                await asyncio.sleep(1)

        async def undying() -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(1)
                    if not world.host("other").mains:
                        world.host("other").restart(undying)

        world.host("watchdog").start(watchdog)
        world.host("other").start(heir)
        world.host("undying").start(undying)
        await asyncio.sleep(1)

    for done in ended(main):
        assert log == ["heir", "heir", "heir"]
        assert done.virtual_s < 2 + GRACE_S


def test_a_task_started_while_the_rest_is_cancelled() -> None:
    """As in `asyncio.run`: what it can do at once is done; then it is destroyed, which is told."""
    log: list[str] = []

    def program(last: Any) -> Any:
        async def main() -> None:
            kept.append(asyncio.create_task(cleaning()))
            await asyncio.Event().wait()

        async def cleaning() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                kept.append(asyncio.get_running_loop().create_task(last()))

        return main

    async def quick() -> None:
        await asyncio.sleep(0)
        log.append("quick")

    async def slow() -> None:
        await asyncio.sleep(1)
        log.append("slow")

    kept: list[Any] = []
    for order in ORDERS:
        assert run_of(with_host(program(quick)), order=order).error is None
        error = run_of(with_host(program(slow)), order=order).error
        assert isinstance(error, foretold.BackgroundFailure)
        assert "was destroyed but it is pending" in str(error)
    assert log == ["quick", "quick"]


def test_what_raises_while_it_is_ended_is_reported() -> None:
    """A main, a task that main left, and an asynchronous generator that nobody closed."""

    async def generator() -> Any:
        try:
            yield 1
        finally:
            raise ValueError("generator")

    async def main_raises() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("main")

    async def left_raises() -> None:
        async def left() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("left")

        kept.append(asyncio.create_task(left()))
        await asyncio.Event().wait()

    async def generator_raises() -> None:
        kept.append(generator())
        await anext(kept[-1])
        await asyncio.Event().wait()

    kept: list[Any] = []
    for program in (main_raises, left_raises, generator_raises):
        for order in ORDERS:
            error = run_of(with_host(program), order=order).error
            assert isinstance(error, ValueError)
            assert str(error) == program.__name__.removesuffix("_raises")


def test_a_failure_that_a_host_kept_to_itself_is_told() -> None:
    """A task that failed, is kept, and was never asked: on a host as on the test's own."""

    async def fails() -> None:
        raise ValueError("kept")

    async def program() -> None:
        kept.append(asyncio.create_task(fails()))
        await asyncio.Event().wait()

    kept: list[Any] = []
    for _ in ORDERS:
        assert str(run_of(with_host(program)).error) == "kept"


# --- the test's own program ----------------------------------------------------------------------


def test_a_test_that_never_ends_is_found_out_although_others_are_busy() -> None:
    """A task of the test ignores its cancellation, while a host's timers go on for ever. The hosts
    are ended, and what is left is a deadlock, with the name of that task."""

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        world.host("one").start(restless)
        task = asyncio.create_task(stubborn(), name="stubborn")
        await asyncio.sleep(1)
        del task

    for order in ORDERS:
        done = run_of(main, order=order)
        assert isinstance(done.error, foretold.Deadlock)
        assert "stubborn" in str(done.error)
        assert done.virtual_s < 2 + 2 * GRACE_S


def test_nothing_of_the_test_runs_after_its_end() -> None:
    """`asyncio.run` has closed its loop: no timer fires, nobody is accepted, while hosts end."""
    log: list[str] = []

    async def main(world: World) -> None:
        log.clear()

        async def late() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(5)
                with contextlib.suppress(OSError):
                    await asyncio.open_connection("main", 80)
                    log.append("accepted")

        world.host("one").start(late)
        await asyncio.start_server(lambda r, w: log.append("served"), "0.0.0.0", 80)
        asyncio.get_running_loop().call_later(3, log.append, "timer")
        await asyncio.sleep(1)

    for done in ended(main):
        assert log == []
        assert done.virtual_s == pytest.approx(6, abs=0.5)


def test_who_is_hung_up_on_by_the_test_need_not_catch_it() -> None:
    """The test leaves a connection with unread data, so its kernel resets it: an error that nobody
    catches on the server's host. At the end of the run that is the test's doing; before, it counts.
    """

    async def careless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"x" * 1000)
            await reader.readexactly(10)
        finally:
            raised.append("raised")
            writer.close()

    async def server() -> None:
        async with await asyncio.start_server(careless, "0.0.0.0", 80) as listening:
            await listening.serve_forever()

    async def client() -> None:
        kept.append(await asyncio.open_connection("server", 80))
        kept[-1][1].transport.pause_reading()
        await asyncio.sleep(1)

    async def main(world: World, where: str) -> None:
        world.host("server").start(server)
        await world.host("server").listening(80)
        if where == "home":
            await client()
        else:
            await world.host("client").start(client)
            world.host("client").kill()
            await asyncio.sleep(1)

    kept: list[Any] = []
    raised: list[str] = []
    for order in ORDERS:
        assert run_of(lambda world: main(world, "home"), order=order).error is None
        assert raised
        raised.clear()
        error = run_of(lambda world: main(world, "client"), order=order).error
        assert isinstance(error, ConnectionResetError | asyncio.IncompleteReadError)
        raised.clear()


def test_worlds_with_dead_hosts_are_forgotten() -> None:
    """A search makes thousands of worlds; none may outlive its run, however its hosts died."""
    worlds: list[weakref.ref[World]] = []

    async def main(world: World) -> None:
        worlds.append(weakref.ref(world))
        for how in ("stop", "kill", "crash"):
            world.host(how).start(echo_server)
            await world.host(how).listening(80)
            await ask(how)
        world.host("deaf").start(deaf)
        world.host("kill").kill()
        world.host("crash").crash()
        await world.host("stop").stop()

    for order in ORDERS:
        foretold.run(main, order=order)
    gc.collect()
    assert [world() for world in worlds] == [None] * len(ORDERS)
