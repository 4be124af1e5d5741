"""Correct programs on PostgreSQL through other people's layers: SQLAlchemy, psycopg."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.orm.exc import StaleDataError
from sqlalchemy.pool import NullPool

import foretold
from tests.correct.postgres import DONE, TRANSIENT, transact
from tests.correct.program import program

FAULTS = foretold.faults.postgres + foretold.faults.network


class Base(DeclarativeBase):
    """Of both tables."""


class Stock(Base):
    """An update counts if nobody else has changed the row since it was read."""

    __tablename__ = "stock"
    id: Mapped[int] = mapped_column(primary_key=True)
    left: Mapped[int]
    version: Mapped[int] = mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  # as SQLAlchemy shows it


class UncheckedStock(Base):
    """The mistake: the same without a version."""

    __tablename__ = "unchecked_stock"
    id: Mapped[int] = mapped_column(primary_key=True)
    left: Mapped[int]


class Sale(Base):
    """Who has bought; an order that is tried again is known by its key."""

    __tablename__ = "sale"
    key: Mapped[str] = mapped_column(primary_key=True)


@program(faults=FAULTS, runs_max=100, slow=True)
async def orm_with_versions(world: foretold.World, *, broken: bool) -> None:
    """Sessions read, decide and write; who was too late begins again. Broken: no version."""
    kind: Any = UncheckedStock if broken else Stock
    pg = await world.postgres(schema=Base.metadata)
    engine = create_async_engine(
        pg.url("asyncpg"), poolclass=NullPool, connect_args={"timeout": 2, "command_timeout": 2}
    )

    async def buy(session: AsyncSession, key: str) -> None:
        if await session.get(Sale, key) is not None:
            return  # an earlier attempt was committed
        stock = await session.get_one(kind, 1)
        if stock.left > 0:
            stock.left -= 1
            session.add(Sale(key=key))

    async def insist(key: str) -> None:
        while True:
            try:
                async with AsyncSession(engine) as session, session.begin():
                    return await buy(session, key)
            except (StaleDataError, sqlalchemy.exc.DBAPIError, *TRANSIENT):
                await asyncio.sleep(0.1)

    async def stock_up(connection: Any) -> None:
        columns = "(id, left)" if broken else "(id, left, version)"
        columns = columns.replace("left", '"left"')
        values = "(1, 2)" if broken else "(1, 2, 1)"
        await connection.execute(
            f"INSERT INTO {kind.__tablename__} {columns} VALUES {values} ON CONFLICT DO NOTHING"
        )

    await transact(pg.dsn, stock_up)
    await asyncio.gather(*(insist(key) for key in ("ada", "bob", "eve")))
    await engine.dispose()
    ((left,),) = pg.sql(f'SELECT "left" FROM {kind.__tablename__}')
    ((sold,),) = pg.sql("SELECT count(*) FROM sale")
    assert (left, sold) == (0, 2)


@program(faults=FAULTS, runs_max=100, slow=True)
async def workers_that_listen(world: foretold.World, *, broken: bool) -> None:
    """Workers sleep until a notification or until a while has passed, and take jobs that nobody
    else has locked. Broken: a job is marked as taken in a transaction of its own, and stays so if
    the worker loses its connection."""
    pg = await world.postgres(
        schema=f"{DONE} CREATE TABLE job (id int PRIMARY KEY, state text NOT NULL DEFAULT 'new');"
        "CREATE TABLE result (job int NOT NULL);"
    )
    lock = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"

    async def take_one(db: Any) -> bool:
        async with asyncio.timeout(3):
            async with db.transaction():
                row = await (await db.execute(lock)).fetchone()
                if row is None:
                    return False
                if broken:
                    await db.execute("UPDATE job SET state = 'taken' WHERE id = %s", row)
                else:
                    await finish(db, row)
            if broken:
                async with db.transaction():
                    await finish(db, row)
            return True

    async def finish(db: Any, row: Any) -> None:
        await db.execute("INSERT INTO result VALUES (%s)", row)
        await db.execute("UPDATE job SET state = 'done' WHERE id = %s", row)

    def is_all_done() -> bool:
        ((jobs, done),) = pg.sql("SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM job")
        return bool(jobs == done == 3)

    async def work(deadline: float) -> None:
        while not is_all_done():
            assert asyncio.get_running_loop().time() < deadline, "a job is never done"
            try:
                db = await psycopg.AsyncConnection.connect(
                    pg.dsn, connect_timeout=2, tcp_user_timeout=2_000, autocommit=True
                )
                try:
                    async with asyncio.timeout(3):
                        await db.execute("LISTEN job")
                    while await take_one(db):
                        pass
                    async for _ in db.notifies(timeout=1, stop_after=1):
                        pass
                finally:
                    await db.close()
            except (OSError, psycopg.OperationalError, psycopg.InternalError):
                await asyncio.sleep(0.1)

    async def post(number: int) -> None:
        async def body(db: Any) -> None:
            await db.execute("INSERT INTO job VALUES ($1) ON CONFLICT DO NOTHING", number)
            await db.execute("NOTIFY job")

        await transact(pg.dsn, body)

    deadline = asyncio.get_running_loop().time() + 300
    await asyncio.gather(work(deadline), work(deadline), *(post(number) for number in (1, 2, 3)))
    assert [row[0] for row in pg.sql("SELECT job FROM result ORDER BY 1")] == [1, 2, 3]
