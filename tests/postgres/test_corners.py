"""Where a real server is hard to keep under control: what an adversary has tried."""

from __future__ import annotations

import asyncio
import select
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import CheckConstraint, Column, Integer, MetaData, String, Table

import foretold
from foretold.errors import PostgresError, ServiceError
from foretold.kernel import real
from foretold.kernel.patches import patches
from foretold.services.postgres import kept
from tests.postgres.scenarios import connect, outcome, run

ONE = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)"


@pytest.mark.parametrize("end", ["kill", "restart", "hang up"])
def test_a_session_that_sleeps_can_be_ended(end: str) -> None:
    """By the death of its host, a restart of the server, or its client."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        task = asyncio.ensure_future(outcome(one.execute("SELECT pg_sleep(1000)")))
        await asyncio.sleep(1)
        if end == "kill":
            pg.host.kill()
        elif end == "restart":
            pg.fail_next("restart")
        else:
            one.terminate()
        await task

    run(main)


@pytest.mark.parametrize("sql", ["SELECT * FROM t", "SELECT pg_sleep(9)"])
def test_a_look_never_waits(sql: str) -> None:
    """pg.sql says so instead."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        await one.execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        pg.sql(sql)

    with pytest.raises(foretold.UsageError, match="would have to wait"):
        run(main)


def test_a_look_is_at_the_worlds_time() -> None:
    """Clock, randomness and defaults; and nothing of it is left for the next look."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        with pytest.raises(PostgresError):
            pg.sql("COPY t FROM stdin")
        pg.sql("SET timezone = 'Asia/Tokyo'")
        (row,) = pg.sql("SELECT now(), random(), gen_random_uuid(), current_setting('timezone')")
        return list(map(str, row)), pg.sql("SELECT $1::int[], $2::bytea", [1, 2], b"x")[0][:]

    first = run(main)
    assert first[0][0].startswith("2026-01-01 00:00:0")
    assert first[0][3] == "UTC"
    assert first[1] == ([1, 2], b"x")
    assert run(main) == first


def test_waits_that_are_no_locks() -> None:
    """A safe snapshot, and a page that a cursor holds."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        one, other = await connect(pg, 2)
        await one.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (2, 2)")

        async def read() -> Any:
            async with other.transaction(isolation="serializable", readonly=True, deferrable=True):
                return await other.fetchval("SELECT count(*) FROM t")

        task = asyncio.ensure_future(read())
        await asyncio.sleep(1)
        await one.execute("COMMIT")
        count = await task
        await one.execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t")
        await one.fetch("FETCH 1 FROM c")
        vacuum = asyncio.ensure_future(other.execute("VACUUM (FREEZE) t"))
        await asyncio.sleep(1)
        await one.execute("COMMIT")
        return count, await vacuum

    assert run(main) == (1, "VACUUM")


def test_a_schema_may_sleep() -> None:
    """Nobody's time passes meanwhile."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema="SELECT pg_sleep(3600); CREATE TABLE u (id int)")
        return pg.sql("SELECT count(*) FROM u")[0][0]

    assert run(main) == 0


def test_what_a_function_tells_and_writes() -> None:
    """`SELECT pg_notify(…)` reaches listeners; a SELECT that writes is a commit."""
    schema = "CREATE TABLE t (id int); CREATE FUNCTION put() RETURNS int LANGUAGE sql AS " + (
        "$$ INSERT INTO t VALUES (1) RETURNING 1 $$"
    )

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=schema)
        told: list[str] = []
        commits: list[Any] = []
        pg.on_commit(lambda commit: commits.append(commit.statements))
        listener, one = await connect(pg, 2)
        await listener.add_listener("ch", lambda *about: told.append(about[3]))
        commits.clear()
        await one.execute("SELECT pg_notify('ch', 'hello')")
        await one.fetchval("SELECT put()")
        await asyncio.sleep(1)
        return told, commits[-1]

    assert run(main) == (["hello"], ("SELECT put()",))


def test_a_pause_past_two_timeouts() -> None:
    """Both strike when the server goes on."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        one, other = await connect(pg, 2)
        await one.execute("SET idle_in_transaction_session_timeout = '2s'")
        await one.execute("BEGIN; UPDATE t SET n = 0")
        await other.execute("SET statement_timeout = '5s'")
        task = asyncio.ensure_future(outcome(other.execute("UPDATE t SET n = 1")))
        await asyncio.sleep(0.5)
        pg.host.pause()
        await asyncio.sleep(10)
        pg.host.resume()
        return await task, await outcome(one.execute("COMMIT"))

    for seed in range(4):
        came, last = run(main, seed=seed)
        assert came.startswith("57014") or came == "UPDATE 1"
        assert "COMMIT" not in last


