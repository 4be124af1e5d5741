"""Which calls a rehearsal tries at the same time: each sort of pair finds a race that needs it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

import foretold
from foretold.spec.machine.rehearsal import SORTS
from tests.helpers import soak

BOXES = 6
SCHEMA = """
create table boxes (id int primary key, shipped int not null, seen text not null);
create table items (id int primary key, box_id int not null, closed boolean not null);
create table users (name text primary key, seen timestamptz, lots int not null);
insert into users select 'actor' || n, null, 0 from generate_series(1, 4) n;
""" + "".join(
    f"insert into boxes values ({box}, 0, 'new');"
    f"insert into items values ({10 * box}, {box}, false), ({10 * box + 1}, {box}, false);"
    for box in range(1, BOXES + 1)
)


class Item(BaseModel):
    """Something to be closed before its box is shipped."""

    id: int
    closed: bool


class Box(BaseModel):
    """A box, and what is in it."""

    id: int
    shipped: int
    seen: str
    items: list[Item]


class Counted(BaseModel):
    """How many there are now."""

    count: int


class Store:
    """The database of the service, and the mistakes that it is asked for."""

    def __init__(self, dsn: str, bugs: frozenset[str]) -> None:
        self.dsn, self.bugs = dsn, bugs

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.dsn)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    async def lock(self, db: Any, box_id: int, unless: str = "") -> Box:
        """A box that nobody else changes meanwhile, unless the mistake is on; or 404."""
        how = "" if unless in self.bugs else "for update"
        return await self.shown(db, box_id, how)

    async def shown(self, db: Any, box_id: int, how: str = "") -> Box:
        row = await db.fetchrow(f"select * from boxes where id = $1 {how}", box_id)
        if row is None:
            raise HTTPException(404, "there is no such box")
        items = await db.fetch("select id, closed from items where box_id = $1 order by 1", box_id)
        return Box(**row, items=[Item(**each) for each in items])

    async def mark(self, db: Any, box_id: int, seen: str) -> Box:
        await db.execute("update boxes set seen = $2 where id = $1", box_id, seen)
        return await self.shown(db, box_id)

    async def caller(self, db: Any, request: Request) -> str:
        """Who is there. A note of it keeps the requests of one user apart."""
        who = request.headers["x-user"]
        sql = "select now() - seen < '1 minute' from users where name = $1"
        if "throttled" not in self.bugs or not await db.fetchval(sql, who):
            await db.execute("update users set seen = now() where name = $1", who)
        return str(who)


def application(dsn: str, bugs: frozenset[str]) -> FastAPI:
    """Boxes, items and lots."""
    app, store = FastAPI(), Store(dsn, bugs)
    serve_boxes(app, store)
    serve_items(app, store)
    serve_lots(app, store)
    return app


def serve_boxes(app: FastAPI, store: Store) -> None:
    """New, then opened, then inspected; or doubtful, or marked."""

    @app.get("/boxes")
    async def boxes() -> list[Counted]:
        async with store.transaction() as db:
            found = await db.fetch("select id as count from boxes order by 1")
        return [Counted(**each) for each in found]

    @app.get("/boxes/{box_id}")
    async def box(box_id: int) -> Box:
        async with store.transaction() as db:
            return await store.shown(db, box_id)

    @app.post("/boxes/{box_id}/inspect")
    async def inspect(box_id: int) -> Box:
        """Nobody shall see it open."""
        async with store.transaction() as db:
            if (await store.lock(db, box_id)).seen != "new":
                raise HTTPException(409, "it was inspected")
            await store.mark(db, box_id, "open")
            if "reader" not in store.bugs:
                return await store.mark(db, box_id, "inspected")
        async with store.transaction() as db:
            return await store.mark(db, box_id, "inspected")

    @app.delete("/boxes/{box_id}/inspection")
    async def doubt(box_id: int) -> Box:
        async with store.transaction() as db:
            if (await store.lock(db, box_id, unless="related")).seen == "marked":
                raise HTTPException(409, "it was marked")
            return await store.mark(db, box_id, "doubtful")

    @app.post("/boxes/{box_id}/mark")
    async def mark(box_id: int) -> Box:
        async with store.transaction() as db:
            if (await store.lock(db, box_id)).seen == "doubtful":
                raise HTTPException(409, "it is doubtful")
            return await store.mark(db, box_id, "marked")


def serve_items(app: FastAPI, store: Store) -> None:
    """The last one that is closed ships the box."""

    @app.post("/items/{item_id}/close")
    async def close(item_id: int) -> Counted:
        async with store.transaction() as db:
            box_id = await db.fetchval("select box_id from items where id = $1", item_id)
            if box_id is None:
                raise HTTPException(404, "there is no such item")
            await store.lock(db, box_id, unless="sibling")
            sql = "update items set closed = true where id = $1 and not closed"
            if await db.execute(sql, item_id) == "UPDATE 0":
                raise HTTPException(409, "it is closed")
            sql = "select count(*) from items where box_id = $1 and not closed"
            left = await db.fetchval(sql, box_id)
            if not left:
                await db.execute("update boxes set shipped = shipped + 1 where id = $1", box_id)
            return Counted(count=left)


def serve_lots(app: FastAPI, store: Store) -> None:
    """How many lots a user has drawn."""

    @app.get("/me")
    async def me(request: Request) -> Counted:
        async with store.transaction() as db:
            who = await store.caller(db, request)
            return Counted(count=await db.fetchval("select lots from users where name = $1", who))

    @app.post("/lots", status_code=201)
    async def draw_lot(request: Request) -> Counted:
        async with store.transaction() as db:
            who = await store.caller(db, request)
            lots = await db.fetchval("select lots from users where name = $1", who) + 1
            await db.execute("update users set lots = $2 where name = $1", who, lots)
            return Counted(count=lots)


OPERATIONS = {
    "sibling": ("boxes", "box", "close"),
    "reader": ("boxes", "box", "inspect"),
    "related": ("boxes", "box", "doubt", "mark"),
    "throttled": ("me", "draw_lot"),
}
"""What each mistake concerns."""


def machine(about: str, *bugs: str) -> Any:
    """Every run ends in a storm, and nothing else is looked at."""
    app = application("", frozenset())
    made: Any = foretold.openapi(
        app, steps=3, feeds={"count": "box"}, actors=4, only=OPERATIONS[about]
    )

    class Boxes(made):  # type: ignore[misc]  # made at run time
        storms = 1.0
        duplicates_are_refused_or_change_nothing = None

        async def credentials(self, actor: Any) -> Any:
            return {"x-user": actor.name}

        async def serve(self) -> Any:
            pg = await self.world.postgres(schema=SCHEMA)
            return application(pg.dsn, frozenset(bugs))

    return Boxes


def explored(made: Any, runs: int) -> BaseException | None:
    """What a search finds."""
    settings: Any = {"seed": 1, "shrink": False, "confirm": False}
    failure = foretold.explore(made, runs=runs, **settings).failure
    return None if failure is None else failure.exception


@pytest.mark.parametrize(
    ("bug", "calls"),
    [
        soak("sibling", r"\.close\(.*\.close\("),
        soak("reader", r"\.inspect\(.*\.box\("),
        ("related", r"\.(mark\(.*\.doubt|doubt\(.*\.mark)\("),
        ("throttled", r"\.draw_lot\(.*\.draw_lot\("),
    ],
)
def test_each_sort_of_pair_finds_its_race(bug: str, calls: str) -> None:
    """The last two items of one box, of twelve items; a page that is read between two transactions;
    two operations on one box, of which one does not lock it; two requests of one user who was there
    a moment ago. With nothing wrong nobody is accused."""
    found = explored(machine(bug, bug), runs=8)
    assert isinstance(found, foretold.NotSerial)
    assert re.search(calls, str(found), re.DOTALL), found

    assert explored(machine(bug), runs=2) is None


def test_what_comes_too_soon_may_be_refused() -> None:
    """A service that wants half a second between two requests: in serial orders there is more time
    between calls than in a storm, unless each begins as soon as the one before has returned."""

    def make(dsn: str) -> FastAPI:
        app = FastAPI()

        @app.post("/knock", status_code=201)
        async def knock() -> Counted:
            connection = await asyncpg.connect(dsn)
            try:
                sql = "update door set count = count + 1, at = now() where now() - at > '0.5 s'"
                if await connection.execute(sql) == "UPDATE 0":
                    await connection.execute("update door set refused = refused + 1")
                    raise HTTPException(429, "too soon")
                return Counted(count=await connection.fetchval("select count from door"))
            finally:
                await connection.close()

        return app

    class Door(foretold.openapi(make(""), steps=2)):  # type: ignore[misc]  # made at run time
        storms = 1.0

        async def serve(self) -> Any:
            schema = "create table door (count int, refused int, at timestamptz);"
            schema += "insert into door values (0, 0, '2000-01-01');"
            return make((await self.world.postgres(schema=schema)).dsn)

    assert explored(Door, runs=4) is None


def test_every_sort_of_pair_has_a_number() -> None:
    """As they stand on a tape."""
    assert {sort for sort, _ in SORTS} == {
        *("twin", "twin again", "other", "sibling", "related", "reader")
    }
