"""Runs that do not end by themselves: deadlocks are found by looking, the rest by limits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import math
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

import foretold
from tests.helpers import PLANS, run_of

# --- deadlock --------------------------------------------------------------------------------


async def events_through_a_queue(fixed: bool) -> list[int]:
    """S1.7: a queue of 16, 48 events, and a consumer that first waits for the producer to end."""
    queue: asyncio.Queue[int] = asyncio.Queue(16)
    delivered: list[int] = []

    async def produce() -> None:
        for number in range(48):
            await queue.put(number)

    async def consume(producer: asyncio.Task[None]) -> None:
        if not fixed:
            await producer
        for _ in range(48):
            delivered.append(await queue.get())

    producer = asyncio.create_task(produce(), name="producer")
    await asyncio.create_task(consume(producer), name="consumer")
    return delivered


def line_with(text: str) -> int:
    """The number of the line of this file that holds a text, for the first time."""
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_a_deadlock_is_found_by_looking(order: str, strategy: str) -> None:
    """S1.7: who waits, at which line, and for what. No time limit is involved: none is set, and
    virtual time stands where it was."""
    broken = functools.partial(events_through_a_queue, fixed=False)
    with pytest.raises(foretold.Deadlock) as caught:
        foretold.run(broken, order=order, strategy=strategy, wall_s_max=math.inf)
    lines = str(caught.value).splitlines()
    assert "nothing can run and nothing is scheduled" in lines[0]
    put, wait = line_with("await queue.put(number)"), line_with("await producer")
    here = os.path.abspath(__file__)
    assert {line.strip() for line in lines[1:]} >= {
        f"producer waits at {here}:{put} for Queue.put() in queues",
        f"consumer waits at {here}:{wait} for the task producer",
    }
    assert any("the task consumer" in line for line in lines[1:])
    assert len(lines) == 4
    assert run_of(broken, order=order, strategy=strategy).virtual_s < 0.1


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_the_repaired_queue_delivers_everything(order: str, strategy: str) -> None:
    """S1.7: with the fix, all 48 events arrive, in order, on every tape."""
    fixed = functools.partial(events_through_a_queue, fixed=True)
    for seed in range(10):
        value = foretold.run(fixed, seed=seed, order=order, strategy=strategy).value
        assert value == list(range(48))


def test_a_deadlock_of_main_alone() -> None:
    """Main waits for a future that nobody has."""

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(foretold.Deadlock, match=r"main waits at .* for a future that nothing"):
        foretold.run(main)


def test_who_waits_in_a_generator_ends_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is still waiting when a run has failed is ended while its loop is open."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: said.append(about.exc_value))

    async def main(world: foretold.World) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def numbers() -> AsyncIterator[int]:
            while True:
                yield await queue.get()

        async def reader() -> None:
            async for _ in numbers():
                pass

        await asyncio.create_task(reader())

    failure = foretold.explore(main, runs=1, shrink=False, confirm=False).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Deadlock)
    gc.collect()
    assert said == []


@pytest.mark.parametrize("swallows", ["at once", "in finally"])
def test_a_deadlock_while_cleaning_up(swallows: str) -> None:
    """Main has returned; a task that is cancelled then waits for ever instead of ending."""

    async def stubborn() -> None:
        if swallows == "at once":
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def main() -> None:
        main.task = asyncio.create_task(stubborn())  # type: ignore[attr-defined]  # kept alive
        await asyncio.sleep(0)

    with pytest.raises(foretold.Deadlock, match=r"stubborn waits at .* for Event\.wait\(\)"):
        foretold.run(main, wall_s_max=math.inf)


# --- deadlocks beside hosts that tick -----------------------------------------------------------


async def tick() -> None:
    """As uvicorn does it, but less often: look around for ever."""
    while True:
        await asyncio.sleep(1)


async def echo_and_tick() -> None:
    """A server that ticks."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    await asyncio.start_server(echo, "0.0.0.0", 80)
    await tick()


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_a_deadlock_beside_a_host_that_ticks(order: str, strategy: str) -> None:
    """Nobody will ever set the event, though the server is busy: found after an hour of virtual
    time, long before any limit, with a list of who waits on which line."""

    async def main(world: foretold.World) -> None:
        world.host("server").start(echo_and_tick)
        await world.host("server").listening(80)
        _, writer = await asyncio.open_connection("server", 80)
        try:
            await asyncio.Event().wait()  # nobody sets it
        finally:
            writer.close()

    with pytest.raises(foretold.Deadlock) as caught:
        foretold.run(main, order=order, strategy=strategy, wall_s_max=math.inf, steps_max=20_000)
    lines = str(caught.value).splitlines()
    assert "from 61 s to 3,661 s of virtual time nothing" in lines[0]
    assert "but timers of server:" in lines[0]
    waiting = line_with("await asyncio.Event().wait()  # nobody sets it")
    assert any(f"main waits at {os.path.abspath(__file__)}:{waiting} for" in line for line in lines)
    assert any("sleep() in tasks" in line for line in lines)
    assert "asyncio.timeout" in lines[-1]


