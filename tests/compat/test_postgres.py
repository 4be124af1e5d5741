"""asyncpg and SQLAlchemy's asyncio engine against a PostgreSQL server of the world."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import asyncpg
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import foretold
from tests.compat.postgres import server
from tests.compat.scene import check, for_each, scenario

OWNERS = {1: "ada", 2: "grace", 3: "barbara"}
SELECT_ALL = "SELECT id, owner FROM account"
SELECT_ONE = "SELECT id, owner FROM account WHERE id = $1"
INSERT = "INSERT INTO account VALUES ($1, $2)"


async def start(world: foretold.World, tls: ssl.SSLContext | None = None) -> dict[int, str]:
    """The server on host `db`."""
    accounts = dict(OWNERS)
    world.host("db").start(server(accounts, tls))
    await world.host("db").listening(5432)
    return accounts


def where(**more: Any) -> dict[str, Any]:
    """How the driver finds the server, with nothing left to the machine's own settings."""
    return {
        "host": "db",
        "port": 5432,
        "user": "app",
        "password": "secret",
        "database": "bank",
        "ssl": False,
        **more,
    }


@scenario
async def connection(world: foretold.World) -> None:
    """Simple and prepared queries, parameters, transactions, on one connection."""
    await start(world)
    own = await asyncpg.connect(**where())
    assert [tuple(row) for row in await own.fetch(SELECT_ALL)] == sorted(OWNERS.items())
    assert await own.fetchval(SELECT_ONE, 2, column=1) == "grace"
    async with own.transaction():
        assert await own.execute(INSERT, 4, "radia") == "INSERT 0 1"
    statement = await own.prepare(SELECT_ONE)
    for number in (4, 1):
        row = await statement.fetchrow(number)
        assert row is not None
        assert row["id"] == number
    assert await own.execute("ROLLBACK") == "ROLLBACK"
    await own.close()
    await world.host("db").stop()


@scenario
async def pool(world: foretold.World) -> None:
    """Twelve tasks share a pool of three connections."""
    accounts = await start(world)
    async with asyncpg.create_pool(**where(min_size=1, max_size=3)) as connections:

        async def insert(number: int) -> None:
            async with connections.acquire() as own:
                await own.execute(INSERT, number, f"owner {number}")
                await asyncio.sleep(0.05)
                assert await own.fetchval(SELECT_ONE, number, column=1) == f"owner {number}"

        await asyncio.gather(*(insert(number) for number in range(10, 22)))
        assert connections.get_size() <= 3
    assert len(accounts) == 15
    await world.host("db").stop()


@scenario
async def engine(world: foretold.World) -> None:
    """SQLAlchemy's engine: its first questions to the server, sessions at a time, a rollback."""
    accounts = await start(world)
    own = create_async_engine(
        "postgresql+asyncpg://app:secret@db:5432/bank", connect_args={"ssl": False}, pool_size=2
    )
    insert = sqlalchemy.text("INSERT INTO account VALUES (:id, :owner)")
    select = sqlalchemy.text("SELECT id, owner FROM account WHERE id = :id")

    async def work(number: int) -> Any:
        async with own.begin() as connection:
            await connection.execute(insert, {"id": number, "owner": f"owner {number}"})
        async with own.connect() as connection:
            return (await connection.execute(select, {"id": number})).one()

    rows = await asyncio.gather(*(work(number) for number in range(10, 16)))
    assert [tuple(row) for row in rows] == [(n, f"owner {n}") for n in range(10, 16)]
    assert len(accounts) == 9
    await own.dispose()
    await world.host("db").stop()


@for_each(connection, pool, engine)
def test_postgres(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
