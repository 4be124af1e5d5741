"""Failures that are chosen look to the program as those of production do."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

import foretold
from foretold.services.postgres.injection import CODES, MOMENTS
from foretold.world.faults.postgres import FAILURES
from tests.postgres.scenarios import SCHEMA, connect, outcome, run

ADD = "UPDATE account SET balance = balance + 1 WHERE id = 1"
BALANCE = "SELECT balance FROM account WHERE id = 1"


def test_every_kind_has_its_moment() -> None:
    """What the nemesis may ask for is what the gateway can do."""
    assert set(FAILURES) == set(MOMENTS)
    assert set(CODES.values()) <= set(MOMENTS)


async def _fail(world: foretold.World, kind: str, in_block: bool, **names: Any) -> Any:
    """What a program sees whose statement fails, and what is left in the database."""
    pg = await world.postgres(schema=SCHEMA)
    (connection,) = await connect(pg, 1)

    async def work() -> str:
        if not in_block:
            return str(await connection.execute(ADD))
        async with connection.transaction():
            await connection.execute(ADD)
            pg.fail_next(kind, **names)
            return str(await connection.execute(ADD))

    if not in_block:
        pg.fail_next(kind, **names)
    came = await outcome(work())
    if connection.is_closed():
        (connection,) = await connect(pg, 1)
    then = await outcome(connection.execute(ADD))
    return came, then, pg.sql(BALANCE)[0][0], pg.failures


@pytest.mark.parametrize("in_block", [False, True])
@pytest.mark.parametrize(
    ("kind", "code"),
    [("cancelled", "57014"), ("serialization", "40001"), ("deadlock", "40P01"), ("40001", "40001")],
)
def test_a_statement_fails_in_the_servers_words(kind: str, code: str, in_block: bool) -> None:
    """The statement and its transaction are undone; the session goes on."""
    came, then, balance, failures = run(lambda w: _fail(w, kind, in_block))
    assert came.startswith(code)
    assert then == "UPDATE 1"
    assert balance == 101
    assert failures == [CODES.get(kind, kind)]


@pytest.mark.parametrize("in_block", [False, True])
def test_a_connection_is_lost_before_a_statement(in_block: bool) -> None:
    """Nothing of the statement is done, and the transaction is rolled back."""
    came, then, balance, _ = run(lambda w: _fail(w, "lost_before", in_block))
    assert "connection" in came
    assert (then, balance) == ("UPDATE 1", 101)


def test_a_connection_is_lost_after_a_statement() -> None:
    """A statement that is a transaction of its own is done, though its client does not know."""
    came, then, balance, _ = run(lambda w: _fail(w, "lost_after", False))
    assert "connection" in came
    assert (then, balance) == ("UPDATE 1", 102)


@pytest.mark.parametrize(
    ("kind", "kept"), [("lost_before_commit", 100), ("lost_after_commit", 101)]
)
def test_a_commit_that_nobody_knows_the_outcome_of(kind: str, kept: int) -> None:
    """The connection is lost on COMMIT: before it got through, or after it was done. The program
    sees the same in both cases."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        pg.fail_next(kind)

        async def work() -> None:
            async with connection.transaction():
                await connection.execute(ADD)

        return await outcome(work()), pg.sql(BALANCE)[0][0]

    came, balance = run(main)
    assert "connection" in came
    assert balance == kept


@pytest.mark.parametrize("kind", ["lost_before_commit", "lost_after_commit"])
def test_a_lost_commit_whose_reset_is_lost_is_heard_of(kind: str) -> None:
    """The COMMIT was not acknowledged, so the client's kernel sends it again after the repair: the
    program needs no time limit of its own to get an error."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)

        async def work() -> None:
            async with connection.transaction():
                await connection.execute(ADD)
                pg.fail_next(kind)
                world.network.partition("postgres", "main", one_way=True)

        waiting = asyncio.ensure_future(outcome(work()))
        await asyncio.sleep(2)
        assert not waiting.done()
        world.network.repair("postgres", "main")
        return await waiting

    assert "connection" in run(main)


def test_too_many_connections() -> None:
    """A new connection is refused; the next one is not."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        pg.fail_next("too_many_connections")
        refused = await outcome(asyncpg.connect(pg.dsn))
        (connection,) = await connect(pg, 1)
        return refused, await connection.fetchval("SELECT 1")

    refused, one = run(main)
    assert refused == "53300 sorry, too many clients already"
    assert one == 1


