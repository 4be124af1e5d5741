"""Who is accused has done it: requests of an application, which keep their names.

Each program has one race, or none. There is no search: in each of them the calm run is enough.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import foretold
from foretold.tape import Tape
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World
from tests.search.accused import ACCOUNTS, add, story_of

asyncpg, fastapi = pytest.importorskip("asyncpg"), pytest.importorskip("fastapi")
BackgroundTasks: Any = fastapi.BackgroundTasks

GRADUATION = """
create table api_keys (id int primary key, key_hash text, last_used_at timestamptz);
create table proposals (id int primary key, status text);
create table items (id int primary key, proposal_id int, resolved bool);
create table worlds (id serial primary key, proposal_id int);
insert into api_keys values (1, 'hash-a', null), (2, 'hash-b', null);
insert into proposals values (7, 'validating');
insert into items values (21, 7, false), (22, 7, false);
"""


async def graduate(db: Any, key: str, item: int, pause_s: float) -> bool:
    """Authentication notes when the key was used; then a check and an act, with nothing between."""
    async with db.transaction():
        found = await db.fetchval("select id from api_keys where key_hash = $1", f"hash-{key}")
        await asyncio.sleep(pause_s if key == "b" else 0)
        await db.execute("update api_keys set last_used_at = now() where id = $1", found)
        await db.execute("update items set resolved = true where id = $1", item)
    async with db.transaction():
        open_items = "select count(*) from items where proposal_id = $1 and not resolved"
        await asyncio.sleep(pause_s)
        if await db.fetchval(open_items, 7):
            return False
        if await db.fetchval("select status from proposals where id = $1", 7) != "validating":
            return False
        await asyncio.sleep(2 * pause_s)
        await db.execute("insert into worlds (proposal_id) values ($1)", 7)
        await db.execute("update proposals set status = 'approved' where id = $1", 7)
    return True


def application(style: str) -> Any:
    """The same handler, reached in another way."""
    from starlette.middleware.base import BaseHTTPMiddleware

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.state.pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=2)
        yield
        await app.state.pool.close()

    app = fastapi.FastAPI(lifespan=lifespan)

    async def work(key: str, item: int) -> None:
        async with app.state.pool.acquire() as db:
            await graduate(db, key, item, 0.006)

    @app.post("/items/{item}/resolve")
    async def resolve(item: int, key: str, later: BackgroundTasks) -> None:
        if style == "background":
            later.add_task(work, key, item)
        elif style == "gather":
            await asyncio.gather(work(key, item), asyncio.sleep(0))
        else:
            await work(key, item)

    if style == "middleware":

        async def dispatch(request: Any, call_next: Any) -> Any:
            return await call_next(request)

        app.add_middleware(BaseHTTPMiddleware, dispatch=dispatch)
    return app


@pytest.mark.parametrize("style", ["plain", "middleware", "gather", "background"])
def test_requests_keep_their_names(style: str) -> None:
    """Whatever task does the work: the story names the client and the request. And authentication,
    which touches the row of its own key, is not what it accuses."""

    async def main(world: World) -> None:
        pg = await world.postgres(schema=GRADUATION)
        web = await world.web(application(style), environment={"DATABASE_URL": pg.dsn})
        ann, bob = web.client("ann"), web.client("bob")
        paths = "/items/21/resolve?key=a", "/items/22/resolve?key=b"
        await foretold.together(ann.post(paths[0]), bob.post(paths[1]))
        await asyncio.sleep(1)
        await ann.aclose()
        await bob.aclose()
        assert pg.sql("select count(*) from worlds")[0][0] == 1

    story = story_of(main)
    assert "ann: POST /items/21/resolve, in session" in story
    assert "bob: POST /items/22/resolve, in session" in story
    assert "coro" not in story
    assert "bob read proposals" in story
    assert "and then wrote worlds" in story
    assert "read api_keys" not in story


def test_telling_changes_nothing() -> None:
    """A run without detail, in which nobody asks whose request it is, has the same digest."""

    async def main(world: World) -> None:
        pg = await world.postgres(schema=GRADUATION)
        web = await world.web(application("middleware"), environment={"DATABASE_URL": pg.dsn})
        ann = web.client("ann")
        await ann.post("/items/21/resolve?key=a")
        await ann.aclose()
        pg.sql("select count(*) from worlds")

    tape = Tape.calm()
    runs = [
        execute(bind_main(main), tape, Settings.from_tape(tape.settings), detail=detail)
        for detail in (False, True)
    ]
    assert [run.error for run in runs] == [None, None]
    assert runs[0].digest == runs[1].digest


def test_a_def_endpoint_keeps_its_name_in_its_thread() -> None:
    """The handler runs in a thread of anyio's; its statements are the request's."""
    psycopg = pytest.importorskip("psycopg")
    app = fastapi.FastAPI()

    @app.post("/add")
    def handler() -> None:
        with psycopg.connect(os.environ["DATABASE_URL"]) as db:
            row = db.execute("select n from account where id = 1").fetchone()
            db.execute("select pg_sleep(0.01)")
            db.execute("update account set n = %s where id = 1", (row[0] + 1,))

    async def main(world: World) -> None:
        pg = await world.postgres(schema=ACCOUNTS)
        web = await world.web(app, environment={"DATABASE_URL": pg.dsn})
        ann, bob = web.client("ann"), web.client("bob")
        await foretold.together(ann.post("/add"), bob.post("/add"))
        await ann.aclose()
        await bob.aclose()
        assert pg.sql("select n from account where id = 1")[0][0] == 12

    story = story_of(main)
    assert "ann: POST /add, in session" in story
    assert "bob read account" in story or "ann read account" in story


def test_two_tasks_of_one_request_get_in_each_other_s_way() -> None:
    """A handler gathers two payments, each with a session of its own: one request, and a race."""
    app = fastapi.FastAPI()

    @app.post("/pay")
    async def handler() -> None:
        async def pay() -> None:
            db = await asyncpg.connect(os.environ["DATABASE_URL"])
            await add(db, "account", 1)
            await db.close()

        await asyncio.gather(pay(), pay())

    async def main(world: World) -> None:
        pg = await world.postgres(schema=ACCOUNTS)
        web = await world.web(app, environment={"DATABASE_URL": pg.dsn})
        ann = web.client("ann")
        await ann.post("/pay")
        await ann.aclose()
        assert pg.sql("select n from account where id = 1")[0][0] == 12

    story = story_of(main)
    assert "In the database two transactions of one request overlapped:" in story
    assert "session 2 read account (" in story
    assert "before session 1 had changed it" in story
    assert "session 1 is POST /pay of ann" in story


@pytest.mark.parametrize("looks_again", [False, True])
def test_what_was_read_in_one_request_is_written_in_a_later_one(looks_again: bool) -> None:
    """No two transactions overlap; the client writes what it knows from before. If it has looked
    again meanwhile, it is not to blame."""
    app = fastapi.FastAPI()

    @app.get("/account")
    async def get() -> int:
        db = await asyncpg.connect(os.environ["DATABASE_URL"])
        n: int = await db.fetchval("select n from account where id = 1")
        await db.close()
        return n

    @app.put("/account")
    async def put(n: int) -> None:
        db = await asyncpg.connect(os.environ["DATABASE_URL"])
        await db.execute("update account set n = $1 where id = 1", n)
        await db.close()

    async def main(world: World) -> None:
        pg = await world.postgres(schema=ACCOUNTS)
        web = await world.web(app, environment={"DATABASE_URL": pg.dsn})
        ann, bob = web.client("ann"), web.client("bob")
        known = (await ann.get("/account")).json()
        await bob.put("/account?n=50")
        if looks_again:
            await ann.get("/account")
        await ann.put(f"/account?n={known + 1}")
        await ann.aclose()
        await bob.aclose()
        assert pg.sql("select n from account where id = 1")[0][0] == 51

    story = story_of(main)
    assert ("request 1 read account (" in story) is not looks_again
    assert ("request 2 of the same client wrote account (" in story) is not looks_again
    assert ("before bob had changed it" in story) is not looks_again


@pytest.mark.parametrize("style", ["closes later", "commits at once"])
def test_who_has_only_read_after_its_commit_was_not_answered_too_soon(style: str) -> None:
    """What it wrote was committed before the answer. What came later was a look, if anything."""
    app = fastapi.FastAPI()

    async def connection() -> AsyncIterator[Any]:
        db = await asyncpg.connect(os.environ["DATABASE_URL"])
        yield db
        if style == "closes later":
            await db.execute("rollback")
        await db.close()

    needed = fastapi.Depends(connection)

    @app.post("/add")
    async def handler(db: Any = needed) -> None:
        await db.execute("update account set n = n + 1 where id = 1")
        if style == "closes later":
            await db.execute("begin")
            await db.fetchval("select n from account where id = 1")

    async def main(world: World) -> None:
        pg = await world.postgres(schema=ACCOUNTS)
        web = await world.web(app, environment={"DATABASE_URL": pg.dsn})
        ann = web.client("ann")
        await ann.post("/add")
        await asyncio.sleep(1)
        await ann.aclose()
        raise AssertionError("it fails")

    assert "was answered" not in story_of(main)


def test_the_second_delivery_of_a_request_was_not_answered_too_soon() -> None:
    """A proxy delivers a request twice. The client has its answer before the second delivery
    commits, which is no mistake of the application's."""
    app = fastapi.FastAPI()

    @app.post("/add")
    async def handler() -> None:
        db = await asyncpg.connect(os.environ["DATABASE_URL"])
        async with db.transaction():
            await db.execute("update account set n = n + 1 where id = 1")
        await db.close()

    async def main(world: World) -> None:
        pg = await world.postgres(schema=ACCOUNTS)
        web = await world.web(app, environment={"DATABASE_URL": pg.dsn})
        web.fail_next("late_duplicate")
        ann = web.client("ann")
        await ann.post("/add")
        await asyncio.sleep(5)
        await ann.aclose()
        assert pg.sql("select n from account where id = 1")[0][0] == 11

    story = story_of(main)
    assert "late duplicate" in story, "it was delivered twice"
    assert "was answered" not in story
