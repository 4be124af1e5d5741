"""What several sessions do to one database: each scenario returns all that its clients saw.

A test runs each of them on several tapes, in several processes, and compares; another one looks at
what PostgreSQL promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

import foretold

SCHEMA = """
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
INSERT INTO account VALUES (1, 100), (2, 100);
CREATE TABLE on_call (id int PRIMARY KEY, on_duty bool NOT NULL);
INSERT INTO on_call VALUES (1, true), (2, true);
CREATE TABLE job (
    id serial PRIMARY KEY, state text NOT NULL DEFAULT 'new', at timestamptz DEFAULT now(),
    key uuid DEFAULT gen_random_uuid(), luck float DEFAULT random());
INSERT INTO job (state) SELECT 'new' FROM generate_series(1, 4);
CREATE TABLE document (name text PRIMARY KEY, author text);
CREATE TABLE audit (id bigserial PRIMARY KEY, what text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (what) VALUES (TG_OP || ' ' || NEW.id);
    PERFORM pg_notify('changes', TG_OP || ' ' || NEW.id);
    RETURN NEW;
END $$;
CREATE TRIGGER account_changes AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION note_change();
"""

Scenario = Callable[[foretold.World], Awaitable[Any]]
ALL: dict[str, Scenario] = {}


def scenario(main: Scenario) -> Scenario:
    """One of those that are run on all tapes."""
    ALL[main.__name__] = main
    return main


DRIVERS: dict[str, Scenario] = {}
"""Those in the tests of drivers and of the protocol that are compared between processes too."""


def compared(main: Scenario) -> Scenario:
    """One of those."""
    DRIVERS[main.__name__] = main
    return main


_open: list[asyncpg.Connection[Any]] = []


async def connect(pg: Any, count: int) -> list[asyncpg.Connection[Any]]:
    """So many connections, all at once."""
    work = (asyncpg.connect(pg.dsn) for _ in range(count))
    made = await asyncio.gather(*work, return_exceptions=True)
    _open.extend(each for each in made if isinstance(each, asyncpg.Connection))
    for each in made:
        if isinstance(each, BaseException):
            raise each
    return made


def run(main: Scenario, **names: Any) -> Any:
    """The value of one run; what is still connected at its end hangs up."""

    async def whole(world: foretold.World) -> Any:
        _open.clear()
        try:
            return await main(world)
        finally:
            for connection in _open:
                connection.terminate()
            _open.clear()

    return foretold.run(whole, **names).value


async def close(*connections: asyncpg.Connection[Any]) -> None:
    """All of them, also those that are broken."""
    for connection in connections:
        await connection.close()


async def outcome(work: Awaitable[Any]) -> Any:
    """What came of it: a value, or the error as the program sees it."""
    try:
        return await work
    except asyncpg.PostgresError as error:
        return f"{error.sqlstate} {error}"
    except (OSError, asyncpg.InterfaceError) as error:
        return f"{type(error).__name__}: {error}"


async def add_ten(connection: asyncpg.Connection[Any], level: str, lock: str = "") -> None:
    """Read, then write: a lost update, unless the server prevents it."""
    async with connection.transaction(isolation=level):
        balance = await connection.fetchval(f"SELECT balance FROM account WHERE id = 1 {lock}")
        await connection.execute("UPDATE account SET balance = $1 WHERE id = 1", balance + 10)


async def _all_add_ten(world: foretold.World, level: str, lock: str = "") -> Any:
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 3)
    came = await foretold.together(*(outcome(add_ten(c, level, lock)) for c in connections))
    await close(*connections)
    return pg.sql("SELECT balance FROM account WHERE id = 1")[0][0], came


@scenario
async def lost_update(world: foretold.World) -> Any:
    """READ COMMITTED lets updates overwrite each other."""
    return await _all_add_ten(world, "read_committed")


@scenario
async def lost_update_refused(world: foretold.World) -> Any:
    """REPEATABLE READ refuses the second one (40001)."""
    return await _all_add_ten(world, "repeatable_read")


@scenario
async def row_locks(world: foretold.World) -> Any:
    """FOR UPDATE: one after the other, nothing is lost."""
    return await _all_add_ten(world, "read_committed", "FOR UPDATE")


@scenario
async def no_wait(world: foretold.World) -> Any:
    """FOR UPDATE NOWAIT: who comes second is told so (55P03)."""
    return await _all_add_ten(world, "read_committed", "FOR UPDATE NOWAIT")


async def _go_off_duty(world: foretold.World, level: str) -> Any:
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 2)

    async def leave(connection: asyncpg.Connection[Any], me: int) -> None:
        async with connection.transaction(isolation=level):
            others = await connection.fetchval("SELECT count(*) FROM on_call WHERE on_duty")
            if others >= 2:
                await connection.execute("UPDATE on_call SET on_duty = false WHERE id = $1", me)

    work = (outcome(leave(connection, me)) for me, connection in enumerate(connections, 1))
    came = await foretold.together(*work)
    await close(*connections)
    return pg.sql("SELECT count(*) FROM on_call WHERE on_duty")[0][0], came


@scenario
async def write_skew(world: foretold.World) -> Any:
    """REPEATABLE READ lets both go: nobody is on duty."""
    return await _go_off_duty(world, "repeatable_read")


@scenario
async def write_skew_refused(world: foretold.World) -> Any:
    """SERIALIZABLE refuses one of them (40001)."""
    return await _go_off_duty(world, "serializable")


@scenario
async def deadlock(world: foretold.World) -> Any:
    """Two transfers in opposite directions: the server itself picks a victim (40P01)."""
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 2)

    async def move(connection: asyncpg.Connection[Any], source: int, target: int) -> None:
        async with connection.transaction():
            change = "UPDATE account SET balance = balance + $2 WHERE id = $1"
            await connection.execute(change, source, -1)
            await connection.execute(change, target, 1)

    one, other = connections
    came = await foretold.together(outcome(move(one, 1, 2)), outcome(move(other, 2, 1)))
    await close(*connections)
    return pg.sql("SELECT * FROM account ORDER BY id"), came


@scenario
async def unique_race(world: foretold.World) -> Any:
    """Four insert the same key, one of them rolls back: one of the others gets through."""
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 4)

    async def write(connection: asyncpg.Connection[Any], author: int) -> None:
        async with connection.transaction():
            await connection.execute("INSERT INTO document VALUES ('plan', $1)", str(author))
            if author == 0:
                raise asyncpg.PostgresError("changed my mind")

    work = (outcome(write(connection, n)) for n, connection in enumerate(connections))
    came = await foretold.together(*work)
    await close(*connections)
    return pg.sql("SELECT author FROM document"), came


@scenario
async def skip_locked(world: foretold.World) -> Any:
    """A queue of jobs: no job is taken twice."""
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 3)

    async def work(connection: asyncpg.Connection[Any]) -> Any:
        async with connection.transaction():
            job = await connection.fetchrow(
                "SELECT id, at, key FROM job WHERE state = 'new' ORDER BY id LIMIT 1 "
                "FOR UPDATE SKIP LOCKED"
            )
            done = "UPDATE job SET state = 'done', at = clock_timestamp() WHERE id = $1"
            await connection.execute(done, job["id"])
            return tuple(map(str, job))

    taken = await foretold.together(*map(work, connections))
    await close(*connections)
    return taken, pg.sql("SELECT id, state, at FROM job ORDER BY id")


@scenario
async def advisory_locks(world: foretold.World) -> Any:
    """Only one at a time is between taking a lock and giving it back."""
    pg = await world.postgres(schema=SCHEMA)
    connections = await connect(pg, 3)
    seen: list[tuple[str, int]] = []

    async def work(connection: asyncpg.Connection[Any], me: int) -> None:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(7)")
            seen.append(("in", me))
            await asyncio.sleep(0.01)
            seen.append(("out", me))

    await foretold.together(*(work(c, n) for n, c in enumerate(connections)))
    await close(*connections)
    return seen


@scenario
async def defaults(world: foretold.World) -> Any:
    """Clock, randomness and sequences of the server are the world's."""
    pg = await world.postgres(schema=SCHEMA)
    (connection,) = await connect(pg, 1)
    await asyncio.sleep(24 * 3600)
    row = await connection.fetchrow(
        "INSERT INTO job (state) VALUES ('x') RETURNING id, at, key, luck, clock_timestamp(), "
        "CURRENT_TIMESTAMP, random(), gen_random_uuid()"
    )
    await close(connection)
    assert row is not None
    return list(map(str, row))


@scenario
async def cancelled_wait(world: foretold.World) -> Any:
    """A statement that waits for a lock is cancelled by its client's timeout."""
    pg = await world.postgres(schema=SCHEMA)
    holder, waiter = await connect(pg, 2)
    await holder.execute("BEGIN; UPDATE account SET balance = 0 WHERE id = 1")
    began = world.clock.monotonic()
    came: Any = "done"
    try:
        await waiter.execute("UPDATE account SET balance = 5 WHERE id = 1", timeout=2)
    except TimeoutError:
        came = "timeout"
    took = round(world.clock.monotonic() - began, 2)
    await asyncio.sleep(1)  # the request to cancel has a way to go
    await holder.execute("COMMIT")
    found = await waiter.fetchval("SELECT balance FROM account WHERE id = 1")
    await close(holder, waiter)
    return came, took, found


@scenario
async def timeouts(world: foretold.World) -> Any:
    """lock_timeout, statement_timeout and idle_in_transaction_session_timeout in virtual time."""
    pg = await world.postgres(schema=SCHEMA)
    holder, waiter, idler = await connect(pg, 3)
    await holder.execute("BEGIN; UPDATE account SET balance = 0 WHERE id = 1")
    seen = []
    for setting in ("lock_timeout = '3s'", "lock_timeout = 0; SET statement_timeout = '7s'"):
        await waiter.execute(f"SET {setting}")
        began = world.clock.monotonic()
        came = await outcome(waiter.execute("UPDATE account SET balance = 5 WHERE id = 1"))
        seen.append((came, round(world.clock.monotonic() - began, 1)))
    await idler.execute("SET idle_in_transaction_session_timeout = '5s'; BEGIN; SELECT 1")
    await asyncio.sleep(6)
    seen.append((await outcome(idler.fetchval("SELECT 1")), 0.0))
    await close(holder, waiter)
    return seen


@scenario
async def sleeping(world: foretold.World) -> Any:
    """`pg_sleep` takes virtual time, and others go on meanwhile."""
    pg = await world.postgres(schema=SCHEMA)
    one, other = await connect(pg, 2)
    began = world.clock.monotonic()

    async def nap() -> float:
        await one.execute("SELECT pg_sleep(3600)")
        return round(world.clock.monotonic() - began)

    async def work() -> float:
        await other.execute("SELECT pg_sleep(1.5)")
        return round(world.clock.monotonic() - began, 1)

    came = await foretold.together(nap(), work())
    await close(one, other)
    return came


@scenario
async def notifications(world: foretold.World) -> Any:
    """A trigger tells a listener; what is rolled back is not told."""
    pg = await world.postgres(schema=SCHEMA)
    listener, one, other = await connect(pg, 3)
    told: list[Any] = []
    await listener.add_listener("changes", lambda c, pid, channel, text: told.append((pid, text)))

    async def change(connection: asyncpg.Connection[Any], account: int, keep: bool) -> None:
        block = connection.transaction()
        await block.start()
        await connection.execute("UPDATE account SET balance = 0 WHERE id = $1", account)
        await (block.commit() if keep else block.rollback())

    await foretold.together(change(one, 1, True), change(other, 2, False))
    await change(other, 2, True)
    await asyncio.sleep(1)
    await close(listener, one, other)
    return told, pg.sql("SELECT id, what, at FROM audit ORDER BY id")


@scenario
async def copying(world: foretold.World) -> Any:
    """COPY in and out."""
    pg = await world.postgres(schema=SCHEMA)
    (connection,) = await connect(pg, 1)
    rows = [(f"page {n}", f"author {n % 3}") for n in range(300)]
    came = await connection.copy_records_to_table("document", records=rows)
    lines: list[bytes] = []
    query = "SELECT name FROM document ORDER BY name LIMIT 5"

    async def take(data: bytes) -> None:
        lines.append(data)

    await connection.copy_from_query(query, output=take)
    found = await connection.fetchval("SELECT count(*) FROM document")
    await close(connection)
    return came, b"".join(lines), found
