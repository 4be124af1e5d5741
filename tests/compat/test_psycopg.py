"""psycopg 3 and psycopg_pool, with threads and with asyncio, against a server of the world.

libpq speaks for itself here, in C; what it sends crosses the simulated network.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy

import foretold
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario
from tests.compat.test_postgres import OWNERS, SELECT_ALL, start

WHERE = "host=db port=5432 user=app password=secret dbname=bank"
SELECT_ONE = "SELECT id, owner FROM account WHERE id = %s"
INSERT = "INSERT INTO account VALUES (%s, %s)"


async def on_host(world: foretold.World, main: Any, *names: str) -> None:
    """Run a plain main on these hosts, and wait for all of them."""
    tasks = [world.host(name).start(main) for name in names or ("app",)]
    for task in tasks:
        await task


@scenario
async def sync(world: foretold.World) -> None:
    """Queries, parameters, transactions, COPY, a pipeline, in the plain main of two hosts."""
    accounts = await start(world)

    def main() -> None:
        with psycopg.connect(WHERE) as own:
            assert own.execute(SELECT_ONE, (2,)).fetchone() == (2, "grace")
            with own.transaction():
                own.execute(INSERT, (4, "radia"))
            with own.cursor() as cursor, cursor.copy("COPY account FROM STDIN") as copy:
                copy.write(b"5\tjean\n6\tkathleen\n")
            with own.cursor() as cursor, cursor.copy("COPY account TO STDOUT") as copy:
                assert b"".join(bytes(part) for part in copy).count(b"\n") == 6
            with own.pipeline():
                found = [own.execute(SELECT_ONE, (n,)) for n in (1, 4)]
            assert [cursor.fetchone() for cursor in found] == [(1, "ada"), (4, "radia")]

    await on_host(world, main, "app", "batch")
    assert len(accounts) == 6


@scenario
async def in_tasks(world: foretold.World) -> None:
    """AsyncConnection: six tasks at a time, each with its own connection."""
    accounts = await start(world)

    async def insert(number: int) -> None:
        async with await psycopg.AsyncConnection.connect(WHERE) as own:
            await own.execute(INSERT, (number, f"owner {number}"))
            cursor = await own.execute(SELECT_ONE, (number,))
            assert await cursor.fetchone() == (number, f"owner {number}")

    await asyncio.gather(*(insert(number) for number in range(10, 16)))
    assert len(accounts) == 9


@scenario
async def notifications(world: foretold.World) -> None:
    """LISTEN in a thread, NOTIFY from a task on another host."""
    await start(world)
    heard: list[str] = []

    def listener() -> None:
        with psycopg.connect(WHERE, autocommit=True) as own:
            own.execute("LISTEN news")
            heard.extend(note.payload for note in own.notifies(timeout=5, stop_after=2))

    listening = world.host("app").start(listener)
    await asyncio.sleep(1)
    async with await psycopg.AsyncConnection.connect(WHERE, autocommit=True) as own:
        await own.execute("NOTIFY news, 'one'")
        await own.execute("NOTIFY news, 'two'")
    await listening
    assert heard == ["one", "two"]


@scenario
async def cancelling(world: foretold.World) -> None:
    """A long statement ends by `cancel_safe` or `cancel` of another thread, or with its task."""
    await start(world)

    def main() -> None:
        with psycopg.connect(WHERE, autocommit=True) as own:
            for cancel in (own.cancel_safe, own.cancel):
                before = time.monotonic()
                timer = threading.Timer(1, cancel)
                timer.start()
                with pytest.raises(psycopg.errors.QueryCanceled):
                    own.execute("SELECT pg_sleep(60)")
                timer.join()
                assert 1 < time.monotonic() - before < 2

    await on_host(world, main)
    async with await psycopg.AsyncConnection.connect(WHERE, autocommit=True) as own:
        task = asyncio.create_task(own.execute("SELECT pg_sleep(60)"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await (await own.execute(SELECT_ALL)).fetchall()) == len(OWNERS)


@scenario
async def pool_of_threads(world: foretold.World) -> None:
    """Eight threads share three connections of a pool, which has threads of its own."""
    accounts = await start(world)

    def main() -> None:
        with psycopg_pool.ConnectionPool(WHERE, min_size=1, max_size=3) as connections:

            def insert(number: int) -> None:
                with connections.connection() as own:
                    own.execute(INSERT, (number, f"owner {number}"))
                    time.sleep(0.05)

            threads = [threading.Thread(target=insert, args=(n,)) for n in range(10, 18)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    await on_host(world, main)
    assert len(accounts) == 11


@scenario
async def pool_of_tasks(world: foretold.World) -> None:
    """The same with AsyncConnectionPool."""
    accounts = await start(world)
    async with psycopg_pool.AsyncConnectionPool(WHERE, min_size=1, max_size=3) as connections:

        async def insert(number: int) -> None:
            async with connections.connection() as own:
                await own.execute(INSERT, (number, f"owner {number}"))
                await asyncio.sleep(0.05)

        await asyncio.gather(*(insert(number) for number in range(10, 18)))
    assert len(accounts) == 11


@scenario
async def engine(world: foretold.World) -> None:
    """SQLAlchemy's plain engine, used by four threads."""
    accounts = await start(world)

    def main() -> None:
        own = sqlalchemy.create_engine(
            "postgresql+psycopg://app:secret@db:5432/bank", pool_size=2, pool_pre_ping=True
        )
        work_with(own)

    await on_host(world, main)
    assert len(accounts) == 7


