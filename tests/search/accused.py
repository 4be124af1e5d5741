"""Programs with one race of known cause, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foretold.story.story import tell_run
from foretold.tape import Tape
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World

asyncpg = pytest.importorskip("asyncpg")
ACCOUNTS = (
    "create table account (id int primary key, owner text unique, n int check (n < 100));"
    "insert into account values (1, 'ann', 10), (2, 'bob', 10)"
)


def story_of(main: Callable[..., Any]) -> str:
    """What is told of the calm run, on one line."""
    tape = Tape.calm()
    done = execute(bind_main(main), tape, Settings.from_tape(tape.settings), detail=True)
    assert done.error is not None, "the run must fail"
    assert isinstance(done.error, AssertionError), done.error
    return " ".join(str(tell_run(done)[0]).split())


def program(
    schema: str, *parts: Callable[[Any], Awaitable[None]], asks: str = ""
) -> Callable[..., Any]:
    """All parts at once, each with a connection of its own; then the test asks, and fails."""

    async def main(world: World) -> None:
        pg = await world.postgres(schema=schema)

        async def with_connection(part: Callable[[Any], Awaitable[None]]) -> None:
            connection = await asyncpg.connect(pg.dsn)
            try:
                await part(connection)
            finally:
                await connection.close()

        tasks = [asyncio.create_task(with_connection(p), name=p.__name__) for p in parts]
        await asyncio.gather(*tasks)
        if asks:
            pg.sql(asks)
        raise AssertionError("it fails")

    return main


async def add(db: Any, table: str, row: int, *, column: str = "id") -> None:
    """A lost update: read, wait, write."""
    async with db.transaction():
        n = await db.fetchval(f"select n from {table} where {column} = $1", row)
        await asyncio.sleep(0.01)
        await db.execute(f"update {table} set n = $1 where {column} = $2", n + 1, row)
