"""Who is accused has done it: stories of real runs against a real server, of known cause.

Each program has one race, or none. The story must name the two that are to blame, and nobody else.
There is no search: in each of them the calm run is enough.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import foretold
from foretold.story.story import tell_run
from foretold.tape import Tape
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World

asyncpg, fastapi = pytest.importorskip("asyncpg"), pytest.importorskip("fastapi")
BackgroundTasks: Any = fastapi.BackgroundTasks
ACCOUNTS = (
    "create table account (id int primary key, owner text unique, n int check (n < 100));"
    "insert into account values (1, 'ann', 10), (2, 'bob', 10)"
)


def story_of(main: Callable[..., Any]) -> str:
    """What is told of the calm run, on one line."""
    tape = Tape.calm()
    done = execute(bind_main(main), tape, Settings.from_tape(tape.settings), detail=True)
    assert done.error is not None, "the run must fail"
    assert isinstance(done.error, AssertionError), done.error
    return " ".join(str(tell_run(done)[0]).split())


def program(
    schema: str, *parts: Callable[[Any], Awaitable[None]], asks: str = ""
) -> Callable[..., Any]:
    """All parts at once, each with a connection of its own; then the test asks, and fails."""

    async def main(world: World) -> None:
        pg = await world.postgres(schema=schema)

        async def with_connection(part: Callable[[Any], Awaitable[None]]) -> None:
            connection = await asyncpg.connect(pg.dsn)
            try:
                await part(connection)
            finally:
                await connection.close()

        tasks = [asyncio.create_task(with_connection(p), name=p.__name__) for p in parts]
        await asyncio.gather(*tasks)
        if asks:
            pg.sql(asks)
        raise AssertionError("it fails")

    return main


async def add(db: Any, table: str, row: int, *, column: str = "id") -> None:
    """A lost update: read, wait, write."""
    async with db.transaction():
        n = await db.fetchval(f"select n from {table} where {column} = $1", row)
        await asyncio.sleep(0.01)
        await db.execute(f"update {table} set n = $1 where {column} = $2", n + 1, row)


def test_the_same_row_is_a_pair_and_another_row_is_none() -> None:
    """Both read and write `account`: of one row that is a lost update, of two rows it is not."""

    async def one(db: Any) -> None:
        await add(db, "account", 1)

    async def other(db: Any) -> None:
        await add(db, "account", 2)

    async def same(db: Any) -> None:
        await add(db, "account", 1)

    assert "same read account" in story_of(program(ACCOUNTS, one, same))
    assert "No two of these got into each other's way" in story_of(program(ACCOUNTS, one, other))


def test_the_server_says_which_rows_were_read() -> None:
    """The read asks by `owner`, the write by `id`: the answer to the read has the ids."""

    async def by_owner(db: Any, owner: str, row: int) -> None:
        async with db.transaction():
            found = await db.fetchrow("select * from account where owner = $1", owner)
            await asyncio.sleep(0.01)
            await db.execute("update account set n = $1 where id = $2", found["n"] + 1, row)

    async def ann(db: Any) -> None:
        await by_owner(db, "ann", 1)

    async def bob(db: Any) -> None:
        await by_owner(db, "bob", 2)

    async def ann_again(db: Any) -> None:
        await by_owner(db, "ann", 1)

    assert "No two of these" in story_of(program(ACCOUNTS, ann, bob))
    assert "ann_again read account" in story_of(program(ACCOUNTS, ann, ann_again))


def test_tables_of_one_schema_are_told_apart() -> None:
    """`shop.a` and `shop.b` have nothing in common but the schema."""
    make = "create table shop.{0} (id int primary key, n int); insert into shop.{0} values (1, 0);"
    schema = "create schema shop;" + make.format("a") + make.format("b")

    async def one(db: Any) -> None:
        await add(db, "shop.a", 1)

    async def other(db: Any) -> None:
        await add(db, "shop.b", 1)

    async def unqualified(db: Any) -> None:
        await db.execute("set search_path = shop")
        await add(db, "a", 1)

    assert "No two of these" in story_of(program(schema, one, other))
    assert "unqualified read a (" in story_of(program(schema, one, unqualified))


def test_a_transaction_that_was_rolled_back_is_not_accused() -> None:
    """The program sends COMMIT after an error; the server answers ROLLBACK."""

    async def good(db: Any) -> None:
        await add(db, "account", 1)

    async def bad(db: Any) -> None:
        await db.execute("BEGIN")
        await db.fetchval("select n from account where id = 1")
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute("update account set n = 500 where id = 1")
        await db.execute("COMMIT")

    async def undone(db: Any) -> None:
        async with db.transaction():
            await db.execute("savepoint s")
            await db.execute("update account set n = 50 where id = 1")
            await db.execute("rollback to s")
            await db.execute("update account set n = 50 where id = 2")

    async def nowhere(db: Any) -> None:
        await db.execute("update account set n = 50 where id = 1 and n = 99")

    for innocent in (bad, undone, nowhere):
        story = story_of(program(ACCOUNTS, good, innocent))
        assert "No two of these got into each other's way" in story, innocent


def test_read_skew_is_told_as_such() -> None:
    """Two reads of one transaction, another's commit between them; a snapshot has no skew."""

    async def move(db: Any) -> None:
        await asyncio.sleep(0.005)
        async with db.transaction():
            await db.execute("update account set n = n - 5 where id = 1")
            await db.execute("update account set n = n + 5 where id = 2")

    async def look(db: Any, **options: str) -> None:
        async with db.transaction(**options):
            await db.fetchval("select n from account where id = 1")
            await asyncio.sleep(0.02)
            await db.fetchval("select n from account where id = 2")

    async def total(db: Any) -> None:
        await look(db)

    async def snapshot(db: Any) -> None:
        await look(db, isolation="repeatable_read")

    skew = story_of(program(ACCOUNTS, move, total))
    assert "In the database a transaction has seen two states:" in skew
    assert "before move had changed account" in skew
    assert "REPEATABLE READ" in skew
    assert "two states" not in story_of(program(ACCOUNTS, move, snapshot))


