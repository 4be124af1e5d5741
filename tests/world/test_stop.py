"""`host.stop`: how long it waits, what it says, and who may come between."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from typing import Any

import pytest

import foretold
from foretold.world.ending import GRACE_S, GRACE_STEPS
from foretold.world.world import World
from tests.world.test_endings import deaf
from tests.world.test_hosts import echo_server, seen_by


def test_stop_has_the_same_grace() -> None:
    """`stop` says whether the host ended by itself, and how long it waits can be said."""

    async def main(world: World) -> Any:
        loop, said, host = asyncio.get_running_loop(), [], world.host("one")
        for program, grace_s in ((echo_server, 5.0), (deaf, None), (deaf, 2.5), (deaf, 0.0)):
            host.start(program)
            await asyncio.sleep(1)
            began = loop.time()
            by_itself = await (host.stop() if grace_s is None else host.stop(grace_s=grace_s))
            said.append((by_itself, round(loop.time() - began, 1)))
            assert host not in world.live_hosts()
        assert await host.stop() is True
        return said

    assert seen_by(main) == [(True, 0.0), (False, GRACE_S), (False, 2.5), (False, 0.0)]


def test_stop_with_all_the_time_there_is() -> None:
    """`math.inf`: an hour of cleaning up is waited for, by as many steps as it takes; at the end
    of the run the usual grace holds again."""

    async def thorough() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(2 * GRACE_STEPS):
                await asyncio.sleep(0)
            await asyncio.sleep(3600)

    async def main(world: World) -> Any:
        host = world.host("one")
        host.start(thorough)
        await asyncio.sleep(1)
        return await host.stop(grace_s=math.inf)

    async def impatient(world: World) -> None:
        world.host("one").start(deaf)
        await asyncio.sleep(1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(world.host("one").stop(grace_s=math.inf), 1)

    assert foretold.run(main).value is True
    assert foretold.run(impatient).virtual_s < 3 + GRACE_S


def test_a_bad_grace_is_refused() -> None:
    """Before anything is asked to end."""

    async def main(world: World, grace_s: Any) -> None:
        await world.host("one").stop(grace_s=grace_s)

    for grace_s in (-1, math.nan):
        with pytest.raises(foretold.UsageError, match="grace_s"):
            foretold.run(lambda world, grace_s=grace_s: main(world, grace_s))


def test_who_is_killed_while_it_is_ended() -> None:
    """`stop` returns when somebody else's kill, crash or restart was faster, and does not touch the
    new process. Two who stop one host both return."""

    async def main(world: World) -> Any:
        said = []
        for how in ("kill", "crash", "restart", "stop"):
            host = world.host(how)
            host.start(deaf)
            await asyncio.sleep(1)
            stopping = asyncio.create_task(host.stop())
            await asyncio.sleep(1)
            if how == "stop":
                said.append(await host.stop(grace_s=1))
            else:
                getattr(host, how)()
            await stopping
            said.append(host in world.live_hosts())
        return said

    assert seen_by(main) == [False, False, True, False, False]


def test_a_new_process_has_no_handlers_of_the_old() -> None:
    """A host that was stopped and started again is cancelled, unless it sets a handler anew."""

    async def polite() -> str:
        done = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
        await done.wait()
        return "asked"

    async def plain() -> str:
        await asyncio.Event().wait()
        return "never"

    async def main(world: World) -> Any:
        host = world.host("one")
        first = host.start(polite)
        await asyncio.sleep(1)
        assert await host.stop()
        host.start(plain)
        await asyncio.sleep(1)
        return await first, await host.stop()

    assert seen_by(main) == ("asked", True)
