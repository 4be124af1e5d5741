"""Processes that are killed while SQLAlchemy works for them: its code runs in greenlets."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

import foretold


async def works(url: str) -> None:
    """Three at a time, without an end."""
    engine = create_async_engine(url, connect_args={"ssl": False})
    sessions = async_sessionmaker(engine)

    async def one() -> None:
        while True:
            async with sessions.begin() as session:
                await session.execute(text("select pg_sleep(0.05)"))

    await asyncio.gather(*(one() for _ in range(3)))


@pytest.mark.parametrize("after_s", [0.01, 0.03, 0.05, 0.1, 0.2])
def test_no_world_outlives_a_killed_process(
    after_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever it stood, and without a word of the dead about connections that they lose."""
    worlds: list[weakref.ref[foretold.World]] = []

    async def main(world: foretold.World) -> None:
        worlds.append(weakref.ref(world))
        pg = await world.postgres()
        host = world.host("app")
        host.start(lambda: works(pg.url("asyncpg")))
        await asyncio.sleep(after_s)
        host.kill()
        await asyncio.sleep(1)

    for seed in range(3):
        foretold.run(main, seed=seed)
    gc.collect()
    assert [world() for world in worlds] == [None] * 3
    assert caplog.records == []


async def forgets(url: str) -> None:
    """A session that is never closed, in the middle of something."""
    session = async_sessionmaker(create_async_engine(url, connect_args={"ssl": False}))()
    await session.execute(text("select 1"))
    await asyncio.sleep(100)


@pytest.mark.parametrize("end", ["kill", "crash", "go on"])
def test_who_was_killed_need_not_give_connections_back(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The collector finds them later, in the middle of another run: SQLAlchemy neither warns nor
    tries to end them. Nor does it at the end of a run for whom that has caught at work."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres()
        host = world.host("app")
        host.start(lambda: forgets(pg.url("asyncpg")))
        await asyncio.sleep(1)
        if end != "go on":
            getattr(host, end)()
            await asyncio.sleep(1)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        foretold.run(main)
        gc.collect()
    assert [str(each.message) for each in seen if "garbage collector" in str(each.message)] == []
    assert caplog.records == []
