"""What a C library meets inside a world: hosts that die, limits, escapes, its environment."""

from __future__ import annotations

import asyncio
import ctypes.util
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import psycopg2
import pytest

import foretold
from tests.compat.postgres import Session
from tests.compat.test_postgres import OWNERS, SELECT_ALL, start
from tests.compat.test_psycopg import WHERE, on_host

ROOT = Path(__file__).parents[2]
SEEDS = range(20)


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_a_host_dies_while_its_threads_are_in_c(end: str) -> None:
    """They never go on. A kernel that lives on tells the server, one without power does not."""
    after: list[str] = []

    async def main(world: foretold.World) -> None:
        await start(world)

        def wait(connect: object) -> None:
            own = psycopg.connect(WHERE) if connect is psycopg else psycopg2.connect(WHERE)
            own.cursor().execute("SELECT pg_sleep(9)")
            after.append("went on")

        def program() -> None:
            threading.Thread(target=wait, args=(psycopg2,)).start()
            wait(psycopg)

        app = world.host("app")
        app.start(program)
        await asyncio.sleep(2)
        getattr(app, end)()
        await asyncio.sleep(20)

    digests = {foretold.run(main, seed=seed).digest for seed in (1, 1, 1)}
    assert len(digests) == 1
    assert after == []


def test_silence_is_a_deadlock() -> None:
    """A C library that waits for ever is found out, in the test's own thread and in others."""

    async def silent() -> None:
        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.Event().wait()

        async with await asyncio.start_server(session, "0.0.0.0", 5432) as own:
            await own.serve_forever()

    async def main(world: foretold.World, elsewhere: bool) -> None:
        world.host("db").start(silent)
        await world.host("db").listening(5432)

        def connect() -> None:
            psycopg2.connect(f"{WHERE} keepalives=0")

        if elsewhere:
            await world.host("app").start(connect)
        else:
            connect()

    for elsewhere in (False, True):
        with pytest.raises(foretold.Deadlock, match="nothing is scheduled"):
            foretold.run(lambda world, where=elsewhere: main(world, where), seed=1)


def test_limits_end_a_wait_in_c() -> None:
    """A statement takes longer than the run may: the limit is the verdict, not libpq's error."""

    async def main(world: foretold.World) -> None:
        await start(world)
        psycopg2.connect(WHERE).cursor().execute("SELECT pg_sleep(1000)")

    with pytest.raises(foretold.LimitExceeded):
        foretold.run(main, seed=1, virtual_s_max=100)


