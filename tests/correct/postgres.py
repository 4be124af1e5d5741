"""Correct programs on PostgreSQL: they try again, and what they do twice has the effect of once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

import foretold
from tests.correct.program import program
from tests.correct.rpc import call, serve

FAULTS = foretold.faults.postgres + foretold.faults.network
DONE = "CREATE TABLE done (operation text PRIMARY KEY);"

TRANSIENT = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalClientError,
)
"""What passes: a lost connection, a server that restarts, a deadlock, a conflict, a time limit.
Whether a transaction that was being committed is committed is not known then. The last one is what
asyncpg raises for a connection that the server has just ended (its issues 784 and 1069)."""

Body = Callable[[Any], Awaitable[Any]]


async def transact(dsn: str, body: Body, isolation: str = "read_committed") -> Any:
    """Run `body` in a transaction until it is committed; it may have been before."""
    while True:
        try:
            connection = await asyncpg.connect(dsn, timeout=2, command_timeout=2)
            try:
                async with connection.transaction(isolation=isolation):
                    return await body(connection)
            finally:
                connection.terminate()
        except TRANSIENT:
            await asyncio.sleep(0.1)


async def is_first(connection: Any, operation: str) -> bool:
    """Whether this operation was not committed by an earlier attempt."""
    return bool(
        await connection.fetchval(
            "INSERT INTO done VALUES ($1) ON CONFLICT DO NOTHING RETURNING true", operation
        )
    )


@program(faults=FAULTS, slow=True)
async def on_call(world: foretold.World, *, broken: bool) -> None:
    """SERIALIZABLE with retries: one doctor stays. Broken: REPEATABLE READ has write skew."""
    pg = await world.postgres(
        schema="CREATE TABLE doctor (name text PRIMARY KEY, on_call bool NOT NULL);"
        "INSERT INTO doctor VALUES ('ada', true), ('bob', true);"
    )

    async def leave(name: str) -> None:
        async def body(db: Any) -> None:
            if await db.fetchval("SELECT count(*) FROM doctor WHERE on_call AND name <> $1", name):
                await db.execute("UPDATE doctor SET on_call = false WHERE name = $1", name)

        await transact(pg.dsn, body, "repeatable_read" if broken else "serializable")

    await asyncio.gather(leave("ada"), leave("bob"))
    assert pg.sql("SELECT count(*) FROM doctor WHERE on_call")[0][0] == 1


@program(faults=FAULTS, slow=True)
async def counter_for_update(world: foretold.World, *, broken: bool) -> None:
    """The row is locked before it is read. Broken: it is not."""
    pg = await world.postgres(
        schema=f"{DONE} CREATE TABLE counter (value int); INSERT INTO counter VALUES (0);"
    )

    async def add(operation: str) -> None:
        async def body(db: Any) -> None:
            if await is_first(db, operation):
                lock = "" if broken else "FOR UPDATE"
                value = await db.fetchval(f"SELECT value FROM counter {lock}")
                await db.execute("UPDATE counter SET value = $1", value + 1)

        await transact(pg.dsn, body)

    await asyncio.gather(add("one"), add("two"))
    assert pg.sql("SELECT value FROM counter")[0][0] == 2


@program(faults=FAULTS, slow=True)
async def job_queue(world: foretold.World, *, broken: bool) -> None:
    """Each job is taken by one worker (SKIP LOCKED). Broken: it is read without a lock."""
    pg = await world.postgres(
        schema="CREATE TABLE job (id int PRIMARY KEY, done bool NOT NULL DEFAULT false);"
        "CREATE TABLE result (job int, worker text);"
        "INSERT INTO job SELECT generate_series(1, 3);"
    )

    async def work(name: str) -> None:
        async def one_job(db: Any) -> bool:
            lock = "" if broken else "FOR UPDATE SKIP LOCKED"
            job = await db.fetchval(f"SELECT id FROM job WHERE NOT done ORDER BY id LIMIT 1 {lock}")
            if job is not None:
                await db.execute("INSERT INTO result VALUES ($1, $2)", job, name)
                await db.execute("UPDATE job SET done = true WHERE id = $1", job)
            return job is not None

        while await transact(pg.dsn, one_job):
            pass

    await asyncio.gather(work("one"), work("two"))
    assert pg.sql("SELECT count(*) FROM job WHERE NOT done")[0][0] == 0
    assert [row[0] for row in pg.sql("SELECT job FROM result ORDER BY 1")] == [1, 2, 3]


@program(faults=FAULTS, slow=True)
async def advisory_lock(world: foretold.World, *, broken: bool) -> None:
    """Who makes the default plan holds a lock on its name. Broken: nobody does."""
    pg = await world.postgres(schema="CREATE TABLE plan (name text);")

    async def ensure() -> None:
        async def body(db: Any) -> None:
            if not broken:
                await db.execute("SELECT pg_advisory_xact_lock(hashtext('plan default'))")
            if not await db.fetchval("SELECT count(*) FROM plan WHERE name = 'default'"):
                await db.execute("INSERT INTO plan VALUES ('default')")

        await transact(pg.dsn, body)

    await asyncio.gather(ensure(), ensure())
    assert pg.sql("SELECT count(*) FROM plan")[0][0] == 1


@program(faults=FAULTS, runs_max=100, slow=True)
async def listen_and_notify(world: foretold.World, *, broken: bool) -> None:
    """The reader listens, then looks, and looks again now and then, because a notification may get
    lost. Broken: it looks, then listens, and believes in notifications."""
    pg = await world.postgres(schema=f"{DONE} CREATE TABLE mail (id serial, text text);")

    async def post(text: str) -> None:
        async def body(db: Any) -> None:
            if await is_first(db, text):
                await db.execute("INSERT INTO mail (text) VALUES ($1)", text)
                await db.execute("NOTIFY mail")

        await transact(pg.dsn, body)

    async def read_all(number: int) -> list[str]:
        while True:
            with contextlib.suppress(*TRANSIENT):
                connection = await asyncpg.connect(pg.dsn, timeout=2, command_timeout=2)
                try:
                    return await until_there(connection, number)
                finally:
                    connection.terminate()
            await asyncio.sleep(0.1)

    async def until_there(connection: Any, number: int) -> list[str]:
        news = asyncio.Event()
        if not broken:
            await connection.add_listener("mail", lambda *_: news.set())
        rows = await connection.fetch("SELECT text FROM mail ORDER BY text")
        if broken:
            await connection.add_listener("mail", lambda *_: news.set())
        while len(rows) < number:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), 600 if broken else 1)
            if not news.is_set() and broken:
                raise AssertionError("the reader sleeps while there is mail")
            news.clear()
            rows = await connection.fetch("SELECT text FROM mail ORDER BY text")
        return [row["text"] for row in rows]

    seen, *_ = await asyncio.gather(read_all(2), post("a"), post("b"))
    assert seen == ["a", "b"]


@program(faults=FAULTS, slow=True)
async def optimistic_version(world: foretold.World, *, broken: bool) -> None:
    """An edit counts if nobody else was faster; else it is made again. Broken: it overwrites."""
    pg = await world.postgres(
        schema="CREATE TABLE page (version int NOT NULL, words text[] NOT NULL);"
        "INSERT INTO page VALUES (1, '{}');"
    )

    async def edit(word: str) -> None:
        async def body(db: Any) -> bool:
            page = await db.fetchrow("SELECT version, words FROM page")
            if word in page["words"]:
                return True  # an earlier attempt was committed
            check = "" if broken else f"WHERE version = {page['version']}"
            changed = await db.execute(
                f"UPDATE page SET version = version + 1, words = $1 {check}",
                [*page["words"], word],
            )
            return bool(changed == "UPDATE 1")

        while not await transact(pg.dsn, body):
            pass

    await asyncio.gather(edit("x"), edit("y"))
    ((version, words),) = pg.sql("SELECT version, words FROM page")
    assert (version, sorted(words)) == (3, ["x", "y"])


@program(faults=FAULTS, slow=True)
async def upsert(world: foretold.World, *, broken: bool) -> None:
    """The unique index decides who inserts and who adds. Broken: a look before."""
    pg = await world.postgres(
        schema=f"{DONE} CREATE TABLE visits (page text PRIMARY KEY, number int NOT NULL);"
    )

    async def visit(operation: str) -> None:
        async def body(db: Any) -> None:
            if not await is_first(db, operation):
                return
            if not broken:
                await db.execute(
                    "INSERT INTO visits VALUES ('home', 1) "
                    "ON CONFLICT (page) DO UPDATE SET number = visits.number + 1"
                )
            elif await db.fetchval("SELECT number FROM visits WHERE page = 'home'") is None:
                await db.execute("INSERT INTO visits VALUES ('home', 1)")
            else:
                await db.execute("UPDATE visits SET number = number + 1 WHERE page = 'home'")

        await transact(pg.dsn, body)

    await asyncio.gather(visit("one"), visit("two"))
    assert pg.sql("SELECT number FROM visits")[0][0] == 2


@program(faults=FAULTS, runs_max=100, slow=True)
async def outbox(world: foretold.World, *, broken: bool) -> None:
    """Orders and the mails about them are written in one transaction; a relay sends each mail until
    it is taken, and who takes it knows it by its number. Broken: it is crossed off before."""
    pg = await world.postgres(
        schema="CREATE TABLE orders (id int PRIMARY KEY);"
        "CREATE TABLE outbox (id int PRIMARY KEY, sent bool NOT NULL DEFAULT false);"
    )
    mails: set[int] = set()

    async def take(number: int) -> bool:
        mails.add(number)
        return True

    world.host("mail").start(lambda: serve(take))

    async def order(number: int) -> None:
        async def body(db: Any) -> None:
            insert = "INSERT INTO {} (id) VALUES ($1) ON CONFLICT DO NOTHING"
            await db.execute(insert.format("orders"), number)
            await db.execute(insert.format("outbox"), number)

        await transact(pg.dsn, body)

    async def relay_one(db: Any) -> int | None:
        number = await db.fetchval(
            "SELECT id FROM outbox WHERE NOT sent ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        if number is not None:
            if not broken:
                await call("mail", number)  # if that fails, nothing is crossed off
            await db.execute("UPDATE outbox SET sent = true WHERE id = $1", number)
        return None if number is None else int(number)

    async def relay(until: int) -> None:
        while len(mails) < until:
            number = await transact(pg.dsn, relay_one)
            if broken and number is not None:
                with contextlib.suppress(OSError):
                    await call("mail", number)
            if number is None:
                await asyncio.sleep(0.5)
                left = pg.sql("SELECT count(*) FROM orders")[0][0]
                sent = pg.sql("SELECT count(*) FROM outbox WHERE sent")[0][0]
                assert left < until or sent < until or len(mails) == until, "a mail is lost"

    await asyncio.gather(order(1), order(2), relay(2))
    assert mails == {1, 2}


@program(faults=FAULTS, runs_max=100, slow=True)
async def transfers_through_a_pool(world: foretold.World, *, broken: bool) -> None:
    """Accounts are locked in their order, and no account is overdrawn. Broken: the balance is
    looked at, then changed."""
    pg = await world.postgres(
        schema=f"{DONE} CREATE TABLE account (name text PRIMARY KEY, balance int NOT NULL);"
        "INSERT INTO account VALUES ('a', 10), ('b', 10);"
    )

    async def body(db: Any, source: str, target: str, amount: int) -> None:
        if not await is_first(db, f"{source} to {target}: {amount}"):
            return
        lock = "" if broken else "ORDER BY name FOR UPDATE"
        rows = await db.fetch(
            f"SELECT name, balance FROM account WHERE name = ANY($1) {lock}", [source, target]
        )
        if dict(rows)[source] >= amount:
            change = "UPDATE account SET balance = balance + $2 WHERE name = $1"
            for name, by in sorted(((source, -amount), (target, amount))):
                await db.execute(change, name, by)

    async def transfer(pool: Any, *order: Any) -> None:
        while True:
            try:
                async with pool.acquire(timeout=5) as db, db.transaction():
                    return await body(db, *order)
            except TRANSIENT:
                await asyncio.sleep(0.1)

    async with world.calm():
        # asyncpg asks for no keep-alive: without a time limit it waits forever for a server that
        # is gone and whose reset was lost.
        pool = await asyncpg.create_pool(pg.dsn, min_size=1, max_size=2, command_timeout=2)
    orders = (("a", "b", 8), ("a", "b", 7), ("b", "a", 1))
    await asyncio.gather(*(transfer(pool, *order) for order in orders))
    balances = [row[0] for row in pg.sql("SELECT balance FROM account ORDER BY name")]
    assert sum(balances) == 20
    assert min(balances) >= 0, "an account is overdrawn"
    pool.terminate()
