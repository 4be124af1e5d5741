"""A dead process ends nothing, whatever holds the code that would: generators behind `with`, on
stacks of exits, in loops. What it shared with the living goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

import foretold
from foretold.world.world import World

importlib.import_module("greenlet")  # where it is loaded, the dead are searched for greenlets
ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet(one_session: None) -> Iterator[None]:
    """Each test looks at what ran in its own run, and in the collection after it.

    Inside a session a collection looks at what the runs have left alone. Outside of one it goes
    through all that the test process has ever loaded, and so does the session of the next run.
    """
    ran.clear()
    yield
    gc.collect()


@contextlib.contextmanager
def lease(name: str = "lease") -> Iterator[None]:
    """A plain generator behind `with`."""
    try:
        yield
    finally:
        ran.append(name)


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[None]:
    """An asynchronous one, which holds a plain one."""
    with lease("inside a session"):
        try:
            yield
        finally:
            ran.append("session")


def numbers() -> Iterator[int]:
    """A plain generator that a loop holds."""
    try:
        yield from (1, 2)
    finally:
        ran.append("numbers")


async def for_ever() -> None:
    """It is where all of them are when their process dies."""
    await asyncio.Event().wait()


async def plainly() -> None:
    """`with` alone."""
    with lease():
        await for_ever()


async def on_a_stack() -> None:
    """The stack has a deque of bound methods."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(lease())
        stack.callback(ran.append, "callback")
        await for_ever()


async def on_an_asynchronous_stack() -> None:
    """As frameworks hold their lifespans."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(session())
        await for_ever()


async def in_a_loop() -> None:
    """The loop's iterator is on the stack of the frame."""
    for _ in numbers():
        await for_ever()


async def in_a_variable() -> None:
    """Further away: in a list."""
    held = [numbers()]
    next(held[0])
    await for_ever()


async def in_a_task_of_its_own() -> None:
    """Main waits, and others hold the generators."""
    async with asyncio.TaskGroup() as group:
        group.create_task(plainly())
        group.create_task(in_a_loop())


PROGRAMS: list[Callable[[], Awaitable[None]]] = [
    plainly,
    on_a_stack,
    on_an_asynchronous_stack,
    in_a_loop,
    in_a_variable,
    in_a_task_of_its_own,
]


@pytest.mark.parametrize("end", ["kill", "crash"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_finally_of_a_dead_host_runs(program: Any, end: str) -> None:
    """Neither in the run nor after it, when all is collected, even if the test holds the task."""
    held: list[Any] = []

    async def main(world: World) -> None:
        host = world.host("one")
        held.append(host.start(program))
        await asyncio.sleep(1)
        getattr(host, end)()
        await asyncio.sleep(1)

    for order in ("asyncio", "any"):
        foretold.run(main, order=order)
        held.clear()
        gc.collect()
        assert ran == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_programs_clean_up_when_they_are_stopped(program: Any) -> None:
    """So that the tests above could fail: each of the programs has something to clean up."""

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(program)
        await asyncio.sleep(1)
        await host.stop()

    foretold.run(main)
    gc.collect()
    assert ran


def test_a_generator_that_the_living_hold_goes_on() -> None:
    """A dead host had it in a variable, and so has the test: it is neither ended nor emptied."""
    shared = numbers()

    async def reader() -> None:
        mine = shared
        next(mine)
        await for_ever()

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(reader)
        await asyncio.sleep(1)
        host.crash()

    foretold.run(main)
    gc.collect()
    assert ran == []
    assert list(shared) == [2]
    assert ran == ["numbers"]


def test_a_living_host_cleans_up_beside_a_dead_one() -> None:
    """What was silenced for the dead is not silenced for those who end by themselves."""

    async def main(world: World) -> None:
        world.host("dead").start(plainly)
        world.host("living").start(in_a_variable)
        await asyncio.sleep(1)
        world.host("dead").crash()

    foretold.run(main)
    assert ran == ["numbers"]
    with lease("after the run"):
        pass
    unfinished = numbers()
    next(unfinished)
    del unfinished
    assert ran == ["numbers", "after the run", "numbers"]


@pytest.mark.parametrize("own_handlers", [False, True])
def test_the_signal_handlers_of_the_test_process_stay(own_handlers: bool) -> None:
    """uvicorn puts handlers back in a `@contextmanager`: a crashed one puts back nothing, and says
    nothing (an exception nobody can catch would be a warning, hence an error here)."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await for_ever()

    async def server() -> None:
        import uvicorn

        if own_handlers:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, frame: None)
        config = uvicorn.Config(app, host="0.0.0.0", port=80, log_config=None, lifespan="off")
        await uvicorn.Server(config).serve()

    async def main(world: World) -> None:
        host = world.host("one")
        host.start(server)
        await host.listening(80)
        host.crash()

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    foretold.run(main)
    gc.collect()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
