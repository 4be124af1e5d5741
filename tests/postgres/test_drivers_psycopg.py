"""psycopg 3, psycopg_pool and psycopg2, unmodified, against the real server.

libpq speaks for itself, in C. Plain code runs as the main of a host, where it may block.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import psycopg2
import psycopg2.extensions
import psycopg2.pool
import psycopg_pool
import pytest
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Jsonb

import foretold
from tests.postgres.driving import check, for_each, on_host
from tests.postgres.scenarios import SCHEMA, compared

ADD = "UPDATE account SET balance = balance + 1 WHERE id = 1"
BALANCE = "SELECT balance FROM account WHERE id = 1"
SLEEP = "SELECT pg_sleep(600)"


def in_threads(*works: Callable[[], object]) -> None:
    """All at once, and wait for them."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- psycopg 3, with threads -----------------------------------------------------------------


@compared
async def psycopg_threads(world: foretold.World) -> Any:
    """Threads of two hosts read and write the same row: updates are lost, or not, by the tape."""
    pg = await world.postgres(schema=SCHEMA)

    def add() -> None:
        with psycopg.connect(pg.dsn) as own:
            found = own.execute(BALANCE).fetchone()
            assert found is not None
            own.execute("UPDATE account SET balance = %s WHERE id = 1", (found[0] + 1,))

    await on_host(world, lambda: in_threads(add, add), "one", "other")
    balance = pg.sql(BALANCE)[0][0]
    assert 101 <= balance <= 104
    return balance


async def prepared_and_cursors(world: foretold.World) -> None:
    """Statements that are prepared after their fifth use, cursors of the client and the server."""
    pg = await world.postgres(schema=SCHEMA)

    def main() -> None:
        with psycopg.connect(pg.dsn) as own:
            for number in range(8):
                found = own.execute("SELECT %s::int * 2", (number,), binary=number % 2 == 0)
                assert found.fetchone() == (number * 2,)
            assert own.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (1,)
            with own.cursor() as cursor:
                rows = [(f"{n:04}", str(n)) for n in range(500)]
                cursor.executemany("INSERT INTO document VALUES (%s, %s)", rows)
            with own.cursor(name="pages") as pages:
                pages.itersize = 70
                pages.execute("SELECT name FROM document ORDER BY 1")
                assert [row[0] for row in pages] == [name for name, _ in rows]
            with own.cursor(name="leaves", scrollable=True) as leaves:
                leaves.execute("SELECT name FROM document ORDER BY 1")
                leaves.scroll(100)
                assert leaves.fetchone() == ("0100",)
            raw = psycopg.RawCursor(own)
            assert raw.execute("SELECT $1::text", ("x",)).fetchone() == ("x",)
            one_by_one = own.cursor().stream("SELECT generate_series(1, 300)")
            assert sum(row[0] for row in one_by_one) == 45_150

    await on_host(world, main)


@compared
async def psycopg_pipeline(world: foretold.World) -> Any:
    """A pipeline with an error in the middle: what follows up to the next Sync is not done."""
    pg = await world.postgres(schema=SCHEMA)
    seen: list[Any] = []

    def main() -> None:
        with psycopg.connect(pg.dsn, autocommit=True) as own:
            with own.pipeline():
                found = [own.execute("SELECT %s::int", (n,)) for n in range(20)]
            seen.append([cursor.fetchone() for cursor in found])
            with pytest.raises(psycopg.errors.DivisionByZero), own.pipeline() as pipeline:
                own.execute("INSERT INTO document VALUES ('a', 'x')")
                pipeline.sync()
                own.execute("INSERT INTO document VALUES ('b', 'x')")
                own.execute("SELECT 1 / 0")
                own.execute("INSERT INTO document VALUES ('c', 'x')")
            assert own.execute("SELECT 1").fetchone() == (1,)

    await on_host(world, main)
    assert seen == [[(n,) for n in range(20)]]
    assert pg.sql("SELECT name FROM document") == [("a",)]
    return seen


