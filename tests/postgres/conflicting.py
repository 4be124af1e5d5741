"""Programs whose transactions touch the same rows, seldom or never at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

import foretold

SCHEMA = """
CREATE TABLE post (id int PRIMARY KEY, votes int NOT NULL);
CREATE TABLE reader (id int PRIMARY KEY);
INSERT INTO post VALUES (1, 0), (2, 0);
"""
LATER_S = 0.18


async def vote(pg: Any, post: int, *, after_s: float, lock: str = "") -> None:
    """Read, look at something else, write."""
    connection = await asyncpg.connect(pg.url())
    await asyncio.sleep(after_s)
    async with connection.transaction():
        votes = await connection.fetchval(f"SELECT votes FROM post WHERE id = $1 {lock}", post)
        for _ in range(4):
            await connection.fetch("SELECT id FROM reader")
        await connection.execute("UPDATE post SET votes = $1 WHERE id = $2", votes + 1, post)
    await connection.close()


async def two_votes(world: foretold.World, first: int, second: int, lock: str = "") -> None:
    """A vote for each of these; the second comes later."""
    pg = await world.postgres(schema=SCHEMA)
    await foretold.together(
        vote(pg, first, after_s=0, lock=lock), vote(pg, second, after_s=LATER_S, lock=lock)
    )
    votes = pg.sql("SELECT sum(votes)::int FROM post")[0][0]
    foretold.always(votes == 2, "every vote counts", votes=votes)


async def lost_vote(world: foretold.World) -> None:
    """The second vote comes when the first is usually over."""
    await two_votes(world, 1, 1)


async def votes_with_lock(world: foretold.World) -> None:
    """The same with a lock: the second waits for the first."""
    await two_votes(world, 1, 1, "FOR UPDATE")


async def votes_for_others(world: foretold.World) -> None:
    """The two touch different rows."""
    await two_votes(world, 1, 2)