def test_a_failure_where_its_statement_would_wait() -> None:
    """psycopg sends all in one go, and its Parse needs the lock: the failure is told anyway."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        await one.execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        pg.fail_next("cancelled", sql="select n")
        async with await psycopg.AsyncConnection.connect(pg.dsn, autocommit=True) as other:
            with pytest.raises(psycopg.errors.QueryCanceled):
                await other.execute("select n from t where id = %s", (1,))
            await one.execute("COMMIT")
            return await (await other.execute("select n from t where id = %s", (1,))).fetchone()

    assert run(main) == (1,)


def test_schemas_have_nothing_in_common() -> None:
    """Roles, prepared transactions and settings of the server are those of one schema alone."""

    async def main(world: foretold.World) -> Any:
        schema = "CREATE ROLE app_user; CREATE TABLE {0} (id int); GRANT ALL ON {0} TO app_user"
        one = await world.postgres(schema=schema.format("a"), host="a", superuser=True)
        other = await world.postgres(schema=schema.format("b"), host="b", superuser=True)
        came = []
        for pg, table in ((one, "a"), (other, "b")):
            (connection,) = await connect(pg, 1)
            await connection.execute(f"BEGIN; INSERT INTO {table} VALUES (1)")
            came.append(await connection.execute("PREPARE TRANSACTION 'same'"))
            came.append(await connection.execute("COMMIT PREPARED 'same'"))
            came.append(await connection.execute("ALTER DATABASE app SET timezone = 'Asia/Tokyo'"))
            came.append(await connection.execute("ALTER SYSTEM SET work_mem = '77MB'"))
        return came, one.sql("SHOW work_mem")[0][0]

    for _ in range(2):
        came, memory = run(main)
        assert (
            came == ["PREPARE TRANSACTION", "COMMIT PREPARED", "ALTER DATABASE", "ALTER SYSTEM"] * 2
        )
        assert memory == "4MB"


def test_failures_that_could_not_be() -> None:
    """Inside a failed transaction, and without a lock in sight, PostgreSQL reports no deadlock."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        pg.fail_next("deadlock")
        harmless = await one.fetchval("SELECT 1")
        await one.execute("BEGIN")
        failed = [await outcome(one.execute(sql)) for sql in ("bogus", "SELECT 1")]
        await one.execute("ROLLBACK")
        return harmless, failed[1][:5], (await outcome(one.execute("UPDATE t SET n = 2")))[:5]

    assert run(main) == (1, "25P02", "40P01")


ALWAYS = """
CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1);
CREATE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.n = new.n * 2; RETURN new;
END $$;
CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION twice();
ALTER TABLE t ENABLE ALWAYS TRIGGER x;
"""
EXPIRES = """
CREATE TABLE t (id int PRIMARY KEY, n timestamptz CHECK (n > now()));
INSERT INTO t VALUES (1, now() + interval '1 day');
"""


