"""psycopg2 against a server of the world: it blocks in C, in virtual time."""

from __future__ import annotations

import io
import select
import threading
import time

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool
import pytest
import sqlalchemy

import foretold
from tests.compat.scene import check, for_each, scenario
from tests.compat.test_postgres import OWNERS, SELECT_ALL, start
from tests.compat.test_psycopg import INSERT, SELECT_ONE, WHERE, on_host, work_with


@scenario
async def connection(world: foretold.World) -> None:
    """Queries, parameters, transactions and COPY, in the plain mains of two hosts."""
    accounts = await start(world)

    def main() -> None:
        own = psycopg2.connect(WHERE)
        with own, own.cursor(cursor_factory=psycopg2.extras.DictCursor) as cursor:
            cursor.execute(SELECT_ONE, (2,))
            assert cursor.fetchone()["owner"] == "grace"
            cursor.execute(INSERT, (4, "radia"))
            cursor.copy_expert("COPY account FROM STDIN", io.StringIO("5\tjean\n6\tkathleen\n"))
            found = io.StringIO()
            cursor.copy_expert("COPY account TO STDOUT", found)
            assert found.getvalue().count("\n") == 6
        own.close()

    await on_host(world, main, "app", "batch")
    assert len(accounts) == 6


@scenario
async def threads_of_one_connection(world: foretold.World) -> None:
    """Threads may share a connection: its own lock in C makes them wait, and others go on."""
    await start(world)

    def main() -> None:
        own = psycopg2.connect(WHERE)
        own.autocommit = True
        begun = time.monotonic()

        def work() -> None:
            with own.cursor() as cursor:
                cursor.execute("SELECT pg_sleep(1)")

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 3 < time.monotonic() - begun < 4
        own.close()

    await on_host(world, main)


@scenario
async def pool(world: foretold.World) -> None:
    """Six threads and a ThreadedConnectionPool."""
    accounts = await start(world)

    def main() -> None:
        connections = psycopg2.pool.ThreadedConnectionPool(1, 6, WHERE)

        def insert(number: int) -> None:
            own = connections.getconn()
            with own, own.cursor() as cursor:
                cursor.execute(INSERT, (number, f"owner {number}"))
            connections.putconn(own)

        threads = [threading.Thread(target=insert, args=(n,)) for n in range(10, 16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connections.closeall()

    await on_host(world, main)
    assert len(accounts) == 9


@scenario
async def engine(world: foretold.World) -> None:
    """SQLAlchemy's plain engine, used by four threads."""
    accounts = await start(world)

    def main() -> None:
        own = sqlalchemy.create_engine(
            "postgresql+psycopg2://app:secret@db:5432/bank", pool_size=2, pool_pre_ping=True
        )
        work_with(own)

    await on_host(world, main)
    assert len(accounts) == 7


@scenario
async def waiting(world: foretold.World) -> None:
    """Asynchronous connections, notifications by `select`, and a wait callback of the program."""
    await start(world)

    def main() -> None:
        own = psycopg2.connect(WHERE, async_=True)
        psycopg2.extras.wait_select(own)
        with own.cursor() as cursor:
            cursor.execute("LISTEN news")
            psycopg2.extras.wait_select(own)
            assert select.select([own], [], [], 1) == ([], [], [])
            cursor.execute("NOTIFY news, 'one'")
            psycopg2.extras.wait_select(own)
        assert [note.payload for note in own.notifies] == ["one"]
        own.close()
        psycopg2.extensions.set_wait_callback(psycopg2.extras.wait_select)
        try:
            own = psycopg2.connect(WHERE)
            with own.cursor() as cursor:
                cursor.execute(SELECT_ALL)
                assert cursor.fetchall() == sorted(OWNERS.items())
            own.close()
        finally:
            psycopg2.extensions.set_wait_callback(None)

    await on_host(world, main)


@scenario
async def trouble(world: foretold.World) -> None:
    """Cancelling, names and ports that are not there, a time limit, a server that dies."""
    await start(world)

    def main() -> None:
        with pytest.raises(psycopg2.OperationalError, match="could not translate host name"):
            psycopg2.connect("host=nowhere user=app")
        with pytest.raises(psycopg2.OperationalError, match="Connection refused"):
            psycopg2.connect("host=db port=1 user=app")
        own = psycopg2.connect(WHERE)
        before = time.monotonic()
        with own.cursor() as cursor:
            threading.Timer(1, own.cancel).start()
            with pytest.raises(psycopg2.extensions.QueryCanceledError):
                cursor.execute("SELECT pg_sleep(60)")
            own.rollback()
            assert 1 < time.monotonic() - before < 2
            threading.Timer(1, foretold.current_world().host("db").kill).start()
            with pytest.raises(psycopg2.OperationalError, match="server closed the connection"):
                cursor.execute("SELECT pg_sleep(60)")
        assert own.closed
        foretold.current_world().network.partition("app", "db")
        before = time.monotonic()
        with pytest.raises(psycopg2.OperationalError, match="timeout expired"):
            psycopg2.connect("host=10.0.0.2 user=app connect_timeout=7")
        assert 6 <= time.monotonic() - before < 9

    await on_host(world, main)


@scenario
async def forgotten(world: foretold.World) -> None:
    """A connection that nobody closes is closed when it is freed, even under an exception."""
    await start(world)

    def main() -> None:
        with pytest.raises(TypeError, match="bad_argument"):
            psycopg2.connect(WHERE).cursor().execute("SELECT pg_sleep(0)", bad_argument=True)
        own = psycopg2.connect(WHERE, connection_factory=psycopg2.extras.LoggingConnection)
        del own

    await on_host(world, main)


@for_each(connection, threads_of_one_connection, pool, engine, waiting, trouble, forgotten)
def test_psycopg2(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