def test_keep_alive_probes_are_only_ticks() -> None:
    """A connection that is probed once a minute does not hide the deadlock."""

    async def main(world: foretold.World) -> None:
        world.host("server").start(echo_and_tick)
        await world.host("server").listening(80)
        reader, writer = await asyncio.open_connection("server", 80)
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        await reader.readline()

    with pytest.raises(foretold.Deadlock, match="but timers of server"):
        foretold.run(main, steps_max=20_000)


@pytest.mark.parametrize("blocking", [False, True])
def test_probes_do_not_hide_who_sleeps(blocking: bool) -> None:
    """The next thing to happen is a keep-alive probe, which is in vain; the server speaks later."""

    async def speak_later(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(200)
        writer.write(b"!")
        writer.close()

    async def serve() -> None:
        await asyncio.start_server(speak_later, "0.0.0.0", 80)

    async def main(world: foretold.World) -> bytes:
        world.host("server").start(serve)
        await world.host("server").listening(80)
        with socket.create_connection(("server", 80)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if blocking:
                return connection.recv(1)
            connection.setblocking(False)
            return await asyncio.get_running_loop().sock_recv(connection, 1)

    assert foretold.run(main).value == b"!"


def test_a_blocking_call_beside_a_host_that_ticks() -> None:
    """The same for a plain test that blocks in `recv`; with a time limit it is no deadlock."""

    async def main(world: foretold.World, timeout_s: float | None) -> None:
        world.host("server").start(echo_and_tick)
        await world.host("server").listening(80)
        with socket.create_connection(("server", 80)) as connection:
            connection.settimeout(timeout_s)
            connection.recv(1)

    with pytest.raises(foretold.Deadlock, match="but timers of server"):
        foretold.run(lambda world: main(world, None), steps_max=20_000)
    with pytest.raises(TimeoutError):
        foretold.run(lambda world: main(world, 10_000.0), steps_max=200_000)


@pytest.mark.parametrize(
    "pauses_s", [[3000.0], [9000.0], [9000.0, 3000.0]], ids=["soon", "late", "twice"]
)
def test_who_sleeps_long_on_another_host_is_waited_for(pauses_s: list[float]) -> None:
    """No false alarm: the server speaks after 50 minutes, or after hours in one sleep, or after a
    sleep that followed such a one, and something else ticks all the while."""

    async def speak_later(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
        writer.write(b"at last\n")
        writer.close()

    async def serve() -> None:
        await asyncio.start_server(speak_later, "0.0.0.0", 80)
        await tick()

    async def main(world: foretold.World) -> bytes:
        world.host("server").start(serve)
        await world.host("server").listening(80)
        reader, writer = await asyncio.open_connection("server", 80)
        try:
            return await reader.readline()
        finally:
            writer.close()

    assert foretold.run(main).value == b"at last\n"


@pytest.mark.parametrize("what", ["sleep", "timeout", "ticks", "messages", "rest"])
def test_what_goes_on_is_no_deadlock(what: str) -> None:
    """No false alarm: the test itself sleeps for long, has a time limit, ticks; other hosts talk
    to each other; or the test waits until the world is at rest, which has a limit of its own."""

    async def talk() -> None:
        _, writer = await asyncio.open_connection("server", 80)
        for _ in range(6):
            await asyncio.sleep(1800)
            writer.write(b"still there\n")
        writer.close()

    async def main(world: foretold.World) -> None:
        world.host("server").start(echo_and_tick)
        await world.host("server").listening(80)
        if what == "sleep":
            await asyncio.sleep(20_000)
        elif what == "timeout":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10_000):
                    await asyncio.Event().wait()
        elif what == "ticks":
            for _ in range(2_000):
                await asyncio.sleep(5)
        elif what == "messages":
            await world.host("client").start(talk)
        else:
            with pytest.raises(foretold.LimitExceeded, match="did not come to rest"):
                await world.clock.run_until_idle(limit_s=10_000)

    assert foretold.run(main).virtual_s > 9_999


# --- limits ----------------------------------------------------------------------------------


def test_too_many_steps() -> None:
    """A loop that never ends: the error names the limit. The last allowed step is allowed."""

    async def main(steps: int) -> None:
        for _ in range(steps - 2):
            await asyncio.sleep(0)

    for order in ("asyncio", "any"):
        for limit in (10, 2_000, 2_001, 5_000):
            exact = foretold.run(lambda n=limit: main(n), order=order, steps_max=limit)
            assert exact.steps == limit
            with pytest.raises(foretold.LimitExceeded, match=f"{limit:,} steps.*steps_max"):
                foretold.run(lambda n=limit: main(n + 1), order=order, steps_max=limit)


@pytest.mark.parametrize("blocking", [False, True])
def test_too_much_virtual_time(blocking: bool) -> None:
    """A timer that renews itself, or a loop around `time.sleep`: an error, not an endless run."""

    async def main() -> None:
        while True:
            if blocking:
                time.sleep(60)
            else:
                await asyncio.sleep(60)

    with pytest.raises(foretold.LimitExceeded, match=r"3,600 virtual seconds.*virtual_s_max"):
        foretold.run(main, virtual_s_max=3600)


def test_too_much_real_time() -> None:
    """The limit on real time is looked at now and then, also in a run that reads no clock."""

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    # So much that a collection of garbage in a large process is not most of it.
    with pytest.raises(foretold.LimitExceeded, match=r"more than 2 real seconds.*wall_s_max"):
        foretold.run(main, wall_s_max=2)


def test_limits_can_be_lifted() -> None:
    """Infinity is a limit as well: ten virtual years, if somebody wants them."""

    async def main() -> None:
        await asyncio.sleep(10 * 365 * 24 * 3600)

    with pytest.raises(foretold.LimitExceeded):
        foretold.run(main)
    done = foretold.run(main, virtual_s_max=math.inf, steps_max=10**12, wall_s_max=math.inf)
    assert done.virtual_s > 3e8


def test_a_broken_off_run_is_taken_down_in_its_world() -> None:
    """After a deadlock, `finally` blocks run in a sealed world: no real time, no real process,
    nothing in the trace, and the failure stays the one that it was."""
    log: list[Any] = []

    async def waiter() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append(time.time())
            time.sleep(3600)
            foretold.always(False, "too late to count")
            log.append("nothing was raised")

    async def connector() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                os.fork()
            except foretold.EscapedWorld:
                log.append("fenced")

    async def main() -> None:
        await asyncio.gather(waiter(), connector())

    first = run_of(main)
    assert isinstance(first.error, foretold.Deadlock)
    assert [entry if isinstance(entry, str) else entry < 1.8e9 for entry in log] == [
        True,
        "nothing was raised",
        "fenced",
    ]
    assert run_of(main).digest == first.digest
    assert first.virtual_s < 1