def work_with(own: sqlalchemy.Engine) -> None:
    """Four threads use an engine, twice each."""
    insert = sqlalchemy.text("INSERT INTO account VALUES (:id, :owner)")
    select = sqlalchemy.text("SELECT id, owner FROM account WHERE id = :id")

    def work(number: int) -> None:
        with own.begin() as connection:
            connection.execute(insert, {"id": number, "owner": f"owner {number}"})
        with own.connect() as connection:
            row = connection.execute(select, {"id": number}).one()
            assert tuple(row) == (number, f"owner {number}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own.dispose()


@scenario
async def nobody_there(world: foretold.World) -> None:
    """Unknown names, closed ports, a path that is cut, a second host that answers."""
    await start(world)
    world.host("other")

    def main() -> None:
        with pytest.raises(psycopg.OperationalError, match="Name or service not known"):
            psycopg.connect("host=nowhere user=app")
        # psycopg looks before the answer is there. With a slow path the real one says the same.
        with pytest.raises(psycopg.OperationalError, match="server closed the connection"):
            psycopg.connect("host=10.0.0.2 port=1 user=app")
        with pytest.raises(psycopg.OperationalError, match="No such file or directory"):
            psycopg.connect("host=/run/postgresql user=app")
        with psycopg.connect(f"{WHERE} host=other,db port=5432,5432") as own:
            assert own.info.host == "db"
        foretold.current_world().network.partition("app", "db")
        before = time.monotonic()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect("host=10.0.0.2 user=app connect_timeout=7")
        assert 7 <= time.monotonic() - before < 8

    await on_host(world, main)


@scenario
async def crash(world: foretold.World) -> None:
    """The server dies within a statement: its kernel says so at once, its silence after long."""
    await start(world)

    def main() -> None:
        db = foretold.current_world().host("db")
        with psycopg.connect(WHERE, autocommit=True) as own:
            threading.Timer(1, db.kill).start()
            with pytest.raises(psycopg.OperationalError, match="server closed the connection"):
                own.execute("SELECT pg_sleep(60)")
            assert own.closed
        db.restart()
        time.sleep(1)
        settings = "keepalives_idle=10 keepalives_interval=5 keepalives_count=3"
        with psycopg.connect(f"{WHERE} {settings}", autocommit=True) as own:
            threading.Timer(1, db.crash).start()
            before = time.monotonic()
            with pytest.raises(psycopg.OperationalError, match="timed out"):
                own.execute("SELECT pg_sleep(6000)")
            assert 20 < time.monotonic() - before < 30

    await on_host(world, main)


@scenario
async def over_tls(world: foretold.World) -> None:
    """libpq has an OpenSSL of its own; what it draws is on the tape too."""
    await start(world, tls.SERVER)

    def main() -> None:
        with psycopg.connect(f"{WHERE} sslmode=require") as own:
            assert own.pgconn.ssl_in_use
            assert own.execute(SELECT_ONE, (2,)).fetchone() == (2, "grace")

    await on_host(world, main)


MAINS = (
    sync, in_tasks, notifications, cancelling, pool_of_threads, pool_of_tasks, engine, over_tls,
    nobody_there, crash,
)  # fmt: skip


@for_each(*MAINS)
def test_psycopg(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)


def test_pure_python() -> None:
    """The implementation without C, on the machine's own libpq, in a process of its own."""
    if not ctypes.util.find_library("pq"):
        pytest.skip("this machine has no libpq of its own")
    done = subprocess.run(
        [sys.executable, "-m", "tests.compat.child", "1", "psycopg."],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PSYCOPG_IMPL": "python"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert len(json.loads(done.stdout)) == 2 * (len(MAINS) + 1)
