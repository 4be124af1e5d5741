"""asyncpg, unmodified, against the real server."""

from __future__ import annotations

import asyncio
import json
import uuid
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

import foretold
from tests.postgres.driving import check, for_each
from tests.postgres.scenarios import SCHEMA, compared

TYPES = """
CREATE TYPE mood AS ENUM ('calm', 'busy');
CREATE TYPE place AS (street text, number int);
CREATE TABLE thing (
    id serial PRIMARY KEY, feeling mood, at place, tags text[], grid int[][], data jsonb,
    price numeric(10, 2), key uuid, raw bytea, span int4range);
CREATE FUNCTION chatty(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'counting to %', n;
    RAISE WARNING 'too far' USING HINT = 'stop';
    RETURN n;
END $$;
"""


@compared
async def asyncpg_pool(world: foretold.World) -> Any:
    """Ten tasks share three connections of a pool; each sees a clean one."""
    pg = await world.postgres(schema=SCHEMA)
    async with asyncpg.create_pool(pg.dsn, min_size=1, max_size=3) as pool:

        async def work(number: int) -> int:
            async with pool.acquire() as own, own.transaction():
                await own.execute("SET LOCAL lock_timeout = '1s'")
                await own.execute("UPDATE account SET balance = balance + 1 WHERE id = 1")
                return number

        done = await asyncio.gather(*map(work, range(10)))
        assert await pool.fetchval("SHOW lock_timeout") == "0"
        assert pool.get_size() <= 3
    assert sorted(done) == list(range(10))
    assert pg.sql("SELECT balance FROM account WHERE id = 1")[0][0] == 110
    return done


async def prepared(world: foretold.World) -> None:
    """Prepared statements, the statement cache, and what becomes of it when a table changes."""
    pg = await world.postgres(schema=SCHEMA)
    own = await asyncpg.connect(pg.dsn, statement_cache_size=2)
    select = await own.prepare("SELECT balance, $2::text FROM account WHERE id = $1")
    assert [p.name for p in select.get_parameters()] == ["int4", "text"]
    assert [a.name for a in select.get_attributes()] == ["balance", "text"]
    assert await select.fetchrow(2, "x") == (100, "x")
    for number in (1, 2, 3, 1, 2, 3):
        assert await own.fetchval(f"SELECT {number} + $1::int", 1) == number + 1
    assert len(await own.fetch("SELECT * FROM on_call")) == 2
    other = await asyncpg.connect(pg.dsn)
    await other.execute("ALTER TABLE on_call ADD COLUMN since date")
    assert [len(row) for row in await own.fetch("SELECT * FROM on_call")] == [3, 3]
    await own.close()
    await other.close()