@pytest.mark.parametrize("schema", [ALWAYS, EXPIRES])
def test_rows_that_cannot_be_written_again(schema: str) -> None:
    """Then each run gets a new copy of the database."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=schema)
        (one,) = await connect(pg, 1)
        before = [tuple(row) for row in await one.fetch("SELECT * FROM t")]
        await one.execute("DELETE FROM t")
        return before

    first = run(main)
    assert len(first) == 1
    assert run(main) == first


def test_the_programs_own_numbers_are_its_own() -> None:
    """Only where PostgreSQL itself names processes and transactions they are replaced."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        said = "payment transaction 4711 refused by process 42"
        return await outcome(one.execute(f"DO $$ BEGIN RAISE EXCEPTION '{said}'; END $$")), said

    came, said = run(main)
    assert said in came


def test_percent_signs_of_a_schema() -> None:
    """As they are."""
    tables = MetaData()
    Table(
        "u",
        tables,
        Column("id", Integer, CheckConstraint("id % 2 = 0"), primary_key=True),
        Column("s", String, server_default="100%"),
    )

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=tables)
        pg.sql("INSERT INTO u (id) VALUES (2)")
        return pg.sql("SELECT s FROM u")[0]["s"]

    assert run(main) == "100%"


def test_settings_that_a_program_made_up() -> None:
    """They are unknown in the next session, and in the next run."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        before = await one.fetchval("SELECT current_setting('app.user', true)")
        await one.execute("SELECT set_config('app.user', 'bob', false)")
        await one.close()
        (other,) = await connect(pg, 1)
        return before, await other.fetchval("SELECT current_setting('app.user', true)")

    assert run(main) == run(main) == (None, None)


def test_what_was_rolled_back_leaves_no_trace() -> None:
    """Rows that were never committed take up room, and would change the order of others."""
    schema = "CREATE TABLE t (id int PRIMARY KEY, n int, pad text); " + (
        "INSERT INTO t SELECT g, g, repeat('x', 300) FROM generate_series(1, 20) g"
    )

    async def fail(world: foretold.World) -> None:
        pg = await world.postgres(schema=schema)
        (one,) = await connect(pg, 1)
        await outcome(one.execute("INSERT INTO t VALUES (1, 1, repeat('y', 900))"))

    async def look(world: foretold.World) -> Any:
        pg = await world.postgres(schema=schema)
        (one,) = await connect(pg, 1)
        for number in range(12):
            await one.execute("UPDATE t SET n = n + 1 WHERE id = $1", number % 5 + 1)
        return [row[0] for row in await one.fetch("SELECT id FROM t")]

    first = run(look)
    run(fail)
    assert run(look) == first


def test_a_client_without_power_is_given_up() -> None:
    """After as long as Linux takes; then its locks are free."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)

        async def app() -> None:
            connection = await asyncpg.connect(pg.dsn)
            await connection.execute("BEGIN")
            await connection.execute("UPDATE t SET n = 0")
            await asyncio.sleep(1_000)

        world.host("app").start(app)
        await asyncio.sleep(2)
        world.host("app").crash()
        began = world.clock.monotonic()
        await one.execute("UPDATE t SET n = 9")
        return world.clock.monotonic() - began

    assert 7_200 < run(main) < 9_000


def test_a_server_that_dies_under_way() -> None:
    """The run fails, though the program copes; the next one has a new server."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        (one,) = await connect(pg, 1)
        (server,) = [k for k in kept._kept.values() if k.in_use]
        with patches.outside():
            number = int((server.cluster.data / "postmaster.pid").read_text().split()[0])
            real.kill(number, 9)
            guardian: Any = server.cluster._guardian
            select.select([guardian.stdout], [], [])  # it tells of the end
        return await outcome(one.fetchval("SELECT 1"))

    with pytest.raises(ServiceError, match="not running any more"):
        run(main)

    async def again(world: foretold.World) -> Any:
        pg = await world.postgres(schema=ONE)
        return pg.sql("SELECT n FROM t")[0]["n"]

    assert run(again) == 1
