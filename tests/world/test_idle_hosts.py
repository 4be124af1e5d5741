"""A host whose loop has nothing to run sees what arrives, at the time at which it arrives."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foretold
from foretold.tape import Hold, Schedule, Tape
from foretold.world.settings import Settings
from tests.helpers import again, run_of

SENT_AFTER_S = 0.01


async def serve() -> None:
    """Sends one byte to each client, a while after it has come."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(SENT_AFTER_S)
        writer.write(b"x")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "0.0.0.0", 80)
    await server.serve_forever()


def between_two_hosts(client: Callable[[], Awaitable[Any]]) -> Callable[[Any], Any]:
    """A main that runs `client` on a host of its own."""

    async def main(world: foretold.World) -> Any:
        server = world.host("server")
        server.start(serve)
        await server.listening(80)
        return await world.host("client").start(client)

    return main


async def read_after_a_cancelled_call() -> float:
    """The loop's next iteration has one handle, which was cancelled, and then waits for bytes."""
    reader, writer = await asyncio.open_connection("server", 80)
    began_s = time.monotonic()
    asyncio.get_running_loop().call_soon(print).cancel()
    assert await reader.read(1) == b"x"
    took_s = time.monotonic() - began_s
    writer.close()
    return took_s


async def read_beside_a_timer() -> float:
    """As above; a timer of the host would wake its loop much later."""
    asyncio.get_running_loop().call_later(0.5, lambda: None)
    return await read_after_a_cancelled_call()


async def read_in_a_nested_loop() -> float:
    """As above, in a loop that a thread of the host runs."""
    return await asyncio.to_thread(asyncio.run, read_beside_a_timer())


@pytest.mark.parametrize("order", ["any", "asyncio"])
@pytest.mark.parametrize(
    "client", [read_after_a_cancelled_call, read_beside_a_timer, read_in_a_nested_loop]
)
def test_cancelled_handles_hide_nothing(client: Callable[[], Awaitable[float]], order: str) -> None:
    """An iteration whose handles are all cancelled is over, as in asyncio; the loop polls before it
    waits. If it does not, the run ends by its limits, or the byte is read when the timer fires."""
    for seed in range(5):
        done = foretold.run(between_two_hosts(client), seed=seed, order=order, wall_s_max=5)
        assert done.value < SENT_AFTER_S * 3


async def read_while_a_thread_works() -> float:
    """One task of the host is held; a thread could run all the time; a third task reads."""
    lock, over = threading.Lock(), False

    def work() -> None:
        while not over:
            with lock:
                pass

    async def late() -> None:
        pass

    reader, writer = await asyncio.open_connection("server", 80)
    worker = threading.Thread(target=work)
    worker.start()
    held = asyncio.create_task(late(), name="late")
    began_s = time.monotonic()
    assert await reader.read(1) == b"x"
    took_s, over = time.monotonic() - began_s, True
    await asyncio.to_thread(worker.join)
    await held
    writer.close()
    return took_s


def test_a_held_task_hides_nothing() -> None:
    """While a task is held because others could go on, its loop still looks at its sockets."""
    settings = Settings().with_changes(order="any", strategy="fifo").on_tape()
    hold = Hold("client", "late", 1, "nobody", 1)
    tape = Tape("derived", settings=settings, schedule=Schedule.of([hold]))
    done = again(between_two_hosts(read_while_a_thread_works), tape)
    assert done.error is None
    assert done.value < SENT_AFTER_S * 3


def test_a_host_with_threads_lives_on_when_another_starts_again() -> None:
    """The thread of a host that has made an iteration does what the world does next. If that takes
    a lock, as starting another host does (the loop of the new process writes to a log), the
    host must not count as running: it would never get another turn."""

    async def main(world: foretold.World) -> int:
        ticks: list[float] = []

        async def threaded() -> None:
            await asyncio.to_thread(lambda: None)
            while True:
                await asyncio.sleep(0.01)
                logging.disable(logging.NOTSET)  # the log looks up its level again, under a lock
                ticks.append(world.clock.monotonic())

        async def killed() -> None:
            await asyncio.sleep(60)

        world.host("threaded").start(threaded)
        world.host("killed").start(killed)
        await asyncio.sleep(8)
        return len(ticks)

    done = run_of(main, 9, faults=foretold.faults.hosts.only("kill"))
    assert done.tally.faults["kill"].injected == 1
    assert done.value is not None
    assert done.value > 700