async def pipeline_that_waits(world: foretold.World) -> None:
    """A pipeline of megabytes both ways, whose first statement has to wait for a lock."""
    pg = await world.postgres(schema=SCHEMA)

    def holder() -> None:
        with psycopg.connect(pg.dsn) as own:
            own.execute(ADD)
            time.sleep(5)

    def main() -> None:
        time.sleep(1)
        with psycopg.connect(pg.dsn, autocommit=True) as own, own.pipeline():
            own.execute(ADD)
            text = "x" * 40_000
            found = [own.execute("SELECT repeat(%s, 2)", (text,)) for _ in range(40)]
            assert all(cursor.fetchone() == (text * 2,) for cursor in found)

    await on_host(world, lambda: in_threads(holder, main))
    assert pg.sql(BALANCE)[0][0] == 102


async def copying(world: foretold.World) -> None:
    """Megabytes in and out by blocks and rows, with small buffers; an error in the middle."""
    pg = await world.postgres(schema=SCHEMA)
    world.network.buffers(16_384, 16_384)

    def main() -> None:
        with psycopg.connect(pg.dsn, autocommit=True) as own, own.cursor() as cursor:
            with cursor.copy("COPY document FROM STDIN") as copy:
                for number in range(1_000):
                    copy.write_row((f"{number:04}", "x" * 1_000))
            assert cursor.rowcount == 1_000
            with cursor.copy("COPY document TO STDOUT (FORMAT binary)") as copy:
                assert sum(len(part) for part in copy) > 1_000_000
            with cursor.copy("COPY (SELECT * FROM document ORDER BY 1) TO STDOUT") as copy:
                assert [row[0] for row in copy.rows()][:2] == ["0000", "0001"]
            with (
                pytest.raises(psycopg.errors.UniqueViolation),
                cursor.copy("COPY document FROM STDIN") as copy,
            ):
                copy.write(b"new\tx\n0001\ty\n")
            with pytest.raises(LookupError), cursor.copy("COPY document FROM STDIN") as copy:
                copy.write(b"new\tx\n")
                raise LookupError
            cursor.execute("SELECT count(*) FROM document")
            assert cursor.fetchone() == (1_000,)

    await on_host(world, main)


async def types(world: foretold.World) -> None:
    """Enums, arrays, json; notices; diagnostics of errors."""
    pg = await world.postgres(schema="CREATE TYPE mood AS ENUM ('calm', 'busy')")

    def main() -> None:
        said: list[Any] = []
        with psycopg.connect(pg.dsn, autocommit=True) as own:
            own.add_notice_handler(lambda told: said.append(told.message_primary))
            info = EnumInfo.fetch(own, "mood")
            assert info is not None
            register_enum(info, own)
            assert info.enum is not None
            for binary in (False, True):
                found = own.execute("SELECT 'busy'::mood, ARRAY[[1], [2]]", binary=binary)
                assert found.fetchone() == (info.enum["busy"], [[1], [2]])
            found = own.execute("SELECT %s::jsonb -> 'a'", (Jsonb({"a": [1, None]}),))
            assert found.fetchone() == ([1, None],)
            own.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
            with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught:
                own.execute("SELECT 'angry'::mood")
            assert caught.value.diag.severity == "ERROR"
        assert said == ["hello"]

    await on_host(world, main)


@compared
async def psycopg_cancelling(world: foretold.World) -> Any:
    """A statement is cancelled by another thread, while it sleeps and while it waits for a lock."""
    pg = await world.postgres(schema=SCHEMA)
    took: list[float] = []

    def main() -> None:
        with psycopg.connect(pg.dsn) as holder, psycopg.connect(pg.dsn, autocommit=True) as own:
            holder.execute(ADD)
            for statement in (SLEEP, ADD):
                for cancel in (own.cancel, own.cancel_safe):
                    begun = time.monotonic()
                    timer = threading.Timer(1, cancel)
                    timer.start()
                    with pytest.raises(psycopg.errors.QueryCanceled):
                        own.execute(statement)
                    timer.join()
                    took.append(time.monotonic() - begun)
            own.cancel_safe()  # there is nothing to cancel
            assert own.execute("SELECT 1").fetchone() == (1,)

    await on_host(world, main)
    assert all(1 < each < 2 for each in took)
    return took


