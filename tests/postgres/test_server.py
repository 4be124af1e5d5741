"""The server as a host of the world: it can be paused, killed, cut off, and asked for wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import foretold
from foretold.errors import PostgresError
from foretold.services.postgres import kept
from tests.helpers import SOAK_FACTOR
from tests.postgres.scenarios import SCHEMA, connect, outcome, run

ADD = "UPDATE account SET balance = balance + 1 WHERE id = 1"
BALANCE = "SELECT balance FROM account WHERE id = 1"
MEMORY_MB_MAX = 8


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_a_server_that_dies_keeps_what_was_committed(end: str) -> None:
    """What was not is rolled back; nobody is served until it is started again."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        one, other = await connect(pg, 2)
        await one.execute(ADD)
        await other.execute("BEGIN")
        await other.execute(ADD)
        getattr(pg.host, end)()
        lost = await outcome(asyncpg.connect(pg.dsn, timeout=5)) if end == "kill" else "refused"
        pg.host.restart()
        (again,) = await connect(pg, 1)
        return lost, await again.fetchval(BALANCE), other.is_closed()

    lost, balance, _ = run(main)
    assert "refused" in lost.lower() or "connect" in lost.lower()
    assert balance == 101


def test_a_paused_server_answers_later() -> None:
    """What arrived meanwhile is done when it goes on."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        began = world.clock.monotonic()
        pg.host.pause()
        work = asyncio.create_task(connection.execute(ADD))
        await asyncio.sleep(10)
        waited = not work.done()
        pg.host.resume()
        return waited, await work, round(world.clock.monotonic() - began)

    assert run(main) == (True, "UPDATE 1", 10)


def test_a_partition_and_the_clients_patience() -> None:
    """The network to the server is the world's."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        world.network.partition("main", "postgres")
        with pytest.raises(TimeoutError):
            await connection.execute(ADD, timeout=3)
        world.network.repair("main", "postgres")
        return pg.sql(BALANCE)[0]["balance"]

    assert run(main) == 100


def test_two_servers() -> None:
    """Each at a host of its own, with a clock of its own."""

    async def main(world: foretold.World) -> Any:
        one = await world.postgres(schema=SCHEMA, host="orders-db")
        other = await world.postgres(schema=SCHEMA, host="users-db", port=5433)
        other.host.clock.skew(3600)
        (a,), (b,) = await connect(one, 1), await connect(other, 1)
        await a.execute(ADD)
        times = [await c.fetchval("SELECT clock_timestamp()") for c in (a, b)]
        return one.dsn, other.dsn, times[1] - times[0], other.sql(BALANCE)[0][0]

    one, other, apart, balance = run(main)
    assert one == "postgresql://postgres@orders-db:5432/app"
    assert other == "postgresql://postgres@users-db:5433/app"
    assert round(apart.total_seconds()) == 3600
    assert balance == 100


def test_every_commit_is_told() -> None:
    """With its statements, and none that was rolled back or only read."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        pg.on_commit(lambda commit: told.append((commit.session, commit.statements)))
        (connection,) = await connect(pg, 1)
        await connection.execute(ADD)
        await connection.fetchval(BALANCE)
        await connection.execute("BEGIN")
        await connection.execute(ADD)
        await connection.execute("ROLLBACK")
        async with connection.transaction():
            await connection.execute(ADD)
            await connection.execute(ADD)
        return told

    assert run(main) == [
        ("session 1", (ADD,)),
        ("session 1", ("BEGIN;", ADD, ADD, "COMMIT;")),
    ]


def test_nobody_frees_a_lock() -> None:
    """A wait that never ends is a deadlock of the world, found at once."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        one, other = await connect(pg, 2)
        await one.execute("BEGIN")
        await one.execute(ADD)
        await other.execute(ADD)

    with pytest.raises(foretold.Deadlock) as found:
        run(main)
    said = str(found.value)
    assert "(main) waits in: UPDATE account" in said
    assert "(main), which did: BEGIN; UPDATE account" in said


