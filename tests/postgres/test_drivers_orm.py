"""SQLAlchemy 2, Tortoise and Alembic, unmodified, against the real server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.pool import NullPool
from tortoise import Tortoise, connections, fields
from tortoise.exceptions import IntegrityError
from tortoise.models import Model
from tortoise.transactions import in_transaction

import foretold
from tests.postgres.driving import check, for_each, on_host
from tests.postgres.scenarios import compared


class Base(DeclarativeBase):
    """The tables of these tests."""


class Author(Base):
    """Somebody who writes."""

    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    works: Mapped[int] = mapped_column(default=0)
    books: Mapped[list[Book]] = relationship(back_populates="author", lazy="selectin")


class Book(Base):
    """What they write."""

    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    made: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


# --- SQLAlchemy, async -----------------------------------------------------------------------


async def _write_a_book(maker: Any, name: str) -> int:
    async with maker() as session, session.begin():
        author = await session.scalar(
            sa.select(Author).where(Author.name == name).with_for_update()
        )
        author.works += 1
        session.add(Book(title=f"{name} {author.works}", author=author))
        return int(author.works)


async def _shop(world: foretold.World, driver: str, **settings: Any) -> Any:
    pg = await world.postgres(schema=Base.metadata)
    engine = create_async_engine(pg.url(driver), **settings)
    maker = async_sessionmaker(engine, expire_on_commit=False)
    async with maker() as session, session.begin():
        session.add_all([Author(name="ada"), Author(name="grace")])
    work = (_write_a_book(maker, name) for name in ("ada", "grace", "ada", "ada"))
    came = await asyncio.gather(*work)
    assert sorted(came) == [1, 1, 2, 3]
    async with maker() as session:
        ada = (await session.scalars(sa.select(Author).where(Author.name == "ada"))).one()
        assert sorted(book.title for book in ada.books) == ["ada 1", "ada 2", "ada 3"]
        with pytest.raises(sa.exc.IntegrityError):
            session.add(Author(name="ada"))
            await session.commit()
        await session.rollback()
        await _savepoints(session)
    await engine.dispose()
    return came, [str(row[0]) for row in pg.sql("SELECT made FROM book ORDER BY id")]


async def _savepoints(session: AsyncSession) -> None:
    """Of two inner blocks one is rolled back, and the outer one is kept."""
    async with session.begin():
        for name in ("radia", "ada", "barbara"):
            try:
                async with session.begin_nested():
                    session.add(Author(name=name))
            except sa.exc.IntegrityError:
                assert name == "ada"
    assert await session.scalar(sa.select(sa.func.count()).select_from(Author)) == 4


@compared
async def sqlalchemy_asyncpg(world: foretold.World) -> Any:
    """Sessions, relationships, FOR UPDATE, savepoints on asyncpg; a pool that looks first."""
    return await _shop(world, "asyncpg", pool_size=2, max_overflow=1, pool_pre_ping=True)


async def async_psycopg(world: foretold.World) -> Any:
    """The same on psycopg, with a new connection for each use."""
    return await _shop(world, "psycopg", poolclass=NullPool)


async def async_null_pool(world: foretold.World) -> Any:
    """The same on asyncpg, with a new connection for each use."""
    return await _shop(world, "asyncpg", poolclass=NullPool)


async def streaming(world: foretold.World) -> None:
    """Rows that come in portions, and raw SQL, on both drivers."""
    pg = await world.postgres(schema=Base.metadata)
    for driver in ("asyncpg", "psycopg"):
        engine = create_async_engine(pg.url(driver))
        async with engine.connect() as own:
            numbers = await own.stream(sa.text("SELECT generate_series(1, 500)"))
            assert sum([row[0] async for row in numbers]) == 125_250
            await own.rollback()
            level = await own.execution_options(isolation_level="SERIALIZABLE")
            shown = await level.scalar(sa.text("SHOW transaction_isolation"))
            assert shown == "serializable"
        await engine.dispose()


@compared
async def sqlalchemy_restart(world: foretold.World) -> Any:
    """With pre-ping a pool outlives a restart unnoticed; without, one statement fails."""
    pg = await world.postgres(schema=Base.metadata)
    outcomes = []
    for careful in (True, False):
        engine = create_async_engine(pg.url("asyncpg"), pool_size=1, pool_pre_ping=careful)
        for _ in range(3):
            try:
                async with engine.connect() as own:
                    outcomes.append(await own.scalar(sa.text("SELECT 1")))
            except (sa.exc.DBAPIError, OSError) as error:
                outcomes.append(type(error).__name__)
            if len(outcomes) in (1, 4):
                pg.fail_next("restart", seconds=1)
                await asyncio.sleep(2)
        await engine.dispose()
    assert outcomes[:4] == [1, 1, 1, 1]
    assert outcomes[4] != 1
    assert outcomes[5] == 1
    return outcomes


# --- SQLAlchemy, plain -----------------------------------------------------------------------


async def _plain(world: foretold.World, driver: str, **settings: Any) -> None:
    pg = await world.postgres(schema=Base.metadata)

    def main() -> None:
        engine = sa.create_engine(pg.url(driver), **settings)
        with Session(engine) as session, session.begin():
            session.add(Author(name="ada"))

        def write() -> None:
            with Session(engine) as session, session.begin():
                author = session.scalars(sa.select(Author).with_for_update()).one()
                author.works += 1
                with session.begin_nested():
                    session.add(Book(title=f"volume {author.works}", author=author))

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.dispose()

    await on_host(world, main)
    assert pg.sql("SELECT works FROM author") == [(4,)]
    assert len(pg.sql("SELECT DISTINCT title FROM book")) == 4


async def plain_psycopg(world: foretold.World) -> None:
    """Threads and a QueuePool, on psycopg."""
    await _plain(world, "psycopg", pool_size=2, max_overflow=0, pool_pre_ping=True)


async def plain_psycopg2(world: foretold.World) -> None:
    """The same on psycopg2, with a new connection for each use."""
    await _plain(world, "psycopg2", poolclass=NullPool)


# --- Tortoise --------------------------------------------------------------------------------


class Team(Model):
    """For Tortoise."""

    id = fields.IntField(primary_key=True)
    name = fields.CharField(max_length=50, unique=True)
    points = fields.IntField(default=0)
    since = fields.DatetimeField(auto_now_add=True)


async def tortoise(world: foretold.World) -> Any:
    """It makes its tables in the run; transactions, row locks, a unique key.

    Not compared between processes: it keeps names of columns in a set of texts, whose order is that
    of the process's hash seed."""
    pg = await world.postgres()
    await Tortoise.init(
        db_url=pg.dsn.replace("postgresql://", "asyncpg://"), modules={"models": [__name__]}
    )
    try:
        await Tortoise.generate_schemas()
        team = await Team.create(name="red")

        async def score() -> None:
            async with in_transaction():
                mine = await Team.select_for_update().get(id=team.id)
                mine.points += 1
                await mine.save()

        await asyncio.gather(*(score() for _ in range(4)))
        with pytest.raises(IntegrityError):
            await Team.create(name="red")
        found = await Team.get(name="red")
        assert found.points == 4
    finally:
        await connections.close_all()
    return str(pg.sql("SELECT since FROM team")[0][0])


