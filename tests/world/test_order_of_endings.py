"""In which order hosts end: the one that was started last first, and none waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foretold
from foretold.world.ending import GRACE_S, PATIENCE_S
from foretold.world.world import World
from tests.world.test_endings import deaf, ended


def test_the_host_that_was_started_last_is_stopped_first() -> None:
    """Each is gone before the one that was started before it is asked; neither the order in which
    hosts are named nor a restart changes that."""
    log: list[str] = []

    def program(name: str) -> Any:
        async def run() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                log.append(f"{name} asked")
                await asyncio.sleep(1)
                log.append(f"{name} ended")

        return run

    async def main(world: World) -> None:
        for name in ("c", "a", "b"):
            world.host(name)
        for name in ("a", "b", "c"):
            world.host(name).start(program(name))
        await asyncio.sleep(1)
        world.host("a").kill()
        world.host("a").restart()
        await asyncio.sleep(1)
        log.clear()

    for done in ended(main):
        assert log == [f"{name} {what}" for name in "cba" for what in ("asked", "ended")]
        assert done.virtual_s == pytest.approx(5, abs=0.5)


def test_a_host_may_wait_for_one_that_was_started_before_it() -> None:
    """A server that was started after its clients ends when they have hung up, and they only when
    they are asked: the end of the run does not wait for it for longer than its patience."""

    async def server() -> None:
        left = asyncio.Event()

        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            left.set()

        await asyncio.start_server(session, "0.0.0.0", 80)
        try:
            await asyncio.Event().wait()
        finally:
            await left.wait()
            log.append("server ended")

    async def client() -> None:
        await asyncio.sleep(0.5)
        _, writer = await asyncio.open_connection("server", 80)
        try:
            await asyncio.Event().wait()
        finally:
            writer.close()
            log.append("client ended")

    log: list[str] = []

    async def main(world: World) -> None:
        log.clear()
        world.host("client").start(client)
        world.host("server").start(server)
        await asyncio.sleep(1)

    for done in ended(main):
        assert log == ["client ended", "server ended"]
        assert done.virtual_s == pytest.approx(1 + PATIENCE_S, abs=0.5)


def test_many_hosts_are_all_asked_in_half_of_the_grace() -> None:
    """Twenty hosts that take no notice: the run ends when the grace of one is over."""

    async def main(world: World) -> None:
        for number in range(20):
            world.host(f"host-{number}").start(deaf)
        await asyncio.sleep(1)

    assert foretold.run(main).virtual_s == pytest.approx(1 + GRACE_S, abs=1)