async def notified(world: foretold.World) -> None:
    """notifies() in a thread; what a task of another host tells arrives in order."""
    pg = await world.postgres(schema=SCHEMA)
    heard: list[str] = []

    def listener() -> None:
        with psycopg.connect(pg.dsn, autocommit=True) as own:
            own.execute("LISTEN news")
            heard.extend(note.payload for note in own.notifies(timeout=5, stop_after=2))

    listening = world.host("app").start(listener)
    await asyncio.sleep(1)
    async with await psycopg.AsyncConnection.connect(pg.dsn) as own:
        await own.execute("NOTIFY news, 'one'")
        await own.execute("NOTIFY news, 'two'")
        assert not heard
    await listening
    assert heard == ["one", "two"]


# --- psycopg 3, with tasks -------------------------------------------------------------------


async def tasks(world: foretold.World) -> None:
    """AsyncConnection: savepoints, COPY, a pipeline, a cursor of the server, notifies()."""
    pg = await world.postgres(schema=SCHEMA)
    async with await psycopg.AsyncConnection.connect(pg.dsn, autocommit=True) as own:
        async with own.transaction():
            await own.execute("INSERT INTO document VALUES ('a', 'x')")
            with pytest.raises(psycopg.errors.UniqueViolation):
                async with own.transaction():
                    await own.execute("INSERT INTO document VALUES ('a', 'y')")
        async with own.cursor() as cursor:
            async with cursor.copy("COPY document FROM STDIN") as copy:
                await copy.write("b\tx\nc\tx\n")
            async with cursor.copy("COPY document TO STDOUT") as copy:
                assert b"".join([bytes(part) async for part in copy]).count(b"\n") == 3
        async with own.pipeline():
            found = [await own.execute("SELECT %s::int", (n,)) for n in range(5)]
            assert [await cursor.fetchone() for cursor in found] == [(n,) for n in range(5)]
        async with own.transaction(), own.cursor(name="pages") as pages:
            pages.itersize = 2
            await pages.execute("SELECT name FROM document ORDER BY 1")
            assert [row[0] async for row in pages] == ["a", "b", "c"]
        await own.execute("LISTEN news")
        await own.execute("NOTIFY news, 'self'")
        assert [note.payload async for note in own.notifies(timeout=2, stop_after=1)] == ["self"]


async def cancelled_task(world: foretold.World) -> None:
    """A task that is cancelled cancels its statement; the connection can be used again."""
    pg = await world.postgres(schema=SCHEMA)
    async with await psycopg.AsyncConnection.connect(pg.dsn, autocommit=True) as own:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await own.execute(SLEEP)
        assert await (await own.execute("SELECT 1")).fetchone() == (1,)


# --- psycopg_pool ----------------------------------------------------------------------------


@compared
async def psycopg_pool_of_threads(world: foretold.World) -> Any:
    """Six threads share two connections; a restart of the server in between costs them those."""
    pg = await world.postgres(schema=SCHEMA)

    def main() -> None:
        with psycopg_pool.ConnectionPool(
            pg.dsn, min_size=1, max_size=2, check=psycopg_pool.ConnectionPool.check_connection
        ) as pool:

            def add() -> None:
                with pool.connection() as own:
                    own.execute(ADD)

            in_threads(*[add] * 6)
            pg.fail_next("restart", seconds=1)
            time.sleep(2)
            in_threads(*[add] * 3)

    await on_host(world, main)
    assert pg.sql(BALANCE)[0][0] == 109
    return pg.failures


