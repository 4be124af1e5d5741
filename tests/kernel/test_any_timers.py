"""Every order in which timers can fire under stock asyncio is enumerated; no other is claimed to be
all there is.

An exclusion rests on it ("stock asyncio does not do this"), so it must never leave one out.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.kernel.audit import Audit
from foretold.world.current import current_world
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World

IN_ORDER = Settings(order="asyncio", strategy="fifo")


def runs_of(main: Callable[..., Any]) -> tuple[set[Any], set[str]]:
    """What all stock schedules of `main` return, and what besides timers could have changed it."""
    values, outside = set(), set()
    for tape in foretold.enumerate_tapes(limit=5_000, streams=None):
        tape.audit = Audit()
        done = execute(bind_main(main), tape, IN_ORDER)
        assert done.error is None
        values.add(done.value)
        outside.add(tape.audit.outside)
    return values, outside


def racing(*seconds: float, apart_s: float = 0.0) -> Callable[[], Any]:
    """Tasks that sleep so long, each begun `apart_s` after the one before; returns their order."""

    async def main() -> str:
        log: list[str] = []

        async def goes(name: str, sleep_s: float) -> None:
            await asyncio.sleep(sleep_s)
            log.append(name)

        tasks = []
        for name, sleep_s in zip("abc", seconds, strict=False):
            tasks.append(asyncio.create_task(goes(name, sleep_s)))
            await asyncio.sleep(apart_s)
        await asyncio.gather(*tasks)
        return "".join(log)

    return main


@pytest.mark.parametrize(
    ("main", "orders"),
    [
        (racing(0.01, 0.01), {"ab"}),
        (racing(0.01, 0.02), {"ab"}),
        (racing(0.02, 0.01), {"ab", "ba"}),
        (racing(0.03, 0.02, apart_s=0.001), {"ab", "ba"}),
        (racing(0.03, 0.01, 0.02), {"abc", "bac", "bca"}),
        (racing(60, 0.01), {"ba"}),
    ],
)
def test_all_orders_of_timers(main: Callable[[], Any], orders: set[str]) -> None:
    """One that is set first and for no longer a time comes first. Any other may be overtaken, if
    the steps between take long enough; but not by a whole second."""
    assert runs_of(main) == (orders, {""})


def test_steps_between_the_timers() -> None:
    """A timer may fire before any iteration of a loop that is busy."""

    async def main() -> int:
        hops, over = 0, False

        def fires() -> None:
            nonlocal over
            over = True

        asyncio.get_running_loop().call_later(0.001, fires)
        while not over and hops < 5:
            await asyncio.sleep(0)
            hops += 1
        return hops

    assert runs_of(main)[0] == {2, 3, 4, 5}  # the task that set it is in line before it


def test_a_timer_that_is_called_off() -> None:
    """A time limit that is not reached may expire all the same; one of an hour may not."""

    async def main(seconds: float) -> str:
        try:
            await asyncio.wait_for(asyncio.sleep(0.01), seconds)
        except TimeoutError:
            return "late"
        return "kept"

    assert runs_of(lambda: main(0.02))[0] == {"late", "kept"}
    assert runs_of(lambda: main(3_600))[0] == {"kept"}


async def _reads() -> None:
    time.time()


async def _reads_the_loops_clock() -> None:
    asyncio.get_running_loop().time()


async def _blocks() -> None:
    time.sleep(0.1)


async def _draws() -> None:
    random.random()


async def _draws_bytes() -> None:
    current_world().tape.bytes(4)


async def _starts_a_thread() -> None:
    await asyncio.to_thread(int)


async def _opens_a_socket() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 80)
    server.close()


async def _has_a_host(world: World) -> None:
    world.host("other")


@pytest.mark.parametrize(
    ("main", "outside"),
    [
        (_reads, "a clock"),
        (_reads_the_loops_clock, "a clock"),
        (_blocks, "a clock"),
        (_draws, "randomness"),
        (_draws_bytes, "randomness"),
        (_starts_a_thread, "a thread"),
        (_opens_a_socket, "a socket"),
        (_has_a_host, "another host"),
    ],
)
def test_what_else_could_decide_is_noticed(main: Callable[..., Any], outside: str) -> None:
    """Then the enumeration is not all there is, and nothing may be concluded from it."""
    for tape in foretold.enumerate_tapes(streams=None):
        tape.audit = Audit()
        execute(bind_main(main), tape, IN_ORDER)
        assert tape.audit.outside == outside
        break


def test_the_audit_changes_no_run() -> None:
    """On a tape with choices it only looks: the digest is the same, and each step is noted."""
    main = bind_main(racing(0.02, 0.01))
    recorded = execute(main, foretold.Tape.seeded(3), IN_ORDER, recording=True).tape.recorded()
    plain = execute(main, recorded, IN_ORDER)
    recorded.audit = Audit()
    audited = execute(main, recorded, IN_ORDER)
    assert audited.digest == plain.digest
    assert len(recorded.audit.steps) == audited.steps
    again = pickle.loads(pickle.dumps(recorded.audit))
    assert again == recorded.audit
