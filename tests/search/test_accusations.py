"""Who is accused has done it: stories of real runs against a real server, of known cause.

Each program has one race, or none. The story must name the two that are to blame, and nobody else.
There is no search: in each of them the calm run is enough.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.search.accused import ACCOUNTS, add, program, story_of

asyncpg = pytest.importorskip("asyncpg")


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


def test_what_was_written_before_the_read_and_committed_after_it() -> None:
    """The other one had changed the row, but its commit came later: until then nobody saw it."""

    async def slow(db: Any) -> None:
        async with db.transaction():
            n = await db.fetchval("select n from account where id = 1")
            await db.execute("update account set n = $1 where id = 1", n + 1)
            await asyncio.sleep(0.1)

    async def quick(db: Any) -> None:
        await asyncio.sleep(0.05)
        await add(db, "account", 1)

    story = story_of(program(ACCOUNTS, slow, quick))
    assert "quick read account" in story
    assert "before slow had committed its change of it" in story


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


def test_a_count_in_a_query_of_its_own_cannot_be_locked_either() -> None:
    """The statement asks for a difference; the count stands in a WITH, with its own condition. Of
    another course it is not the same row."""
    schema = "create schema s; create table s.course (id int primary key, seats int);"
    schema += "insert into s.course values (1, 1), (2, 1);"
    schema += "create table s.seat (course int, who text)"
    sql = (
        "with taken as (select count(*) as n from s.seat e where e.course = $1) "
        "select c.seats - taken.n from s.course c cross join taken where c.id = $1"
    )

    async def enrol(db: Any, course: int, who: str) -> None:
        async with db.transaction():
            if await db.fetchval(sql, course) > 0:
                await asyncio.sleep(0.01)
                await db.execute("insert into s.seat (course, who) values ($1, $2)", course, who)

    async def one(db: Any) -> None:
        await enrol(db, 1, "one")

    async def two(db: Any) -> None:
        await enrol(db, 1, "two")

    async def other(db: Any) -> None:
        await enrol(db, 2, "other")

    story = story_of(program(schema, one, two))
    assert "two read seat" in story
    assert "a count cannot be locked" in story
    assert "Whether these were the same rows is not known" not in story
    assert "overlapped" not in story_of(program(schema, one, other))


def test_the_sum_that_was_written_is_what_was_read_too_early() -> None:
    """An ORM reads the invoice just before it changes it. What it writes is a sum over the lines,
    which it had read before the other one added a line."""
    schema = "create table invoice (id int primary key, total int);"
    schema += "insert into invoice values (1, 0);"
    schema += "create table line (id serial primary key, invoice int, amount int)"
    total = "select coalesce(sum(amount), 0) from line where invoice = 1"

    async def bill(db: Any, pause_s: float) -> None:
        await db.execute("insert into line (invoice, amount) values (1, 7)")
        found = await db.fetchval(total)
        await asyncio.sleep(pause_s)
        async with db.transaction():
            await db.fetchrow("select id, total from invoice where id = 1")
            await asyncio.sleep(0.02)
            await db.execute("update invoice set total = $1 where id = 1", found)

    async def slow(db: Any) -> None:
        await bill(db, 0.02)

    async def quick(db: Any) -> None:
        await asyncio.sleep(0.01)
        await bill(db, 0.001)

    asks = "select 1 from invoice where total <> (select sum(amount) from line)"
    story = story_of(program(schema, slow, quick, asks=asks))
    assert "slow read line" in story
    assert "before quick had changed it" in story
    assert "and then wrote invoice" in story


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