# --- Alembic ---------------------------------------------------------------------------------


@pytest.fixture
def migrations() -> Config:
    """Two migrations, as a project has them."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", "postgresql+psycopg://nowhere")
    return config


def test_alembic_as_schema(migrations: Config) -> None:
    """`schema=Config`: made once, and in every run as the migrations leave it."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=migrations)
        engine = create_async_engine(pg.url("asyncpg"))
        async with engine.begin() as own:
            await own.execute(sa.text("UPDATE item SET stock = stock - 1"))
            assert (await own.execute(sa.text("SELECT * FROM item"))).one() == (1, "bolt", 4)
        await engine.dispose()

    check(main)


def test_alembic_at_start_up(migrations: Config) -> None:
    """A program that migrates when it starts, in each run; two instances begin at once."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres()

        def start() -> None:
            lock = sa.create_engine(pg.url("psycopg"), poolclass=NullPool)
            with lock.connect() as own:
                own.execute(sa.text("SELECT pg_advisory_lock(1)"))
                migrations.set_main_option("sqlalchemy.url", pg.url("psycopg"))
                command.upgrade(migrations, "head")

        await on_host(world, start, "one", "other")
        assert pg.sql("SELECT * FROM item") == [(1, "bolt", 5)]
        assert pg.sql("SELECT version_num FROM alembic_version") == [("2",)]

    check(main)


@for_each(
    sqlalchemy_asyncpg, async_psycopg, async_null_pool, streaming, sqlalchemy_restart,
    plain_psycopg, plain_psycopg2, tortoise,
)  # fmt: skip
def test_orm(main) -> None:
    """What each scenario says holds on every tape, and repeats."""
    check(main)