def test_a_restart_ends_all_sessions_and_takes_a_while() -> None:
    """Sessions end with 57P01, new ones are refused with 57P03, then all is well and nothing that
    was committed is lost."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        one, other = await connect(pg, 2)
        await one.execute(ADD)
        await other.execute("BEGIN")
        await other.execute(ADD)
        pg.fail_next("restart", seconds=3)
        lost = await outcome(other.execute("COMMIT"))
        refused = await outcome(asyncpg.connect(pg.dsn))
        await asyncio.sleep(3)
        (again,) = await connect(pg, 1)
        return lost, refused, await again.fetchval(BALANCE)

    lost, refused, balance = run(main)
    assert "terminating connection" in lost or "connection" in lost.lower()
    assert refused == "57P03 the database system is starting up"
    assert balance == 101


def test_a_standby_can_only_be_read() -> None:
    """After a failover writes are refused (25006) for a while, also after RESET ALL; then sessions
    end once more, and new ones may write."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        pg.fail_next("read_only", seconds=10)
        (connection,) = await connect(pg, 1)
        read = await connection.fetchval(BALANCE)
        await connection.execute("RESET ALL")
        refused = await outcome(connection.execute(ADD))
        await asyncio.sleep(10)
        (again,) = await connect(pg, 1)
        return read, refused, await again.execute(ADD)

    read, refused, then = run(main)
    assert read == 100
    assert refused == "25006 cannot execute UPDATE in a read-only transaction"
    assert then == "UPDATE 1"


def test_a_slow_query_takes_virtual_time() -> None:
    """And no real time to speak of: the run is over at once."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        pg.fail_next("slow_query", seconds=1_000)
        began = world.clock.monotonic()
        await connection.execute(ADD)
        return world.clock.monotonic() - began

    assert 1_000 <= run(main) < 1_001


def test_a_slow_query_runs_into_its_timeout() -> None:
    """A statement that takes longer than `statement_timeout` is cancelled when that is over."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        await connection.execute("SET statement_timeout = '2s'")
        pg.fail_next("slow_query", seconds=1_000)
        began = world.clock.monotonic()
        came = await outcome(connection.execute(ADD))
        return came, round(world.clock.monotonic() - began, 1), pg.sql(BALANCE)[0][0]

    assert run(main) == (
        "57014 canceling statement due to statement timeout",
        2.0,
        100,
    )


def test_a_slow_connect() -> None:
    """The client's own timeout for connecting strikes."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        pg.fail_next("slow_connect", seconds=100)
        with pytest.raises(TimeoutError):
            await asyncpg.connect(pg.dsn, timeout=5)
        return pg.failures

    assert run(main) == ["slow_connect"]


def test_a_lost_notification() -> None:
    """One is lost, the next one comes."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        listener, teller = await connect(pg, 2)
        told: list[str] = []
        await listener.add_listener("news", lambda c, pid, channel, text: told.append(text))
        pg.fail_next("lost_notification")
        for word in ("one", "two"):
            await teller.execute(f"NOTIFY news, '{word}'")
            await asyncio.sleep(1)
        return told

    assert run(main) == ["two"]


def test_a_failure_for_one_statement() -> None:
    """With `sql`, others pass."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        (connection,) = await connect(pg, 1)
        pg.fail_next("serialization", sql="balance + 1")
        await connection.execute("SELECT 1")
        return await outcome(connection.execute(ADD))

    assert run(main).startswith("40001")


def test_a_failure_that_there_is_not() -> None:
    """The error names those that there are."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        pg.fail_next("serialisation")

    with pytest.raises(foretold.UsageError, match=r"serialization.*Did you mean"):
        run(main)


def test_the_nemesis_strikes() -> None:
    """With `faults=foretold.faults.postgres` every kind strikes in some run."""
    struck: set[str] = set()
    # The last one is what asyncpg says on stock asyncio as well if a session was ended while it was
    # idle, and the loop has read the server's last word, but not yet that the connection is closed.
    lost = (asyncpg.PostgresError, OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        connection: Any = None
        for n in range(30):
            try:
                if connection is None or connection.is_closed():
                    connection, listener = await connect(pg, 2)
                    await listener.add_listener("news", lambda *_: None)
                async with connection.transaction():
                    await connection.execute(ADD)
                    await connection.execute("NOTIFY news")
            except lost:
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.05 * (n % 3))
        struck.update(pg.failures)

    for seed in range(60):
        run(main, seed=seed, faults=foretold.faults.postgres)
        if struck == set(FAILURES):
            break
    assert struck == set(FAILURES)