def test_a_connection_from_before_the_run_escapes() -> None:
    """It is on the real network. Each driver's next word on it says so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        own = psycopg2.connect(f"host=127.0.0.1 port={port} user=app sslmode=disable", async_=True)

        def main(world: foretold.World) -> None:
            own.poll()  # the first one asks nobody
            own.poll()

        with pytest.raises(foretold.EscapedWorld, match="opened before the run"):
            foretold.run(main, seed=1)
        own.close()


def test_environment_and_unix_sockets_are_the_hosts() -> None:
    """PGHOST of one host says a folder with a socket of that host; another host has neither."""

    async def serve() -> None:
        sessions: list[Session] = []

        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await Session(dict(OWNERS), reader, writer, sessions).run()

        async with await asyncio.start_unix_server(session, "/run/pg/.s.PGSQL.5432") as own:
            await own.serve_forever()

    async def main(world: foretold.World) -> None:
        db = world.host("db", environment={"PGHOST": "/run/pg", "PGUSER": "app"})
        db.start(serve)
        await asyncio.sleep(1)

        def here() -> None:
            for connect in (psycopg.connect, psycopg2.connect):
                own = connect("")
                cursor = own.cursor()
                cursor.execute(SELECT_ALL)
                assert len(cursor.fetchall()) == len(OWNERS)
                own.close()

        def there() -> None:
            with pytest.raises(psycopg.OperationalError, match="No such file"):
                psycopg.connect("host=/run/pg user=app")

        await db.start(lambda: asyncio.to_thread(here))  # the server is on the main thread
        await world.host("other").start(there)

    foretold.run(main, seed=1)


def test_a_round_trip_takes_as_long_as_the_path() -> None:
    """libpq has no way around the simulated wire: twice the latency for each statement."""

    async def main(world: foretold.World) -> None:
        await start(world)

        def program() -> None:
            foretold.current_world().network.latency(0.25, 0.25, between=("app", "db"))
            for connect in (psycopg.connect, psycopg2.connect):
                own = connect(WHERE)
                own.autocommit = True
                before = time.monotonic()
                own.cursor().execute(SELECT_ALL)
                assert 0.5 <= time.monotonic() - before < 0.6
                own.close()

        await on_host(world, program)

    foretold.run(main, seed=1)


def test_forgotten_connections_close_their_own_sockets() -> None:
    """Python frees them on whichever host runs then, or in a later run: never another's socket."""
    kept: list[object] = []

    async def main(world: foretold.World) -> None:
        await start(world)
        held: list[object] = []

        def forget() -> None:
            held.append(psycopg2.connect(WHERE))
            held.append(psycopg2.connect(WHERE))
            kept.append(held[-1])

        await on_host(world, forget, "app")

        def use() -> None:
            own = psycopg2.connect(WHERE)
            held.clear()  # those of the other host
            kept[:-1] = []  # those of the run before
            gc.collect()
            cursor = own.cursor()
            cursor.execute(SELECT_ALL)
            assert len(cursor.fetchall()) == len(OWNERS)
            own.close()

        await on_host(world, use, "batch")

    digests = [foretold.run(main, seed=1).digest for _ in range(3)]
    assert len(set(digests)) == 1


IMPORTING = """
import foretold
from tests.compat.test_postgres import start

async def main(world):
    await start(world)

    def program():
        import psycopg, psycopg2
        for connect in (psycopg.connect, psycopg2.connect):
            connect("host=db user=app").close()

    await world.host("app").start(program)

digests = {foretold.run(main, seed=1).digest for _ in range(3)}
assert len(digests) == 1, digests
"""


@pytest.mark.parametrize("implementation", ["binary", "python"])
def test_drivers_may_be_imported_inside_the_run(implementation: str) -> None:
    """Their libraries are led to the world at once, and the first run is as the others."""
    if implementation == "python" and not ctypes.util.find_library("pq"):
        pytest.skip("this machine has no libpq of its own")
    environment = {**os.environ, "PSYCOPG_IMPL": implementation}
    subprocess.run([sys.executable, "-c", IMPORTING], env=environment, cwd=ROOT, check=True)


async def transfers(world: foretold.World) -> None:
    """Two hosts write through pools and threads, while paths are cut and the server restarts."""
    await start(world)

    def program() -> None:
        for number in range(10, 14):
            try:
                with psycopg.connect(f"{WHERE} connect_timeout=5 tcp_user_timeout=5000") as own:
                    own.execute("INSERT INTO account VALUES (%s, %s)", (number, "x"))
            except psycopg.OperationalError:
                time.sleep(1)

    tasks = [world.host(name).start(program) for name in ("app", "batch")]
    await asyncio.sleep(0.004)
    world.network.partition("app", "db")
    await asyncio.sleep(3)
    world.network.repair("app", "db")
    world.host("db").kill()
    await asyncio.sleep(1)
    world.host("db").restart()
    for task in tasks:
        await task


def test_trouble_on_twenty_seeds() -> None:
    """Every seed ends by itself, and the same way twice; seeds differ."""
    digests = {seed: foretold.run(transfers, seed=seed).digest for seed in SEEDS}
    assert digests == {seed: foretold.run(transfers, seed=seed).digest for seed in SEEDS}
    assert len(set(digests.values())) > 10