async def many_and_cursors(world: foretold.World) -> None:
    """executemany is one transaction; cursors come in portions (portals that are suspended)."""
    pg = await world.postgres(schema=SCHEMA)
    own = await asyncpg.connect(pg.dsn)
    await own.executemany(
        "INSERT INTO document VALUES ($1, $2)", [(f"{n:04}", str(n)) for n in range(1000)]
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await own.executemany("INSERT INTO document VALUES ($1, $2)", [("new", "x"), ("0001", "y")])
    assert await own.fetchval("SELECT count(*) FROM document") == 1000
    async with own.transaction():
        found = [
            row[0] async for row in own.cursor("SELECT name FROM document ORDER BY 1", prefetch=90)
        ]
        assert found == [f"{n:04}" for n in range(1000)]
        cursor = await own.cursor("SELECT name FROM document ORDER BY 1")
        await cursor.forward(10)
        assert [row[0] for row in await cursor.fetch(2)] == ["0010", "0011"]
    await own.close()


@compared
async def asyncpg_large_copy(world: foretold.World) -> Any:
    """Megabytes in and out with small buffers: whoever is slower holds up the other."""
    pg = await world.postgres(schema=SCHEMA)
    world.network.buffers(16_384, 16_384)
    own = await asyncpg.connect(pg.dsn)
    rows = [(f"{n:05}", "x" * 2_000) for n in range(1_000)]
    assert await own.copy_records_to_table("document", records=rows) == "COPY 1000"
    size, parts = 0, 0

    async def take(data: bytes) -> None:
        nonlocal size, parts
        size, parts = size + len(data), parts + 1
        if parts % 100 == 0:
            await asyncio.sleep(0.1)

    assert await own.copy_from_table("document", output=take) == "COPY 1000"
    assert size == 1_000 * (5 + 1 + 2_000 + 1)

    async def lines() -> Any:
        for number in range(1_000):
            yield b"%d\tyes\n" % number
            if number == 500:
                raise LookupError("no more")

    with pytest.raises(LookupError):
        await own.copy_to_table("document", source=lines())
    with pytest.raises(asyncpg.BadCopyFileFormatError):
        await own.copy_to_table("document", source=_bad_lines())
    assert await own.fetchval("SELECT count(*) FROM document") == 1_000
    await own.close()
    return size


async def _bad_lines() -> Any:
    yield b"just one column\n" * 100


async def types(world: foretold.World) -> None:
    """Enums, composites, arrays, json with a codec, ranges, numbers; binary and text."""
    pg = await world.postgres(schema=TYPES)
    own = await asyncpg.connect(pg.dsn)
    await own.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    values = (
        "busy", ("Main St", 7), ["a", "b c", 'd"'], [[1, 2], [3, 4]], {"deep": [1, None]},
        Decimal("12.50"), uuid.UUID(int=5), b"\x00\xff", asyncpg.Range(1, 5),
    )  # fmt: skip
    row = await own.fetchrow(
        "INSERT INTO thing (feeling, at, tags, grid, data, price, key, raw, span) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *",
        *values,
    )
    assert tuple(row)[1:] == values
    assert await own.fetchval("SELECT '{calm,busy}'::mood[]") == ["calm", "busy"]
    with pytest.raises(asyncpg.InvalidTextRepresentationError, match="angry"):
        await own.fetchval("SELECT $1::text::mood", "angry")
    await own.execute("DROP TABLE thing; DROP TYPE mood")
    await own.close()


async def notices(world: foretold.World) -> None:
    """What the server says beside its answer comes with it, and nothing of ours does."""
    pg = await world.postgres(schema=TYPES)
    own = await asyncpg.connect(pg.dsn)
    said: list[Any] = []
    own.add_log_listener(lambda _, message: said.append((message.severity, message.message)))
    assert await own.fetchval("SELECT chatty($1)", 3) == 3
    await asyncio.sleep(0)
    assert said == [("NOTICE", "counting to 3"), ("WARNING", "too far")]
    await own.execute("SET client_min_messages = warning; SELECT chatty(4)")
    await asyncio.sleep(0)
    assert said[2:] == [("WARNING", "too far")]
    await own.close()


@compared
async def asyncpg_cancelling(world: foretold.World) -> Any:
    """By a timeout, and with its task: the statement ends in the server, the session goes on."""
    pg = await world.postgres(schema=SCHEMA)
    holder, own = await asyncpg.connect(pg.dsn), await asyncpg.connect(pg.dsn)
    await holder.execute("BEGIN; UPDATE account SET balance = 0 WHERE id = 1")
    update = "UPDATE account SET balance = 1 WHERE id = 1"
    began = world.clock.monotonic()
    for statement in ("SELECT pg_sleep(600)", update):
        with pytest.raises(TimeoutError):
            await own.execute(statement, timeout=2)
        task = asyncio.create_task(own.execute(statement))
        await asyncio.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await own.fetchval("SELECT 1") == 1
    took = world.clock.monotonic() - began
    assert 10 < took < 12
    await holder.execute("COMMIT")
    assert await own.execute(update) == "UPDATE 1"
    await holder.close()
    await own.close()
    return round(took, 6)


async def savepoints(world: foretold.World) -> None:
    """Nested blocks are savepoints; an error spoils the innermost one alone."""
    pg = await world.postgres(schema=SCHEMA)
    own = await asyncpg.connect(pg.dsn)
    async with own.transaction():
        await own.execute("INSERT INTO document VALUES ('a', 'x')")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with own.transaction():
                await own.execute("INSERT INTO document VALUES ('b', 'x')")
                await own.execute("INSERT INTO document VALUES ('a', 'x')")
        async with own.transaction():
            await own.execute("INSERT INTO document VALUES ('c', 'x')")
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        async with own.transaction():
            with pytest.raises(asyncpg.DivisionByZeroError):
                await own.fetchval("SELECT 1 / $1::int", 0)
            await own.fetchval("SELECT 1")
    assert pg.sql("SELECT name FROM document ORDER BY 1") == [("a",), ("c",)]
    await own.close()


async def listening(world: foretold.World) -> None:
    """To two channels, from two hosts; what is unlistened is told no more."""
    pg = await world.postgres(schema=SCHEMA)
    heard: list[Any] = []
    own, other = await asyncpg.connect(pg.dsn), await asyncpg.connect(pg.dsn)

    def hear(_: Any, pid: int, channel: str, text: str) -> None:
        heard.append((pid == other.get_server_pid(), channel, text))

    for channel in ("news", "weather"):
        await own.add_listener(channel, hear)
    await other.execute("NOTIFY news, 'one'; NOTIFY weather, 'rain'")
    await asyncio.sleep(1)
    await own.remove_listener("weather", hear)
    async with other.transaction():
        await other.execute("SELECT pg_notify('weather', 'sun'), pg_notify('news', 'two')")
        assert len(heard) == 2
    await asyncio.sleep(1)
    assert heard == [(True, "news", "one"), (True, "weather", "rain"), (True, "news", "two")]
    await own.close()
    await other.close()


async def restarted(world: foretold.World) -> None:
    """A pool lives through a restart of the server: new connections for those that were lost."""
    pg = await world.postgres(schema=SCHEMA)
    async with asyncpg.create_pool(pg.dsn, min_size=2, max_size=2) as pool:
        assert await pool.fetchval("SELECT 1") == 1
        pg.fail_next("restart", seconds=2)
        with pytest.raises((asyncpg.PostgresError, OSError, asyncpg.InterfaceError)):
            for _ in range(3):
                await pool.fetchval("SELECT 1")
        await asyncio.sleep(3)
        assert await pool.fetchval("SELECT 2") == 2


async def planted(world: foretold.World) -> None:
    """Numbers of transactions are never used twice."""
    pg = await world.postgres(schema=SCHEMA)
    own = await asyncpg.connect(pg.dsn)
    await own.fetchval("SELECT txid_current()")
    await own.close()


def test_what_does_not_repeat_is_found() -> None:
    """`check` notices a run that differs from the first."""
    with pytest.raises(AssertionError, match="planted"):
        check(planted)


@for_each(
    asyncpg_pool, prepared, many_and_cursors, asyncpg_large_copy, types, notices,
    asyncpg_cancelling, savepoints, listening, restarted,
)  # fmt: skip
def test_asyncpg(main) -> None:
    """What each scenario says holds on every tape, and repeats."""
    check(main)


async def schema_by_function(address: str) -> None:
    """A schema whose making counts statements."""
    own = await asyncpg.connect(address)
    await own.execute("CREATE TABLE made_by_function (id int)")
    await own.fetch("SELECT 1")
    await own.close()


def test_a_schema_function_leaves_no_trace_in_the_first_run() -> None:
    """It is called in the first run of a process alone, and uses the same driver: the run's own
    statements have the same names all the same."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=schema_by_function)
        own = await asyncpg.connect(pg.dsn)
        await own.fetch("SELECT * FROM made_by_function")
        await own.close()

    assert len({foretold.run(main).digest for _ in range(2)}) == 1
