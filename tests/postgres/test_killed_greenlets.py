"""Processes that are killed while SQLAlchemy works for them: its code runs in greenlets."""

from __future__ import annotations

import asyncio
import gc
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