def test_two_inserts_after_two_empty_reads() -> None:
    """Not "read it before the other changed it": there was nothing to change."""

    async def enter(db: Any) -> None:
        async with db.transaction():
            if not await db.fetchval("select 1 from likes where who = $1", "ann"):
                await asyncio.sleep(0.01)
                await db.execute("insert into likes (who) values ($1)", "ann")

    async def first(db: Any) -> None:
        await enter(db)

    async def second(db: Any) -> None:
        await enter(db)

    story = story_of(program("create table likes (who text)", first, second))
    assert "second looked for a row in likes and found none" in story
    assert "first had not inserted it yet" in story
    assert "Then second inserted one, too" in story


def test_a_read_whose_rows_are_not_known_is_no_match_for_one_that_is_known() -> None:
    """`work` may have read the row of `keys` that the other changed; the row of `account` it has
    read. Without a better suspect the story says that it does not know."""
    schema = ACCOUNTS + "; create table keys (id int primary key, h text, used int); "
    schema += "insert into keys values (1, 'a', 0), (2, 'b', 0)"

    async def use(db: Any, key: str, row: int) -> None:
        await db.fetchval("select used from keys where h = $1", key)
        await asyncio.sleep(0.005)
        await db.execute("update keys set used = $1 where id = $2", 1, row)

    async def one(db: Any) -> None:
        async with db.transaction():
            await use(db, "a", 1)
            await add(db, "account", 1)

    async def two(db: Any) -> None:
        async with db.transaction():
            await use(db, "b", 2)
            await add(db, "account", 1)

    async def other(db: Any) -> None:
        async with db.transaction():
            await use(db, "b", 2)

    known = story_of(program(schema, one, two))
    assert "two read account" in known
    assert "read keys" not in known
    unknown = story_of(program(schema, one, other))
    assert "Whether these were the same rows is not known" in unknown


def test_a_note_of_when_it_was_is_accused_only_if_the_test_asks_for_it() -> None:
    """Two requests note `last_used_at` of one key, and the test fails for another reason. A test
    that has looked at that table may fail because of it."""
    schema = "create table keys (id int primary key, used timestamptz); insert into keys values (1)"

    async def one(db: Any) -> None:
        async with db.transaction():
            await db.fetchval("select used from keys where id = $1", 1)
            await asyncio.sleep(0.01)
            await db.execute("update keys set used = now() where id = $1", 1)

    async def two(db: Any) -> None:
        await one(db)

    assert "No two of these got into each other's way" in story_of(program(schema, one, two))
    asked = story_of(program(schema, one, two, asks="select used from keys"))
    assert "two read keys" in asked