async def pool_of_tasks(world: foretold.World) -> None:
    """The same with AsyncConnectionPool, and one that opens a connection for each use."""
    pg = await world.postgres(schema=SCHEMA)
    pool = psycopg_pool.AsyncConnectionPool(pg.dsn, min_size=1, max_size=2, open=False)
    null = psycopg_pool.AsyncNullConnectionPool(pg.dsn, max_size=2, open=False)
    for each in (pool, null):
        async with each:

            async def add(pool: Any = each) -> None:
                async with pool.connection() as own:
                    await own.execute(ADD)

            await asyncio.gather(*(add() for _ in range(5)))
    assert pg.sql(BALANCE)[0][0] == 110


# --- psycopg2 --------------------------------------------------------------------------------


@compared
async def psycopg2_threads(world: foretold.World) -> Any:
    """Threads and a pool, named cursors, COPY, notifications, an error, a cancellation."""
    pg = await world.postgres(schema=SCHEMA)
    world.network.buffers(16_384, 16_384)

    def main() -> None:
        pool = psycopg2.pool.ThreadedConnectionPool(1, 4, pg.dsn)

        def add() -> None:
            own = pool.getconn()
            with own, own.cursor() as cursor:
                cursor.execute(ADD)
            pool.putconn(own)

        in_threads(*[add] * 4)
        own = pool.getconn()
        with own, own.cursor() as cursor:
            lines = "".join(f"{n:04}\t{'x' * 500}\n" for n in range(2_000))
            cursor.copy_expert("COPY document FROM STDIN", io.StringIO(lines))
            found = io.StringIO()
            cursor.copy_expert("COPY (SELECT * FROM document ORDER BY 1) TO STDOUT", found)
            assert found.getvalue() == lines
        with own, own.cursor("pages") as pages:
            pages.itersize = 300
            pages.execute("SELECT name FROM document ORDER BY 1")
            assert [row[0] for row in pages] == [f"{n:04}" for n in range(2_000)]
        _cancelled(own)
        pool.putconn(own)
        pool.closeall()

    await on_host(world, main)
    assert pg.sql(BALANCE)[0][0] == 104
    return pg.statements


def _cancelled(own: Any) -> None:
    """By another thread; its transaction has failed then."""
    timer = threading.Timer(1, own.cancel)
    timer.start()
    with own.cursor() as cursor:
        with pytest.raises(psycopg2.extensions.QueryCanceledError):
            cursor.execute(SLEEP)
        timer.join()
        assert own.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_INERROR
        own.rollback()
        cursor.execute("LISTEN news; NOTIFY news, 'self'")
        own.commit()
        cursor.execute("SELECT 1")
    assert [note.payload for note in own.notifies] == ["self"]


@for_each(
    psycopg_threads, prepared_and_cursors, psycopg_pipeline, pipeline_that_waits, copying, types,
    psycopg_cancelling, notified, tasks, cancelled_task, psycopg_pool_of_threads, pool_of_tasks,
    psycopg2_threads,
)  # fmt: skip
def test_psycopg(main) -> None:
    """What each scenario says holds on every tape, and repeats."""
    check(main)


@pytest.mark.parametrize("connect", [psycopg.connect, psycopg2.connect], ids=["3", "2"])
def test_a_host_that_is_stopped_while_libpq_waits(connect: Any) -> None:
    """SIGTERM does not disturb a C library: what a handler raises could not pass through it. The
    host is killed when its grace is over, if it is in libpq all the time; and no run fails."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=SCHEMA)

        def program() -> None:
            with connect(pg.dsn) as connection, connection.cursor() as cursor:
                cursor.execute(SLEEP)

        world.host("app").start(program)
        await asyncio.sleep(1)

    for seed in range(2):
        assert foretold.run(main, seed=seed).virtual_s < 70
