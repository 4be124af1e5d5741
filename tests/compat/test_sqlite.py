"""sqlite3, aiosqlite and SQLAlchemy on SQLite files of the world, in tasks and in threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sqlite3
from typing import Any

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import foretold
from tests.compat.scene import check, for_each, scenario

PATH = "/var/lib/bank.db"


class Base(orm.DeclarativeBase):
    """The tables of these scenarios."""


class Account(Base):
    """Somebody's money."""

    __tablename__ = "account"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    owner: orm.Mapped[str]
    balance: orm.Mapped[int] = orm.mapped_column(default=0)
    since: orm.Mapped[str] = orm.mapped_column(server_default=sqlalchemy.func.current_timestamp())


orm.configure_mappers()  # under a lock at the first use otherwise, in the first run alone


def accounts() -> list[Account]:
    """What each scenario begins with."""
    return [Account(id=n, owner=owner, balance=100) for n, owner in enumerate(("ada", "grace"))]


@scenario
async def aiosqlite_tasks(world: foretold.World) -> None:
    """Ten tasks, each with a connection and so a thread of its own, count up one number. They wait
    for each other's transactions inside SQLite."""
    async with aiosqlite.connect(PATH) as db:
        await db.executescript("CREATE TABLE n (x); INSERT INTO n VALUES (0);")

        async def count_up() -> None:
            async with aiosqlite.connect(PATH, timeout=60) as own:
                await own.execute("BEGIN IMMEDIATE")
                async with own.execute("SELECT x FROM n") as cursor:
                    row = await cursor.fetchone()
                assert row is not None
                await own.execute("UPDATE n SET x = ?", (row[0] + 1,))
                await own.commit()

        await asyncio.gather(*(count_up() for _ in range(5)))
        async with db.execute("SELECT x, random() FROM n") as cursor:
            assert [row[0] async for row in cursor] == [5]


@scenario
async def aiosqlite_gives_up(world: foretold.World) -> None:
    """Who cannot get the lock is told so after its timeout, in virtual time; the loop goes on."""
    loop = asyncio.get_running_loop()
    async with aiosqlite.connect(PATH) as one, aiosqlite.connect(PATH, timeout=3) as two:
        await one.execute("CREATE TABLE n (x)")
        await one.execute("BEGIN IMMEDIATE")
        begun, ticks = loop.time(), 0
        waiting = asyncio.ensure_future(two.execute("INSERT INTO n VALUES (1)"))
        while not waiting.done():
            await asyncio.sleep(0.1)
            ticks += 1
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            await waiting
        assert 2.9 < loop.time() - begun < 3.5
        assert ticks > 25
        await one.rollback()


@scenario
async def sqlalchemy_async(world: foretold.World) -> None:
    """Transfers through the asyncio engine: what leaves one account arrives in the other."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{PATH}", connect_args={"timeout": 60})
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine) as session, session.begin():
        session.add_all(accounts())

    async def transfer(amount: int) -> None:
        async with AsyncSession(engine) as session, session.begin():
            for number, change in ((0, -amount), (1, amount)):
                where = sqlalchemy.update(Account).where(Account.id == number)
                await session.execute(where.values(balance=Account.balance + change))

    await asyncio.gather(*(transfer(n) for n in (1, 2, 3)))
    async with AsyncSession(engine) as session:
        found = (await session.scalars(sqlalchemy.select(Account).order_by(Account.id))).all()
        assert [each.balance for each in found] == [94, 106]
        assert found[0].since.startswith("2026-01-01 ")
    await engine.dispose()


@scenario
async def sqlalchemy_in_threads(world: foretold.World) -> None:
    """The plain engine and its pool, in worker threads, in WAL mode."""
    engine = sqlalchemy.create_engine(f"sqlite:///{PATH}", connect_args={"timeout": 60})

    @sqlalchemy.event.listens_for(engine, "connect")
    def in_wal_mode(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")

    Base.metadata.create_all(engine)
    with orm.Session(engine) as session, session.begin():
        session.add_all(accounts())

    def deposit(number: int) -> None:
        with orm.Session(engine) as session, session.begin():
            where = sqlalchemy.update(Account).where(Account.id == number % 2)
            session.execute(where.values(balance=Account.balance + number))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, deposit, n) for n in range(8)))
    with orm.Session(engine) as session:
        found = session.scalars(sqlalchemy.select(Account.balance).order_by(Account.id)).all()
    assert list(found) == [112, 116]
    engine.dispose()


@scenario
async def recovery(world: foretold.World) -> None:
    """A service on another host keeps orders by aiosqlite; its machine loses power again and again,
    and each order that it has confirmed is there afterwards."""
    confirmed: list[int] = []

    async def serve() -> None:
        async with aiosqlite.connect(PATH) as db:
            await db.execute("PRAGMA journal_mode=WAL")
            await db.execute("PRAGMA synchronous=FULL")
            await db.execute("CREATE TABLE IF NOT EXISTS orders (n INTEGER PRIMARY KEY)")
            while True:
                cursor = await db.execute("INSERT INTO orders VALUES (NULL)")
                await db.commit()
                assert cursor.lastrowid is not None
                confirmed.append(cursor.lastrowid)
                await asyncio.sleep(0.01)

    host = world.host("shop")
    host.start(serve)
    for _ in range(3):
        await asyncio.sleep(foretold.between(50, 150) / 1_000)
        host.crash()
        host.restart()
    await host.stop()

    def look() -> list[Any]:
        with contextlib.closing(sqlite3.connect(PATH)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [n for (n,) in db.execute("SELECT n FROM orders")]

    assert set(confirmed) <= set(await host.restart(look))


@for_each(aiosqlite_tasks, aiosqlite_gives_up, sqlalchemy_async, sqlalchemy_in_threads, recovery)
def test_sqlite(main) -> None:
    """What each scenario says holds on every tape."""
    check(main)
