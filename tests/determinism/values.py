"""Programs about generators, references, contexts, clocks, randomness, and foretold's own calls.

See `programs.py`. At the end stand the planted ones, which leak on purpose.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import io
import logging
import os
import random
import secrets
import tempfile
import time
import uuid
import weakref
from collections.abc import AsyncIterator
from typing import Any

from hypothesis import strategies as st

import foretold
from tests.determinism.registry import free, nap, pace, planted, program

# --- generators, references, contexts --------------------------------------------------------


@program
async def generators_left_open() -> object:
    """Asynchronous generators that nobody closes are closed by the loop, in a fixed order."""

    async def count(name: int) -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(0)
            foretold.reachable(f"closed {name}")

    kept = [count(name) for name in range(8)]
    foretold.current_world().kept = kept  # type: ignore[attr-defined]  # alive until the loop ends
    return [[await anext(generator) for _ in range(2)] for generator in kept]


@free
async def weak_references() -> object:
    """When the last reference goes, and in which order weak sets are walked."""
    log: list[Any] = []
    weak: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def start(number: int) -> None:
        task = asyncio.create_task(pace(log, number, number), name=f"w{number}")
        weakref.finalize(task, log.append, f"{number} is gone")
        weak.add(task)

    for number in range(6):
        start(number)
    while weak:
        log.append([task.get_name() for task in weak])
        await asyncio.sleep(0)
    return log


@free
async def context_variables() -> object:
    """Each task has a context of its own; callbacks have that of who made them."""
    variable = contextvars.ContextVar("variable", default="unset")
    log: list[Any] = []

    async def worker(number: int) -> None:
        log.append(variable.get())
        variable.set(f"{number}")
        asyncio.get_running_loop().call_soon(lambda: log.append(variable.get()))
        await asyncio.sleep(0)
        log.append((number, variable.get()))

    variable.set("outer")
    await asyncio.gather(*(worker(n) for n in range(4)))
    await asyncio.sleep(0)
    return log


# --- clocks, randomness, identity ------------------------------------------------------------


@program
async def clocks_of_every_kind() -> object:
    """All the ways to ask for the time, in steps of several tasks."""

    async def reader() -> list[object]:
        seen: list[object] = [time.time(), time.time_ns(), time.monotonic(), time.perf_counter()]
        await asyncio.sleep(0)
        seen += [time.monotonic_ns(), time.perf_counter_ns(), time.process_time()]
        seen += [time.clock_gettime(time.CLOCK_REALTIME), time.thread_time_ns()]
        await asyncio.sleep(0.25)
        seen += [asyncio.get_running_loop().time(), time.ctime(), time.strftime("%H:%M:%S")]
        return seen

    return await asyncio.gather(*(reader() for _ in range(3)))


@program
async def dates_and_times() -> object:
    """`datetime`, naive and aware."""

    async def reader(seconds: float) -> list[str]:
        seen = [datetime.datetime.now().isoformat()]
        await asyncio.sleep(seconds)
        seen += [str(datetime.datetime.now(datetime.UTC)), str(datetime.date.today())]
        return [*seen, str(datetime.datetime.today())]

    return await asyncio.gather(*(reader(n / 3) for n in range(4)))


@program
async def stalls() -> object:
    """`time.sleep` in a coroutine stops everything, in virtual time."""
    log: list[Any] = []

    async def rude() -> None:
        await asyncio.sleep(0.01)
        time.sleep(0.5)
        log.append(time.monotonic())

    await asyncio.gather(rude(), nap(log, "a", 0.02), nap(log, "b", 0.6))
    return log, time.time()


@program
async def global_random() -> object:
    """The functions of `random`, from several tasks."""

    async def drawer() -> list[object]:
        first = [random.random(), random.randint(0, 99), random.gauss(0, 1)]
        await asyncio.sleep(0)
        return [*first, random.sample(range(50), 5), random.choice("abcdef"), random.randbytes(3)]

    return await asyncio.gather(*(drawer() for _ in range(4)))


@program
async def random_instances() -> object:
    """Generators that seed themselves."""
    return [
        random.Random().random(),
        random.SystemRandom().random(),
        random.Random().getrandbits(64),
        random.Random(7).random(),
    ]


@program
async def identifiers() -> object:
    """Unique names of every kind, and who asks for them."""

    async def maker() -> list[str]:
        made = [str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(8)]
        await asyncio.sleep(0)
        made += [os.urandom(5).hex(), os.getrandom(5).hex(), secrets.token_urlsafe(6)]
        made += [os.path.basename(tempfile.mktemp(dir=".")), str(os.getpid())]
        return made

    return await asyncio.gather(*(maker() for _ in range(3)))


@free
async def log_lines() -> object:
    """Timestamps and process ids in log lines, in the order of the tasks."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(asctime)s %(created).6f %(process)d %(message)s"))
    logger = logging.Logger("determinism")
    logger.addHandler(handler)

    async def worker(number: int) -> None:
        await asyncio.sleep(number % 2 / 1000)
        logger.warning("worker %d", number)

    await asyncio.gather(*(worker(n) for n in range(4)))
    return text.getvalue()


# --- what foretold itself offers -------------------------------------------------------------


@program
async def workload_choices() -> object:
    """Values from the tape, and from Hypothesis strategies."""
    seen: list[object] = [foretold.choose(["red", "green", "blue"], "colour")]
    seen += [foretold.between(1, 1_000_000, "amount") for _ in range(3)]
    await asyncio.sleep(0)
    seen.append(foretold.draw(st.lists(st.integers() | st.text()), "items"))
    seen.append(foretold.draw(st.dictionaries(st.booleans(), st.floats(0, 1))))
    return seen


@free
async def all_together() -> object:
    """`foretold.together`, with failures among them."""
    log: list[Any] = []

    async def failing(number: int) -> None:
        await pace(log, number, 2)
        raise LookupError(number)

    good = await foretold.together(*(pace(log, n, 2) for n in range(4)))
    try:
        await foretold.together(failing(10), pace(log, 11, 4), failing(12))
    except LookupError as error:
        log.append(error.args)
    return good, log


def plain_main(world: foretold.World) -> object:
    """A plain function that runs loops of its own and moves time by hand."""
    log: list[Any] = []

    async def inner(name: str) -> object:
        return await asyncio.gather(*(nap(log, (name, n), n % 2 / 100) for n in range(4)))

    world.clock.schedule(lambda: log.append("scheduled"), 1.5)
    log.append(asyncio.run(inner("first")))
    world.drive(2)
    log.append(asyncio.run(inner("second")))
    world.drive_until_idle()
    return log, time.monotonic(), uuid.uuid4().hex


free(plain_main)

# --- leaks, on purpose -----------------------------------------------------------------------


@planted
async def planted_set_of_strings() -> object:
    """The order of a set of strings depends on the hash seed of the process."""
    return list({f"name {number}" for number in range(20)})


@planted
async def planted_addresses() -> object:
    """So does the order of objects that hash by their address."""
    kept = [object() for _ in range(40)]
    return [kept.index(thing) for thing in set(kept)]