def test_the_values_that_were_read_are_shown() -> None:
    """Those that somebody sets, of three columns; the one value of a query; none of many rows."""
    schema = f"{ACCOUNTS}; create table note (id int); insert into note select generate_series(1,9)"

    async def one(db: Any) -> None:
        async with db.transaction():
            account = await db.fetchrow("select * from account where id = 1")
            count = await db.fetchval("select count(*) from account")
            both = await db.fetch("select n from account")
            notes = await db.fetch("select id from note")
            await asyncio.sleep(0.01)
            total = account["n"] + count + len(both) + len(notes)
            await db.execute("update account set n = $1 where id = 1", total)

    async def two(db: Any) -> None:
        await one(db)

    story = story_of(program(schema, one, two))
    assert "select * from account where id = 1 → n 10 " in story
    assert "select count(*) from account → 2 " in story
    assert "select n from account → 2 rows: 10, 10 " in story
    assert "where id = 1 → 1 row" in story
    assert "generate" not in story


def test_a_lock_on_something_else_is_told() -> None:
    """It looks as if it were locked, and the lock is on the row of another table."""
    schema = ACCOUNTS + "; create table keys (id int); insert into keys values (1), (2)"

    async def take(db: Any, key: int) -> None:
        async with db.transaction():
            await db.fetchval("select 1 from keys where id = $1 for update", key)
            await add(db, "account", 1)

    async def one(db: Any) -> None:
        await take(db, 1)

    async def two(db: Any) -> None:
        await take(db, 2)

    story = story_of(program(schema, one, two))
    assert "two read account" in story
    assert "It has locked keys instead (" in story
    assert "from keys where id = 2 for update" in story


def test_of_what_it_wrote_later_that_is_told_which_the_test_asks_about() -> None:
    """Both insert a world after one look, and both then wait for the same row of another table."""
    schema = ACCOUNTS + "; create table world (name text)"

    async def one(db: Any) -> None:
        async with db.transaction():
            await db.fetch("select * from world where name = 'x'")
            await asyncio.sleep(0.01)
            await db.execute("insert into world values ('x')")
            await db.execute("update account set n = n + 1 where id = 1")

    async def two(db: Any) -> None:
        await one(db)

    story = story_of(program(schema, one, two, asks="select count(*) from world"))
    assert "two looked for a row in world and found none" in story
    assert "Then two inserted one, too" in story


def test_read_skew_of_rows_that_are_not_known() -> None:
    """The one asks by owner, the other changes by id: it is told, and that it is not known."""

    async def move(db: Any) -> None:
        await asyncio.sleep(0.005)
        async with db.transaction():
            await db.execute("update account set n = n - 5 where id = 1")
            await db.execute("update account set n = n + 5 where id = 2")

    async def total(db: Any) -> None:
        async with db.transaction():
            await db.fetchval("select n from account where owner = 'ann'")
            await asyncio.sleep(0.02)
            await db.fetchval("select n from account where owner = 'bob'")

    story = story_of(program(ACCOUNTS, move, total))
    assert "In the database a transaction has seen two states:" in story
    assert "Whether these were the same rows is not known" in story


def test_write_skew_and_phantoms() -> None:
    """Both have counted, and each changed another row, or added one: nothing was overwritten."""
    schema = "create table doctor (id int primary key, on_call bool);"
    schema += "insert into doctor values (1, true), (2, true)"

    async def leave(db: Any, row: int) -> None:
        async with db.transaction():
            if await db.fetchval("select count(*) from doctor where on_call") > 1:
                await asyncio.sleep(0.01)
                await db.execute("update doctor set on_call = false where id = $1", row)

    async def one(db: Any) -> None:
        await leave(db, 1)

    async def other(db: Any) -> None:
        await leave(db, 2)

    async def join(db: Any, row: int) -> None:
        async with db.transaction():
            if await db.fetchval("select count(*) from doctor") < 3:
                await asyncio.sleep(0.01)
                await db.execute("insert into doctor values ($1, true)", row)

    async def third(db: Any) -> None:
        await join(db, 3)

    async def fourth(db: Any) -> None:
        await join(db, 4)

    for pair in ((one, other), (third, fourth)):
        story = story_of(program(schema, *pair))
        assert f"{pair[1].__name__} read doctor" in story
        assert f"before {pair[0].__name__} had changed it" in story
        assert "a count cannot be locked" in story


# Requests

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