def test_a_run_after_a_failed_one() -> None:
    """Locks that a failed run held are gone, and so is what it wrote."""
    test_nobody_frees_a_lock()

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        await connection.execute(ADD)
        return pg.sql(BALANCE)[0][0]

    assert run(main) == 101


def test_ddl_in_a_run_is_gone_in_the_next() -> None:
    """A program may migrate at its start."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        await connection.execute("CREATE TABLE extra (id serial PRIMARY KEY, at timestamptz)")
        await connection.execute("INSERT INTO extra (at) VALUES (now())")
        number = await connection.fetchval("SELECT 'extra'::regclass::oid::int")
        await connection.close()
        return number

    first = foretold.run(main)
    for _ in range(3):
        again = foretold.run(main)
        assert (again.value, again.digest) == (first.value, first.digest)


def test_a_broken_schema() -> None:
    """The server's own words, where the test asked for it."""

    async def main(world: foretold.World) -> Any:
        await world.postgres(schema="CREATE TABEL oops (id int)")

    with pytest.raises(PostgresError, match="syntax error"):
        foretold.run(main)


@pytest.mark.parametrize("port", [0, 70_000, "5432", True])
def test_no_port(port: Any) -> None:
    """The error says what a port is."""

    async def main(world: foretold.World) -> Any:
        await world.postgres(port=port)

    with pytest.raises(foretold.UsageError, match="1 to 65535"):
        foretold.run(main)


def test_a_host_that_is_in_use() -> None:
    """The error shows how to name another one."""

    async def main(world: foretold.World) -> Any:
        await world.postgres()
        await world.postgres()

    with pytest.raises(foretold.UsageError, match="in use"):
        foretold.run(main)


def test_a_role_that_there_is_not() -> None:
    """Refused by the server, in its words."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        return await outcome(asyncpg.connect(pg.dsn.replace("postgres@", "nobody@")))

    assert run(main) == '28000 role "nobody" does not exist'


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_of_many_runs() -> None:
    """No descriptor, no process of the server beyond those that are kept warm."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        one, other = await connect(pg, 2)
        await one.execute(ADD)
        await other.execute("BEGIN")
        await other.execute(ADD)
        return pg.sql("SELECT count(*) FROM pg_stat_activity")[0][0]

    for seed in range(5):
        run(main, seed=seed)
    before, processes = _descriptors(), run(main)
    for seed in range(60):
        assert run(main, seed=seed) <= processes
    assert _descriptors() <= before


def _files() -> set[Path]:
    """What lies beside the data of the servers that are kept warm, and their tables."""
    folders = [one.cluster.data for one in kept._kept.values()]
    tables = {path for data in folders for path in data.glob("base/*/*") if path.name.isdigit()}
    return tables | {path for data in folders for path in data.parent.glob("*")}


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _children() -> int:
    """All processes below this one."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    below, found = {os.getpid()}, 0
    while below := {pid for pid, parent in parents.items() if parent in below}:
        found += len(below)
    return found


@pytest.mark.soak
def test_nothing_is_left_of_a_thousand_runs() -> None:
    """Backends, descriptors, processes, files, memory: as after the first runs, though half of the
    runs end with a transaction open, a waiter blocked and a failure of the database."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        one, other, third = await connect(pg, 3)
        await one.execute("BEGIN")
        await one.execute(ADD)
        waiter = asyncio.create_task(outcome(other.execute(ADD)))
        if foretold.choose([False, True], "a failure"):
            pg.fail_next("lost_after")
        await outcome(third.fetchval(BALANCE))
        if foretold.choose([False, True], "an end in order"):
            await one.execute("COMMIT")
            await waiter
        return pg.sql("SELECT count(*) FROM pg_stat_activity")[0][0]

    for seed in range(50):
        run(main, seed=seed)
    processes = max(run(main, seed=seed) for seed in range(20))
    before = _descriptors(), _children(), _files()
    memory_mb = _memory_mb()
    for seed in range(max(1_000, 50 * SOAK_FACTOR)):
        assert run(main, seed=seed) <= processes
    assert (_descriptors(), _children(), _files()) == before
    assert _memory_mb() < memory_mb + MEMORY_MB_MAX
