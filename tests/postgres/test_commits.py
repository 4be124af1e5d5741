"""`pg.on_commit` and SQL invariants see every commit, whatever has brought it about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import foretold
from foretold.services.postgres.protocol import query
from tests.postgres.raw import COPY_DONE, FLUSH, SYNC, Raw, data
from tests.postgres.raw import run as statement

SCHEMA = """
CREATE TABLE log (x int);
CREATE TABLE lock (x int);
INSERT INTO lock VALUES (1);
CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); COMMIT; INSERT INTO log VALUES (2);
END $$;
CREATE PROCEDURE fails() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); COMMIT; INSERT INTO log VALUES (1 / 0);
END $$;
CREATE PROCEDURE undone() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); ROLLBACK; INSERT INTO log VALUES (1 / 0);
END $$;
CREATE PROCEDURE waits() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); NOTIFY news; COMMIT; UPDATE lock SET x = 2;
END $$;
CREATE PROCEDURE sleeps() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); COMMIT; PERFORM pg_sleep(5);
END $$;
CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1); UPDATE lock SET x = 3; RETURN 1;
END $$;
"""
COPY = "COPY log FROM STDIN"
INSERT = "INSERT INTO log VALUES (1)"

CASES: dict[str, tuple[list[bytes], list[int]]] = {
    "COPY": ([query(COPY), data(b"1\n") + COPY_DONE], [1]),
    "COPY, extended": ([statement(COPY) + data(b"1\n") + COPY_DONE + SYNC], [1]),
    "COPY in a transaction": (
        [query("BEGIN"), query(COPY), data(b"1\n") + COPY_DONE, query("COMMIT")], [1],
    ),
    "COPY that fails": ([query(COPY), data(b"no number\n") + COPY_DONE], []),
    "AND CHAIN": (
        [query("BEGIN"), query(INSERT), query("COMMIT AND CHAIN"), query(INSERT), query("END")],
        [1, 2],
    ),
    "ROLLBACK AND CHAIN": (
        [query("BEGIN"), query(INSERT), query("ROLLBACK AND CHAIN"), query(INSERT), query("END")],
        [1],
    ),
    "several in one": ([query(f"BEGIN; {INSERT}; COMMIT; BEGIN; {INSERT}"), query("ABORT")], [1]),
    "the next one fails": ([query(f"BEGIN; {INSERT}; COMMIT; SELECT 1 / 0")], [1]),
    "after a rollback": ([query(f"BEGIN; {INSERT}; ROLLBACK; {INSERT}")], [1]),
    "two phases": (
        [query("BEGIN"), query(INSERT), query("PREPARE TRANSACTION 'x'"),
         query("COMMIT PREPARED 'x'")],
        [1],
    ),
    "two phases, undone": (
        [query("BEGIN"), query(INSERT), query("PREPARE TRANSACTION 'x'"),
         query("ROLLBACK PREPARED 'x'")],
        [],
    ),
    "procedure": ([query("CALL twice()")], [2]),
    "DO": ([query("DO $$ BEGIN INSERT INTO log VALUES (1); COMMIT; END $$")], [1]),
    "procedure that fails": ([query("CALL fails()")], [1]),
    "procedure that keeps nothing": ([query("CALL undone()")], []),
    "statement that fails": ([query("INSERT INTO log VALUES (1), (1 / 0)")], []),
    "function": ([query("SELECT writes()")], [1]),
    "question": ([query("SELECT * FROM log")], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_commit_is_told_once_it_is_one(name: str) -> None:
    """For each commit, how many rows there are then. None for what was rolled back."""
    groups, expected = CASES[name]

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[int] = []
        pg.on_commit(lambda commit: told.append(pg.sql("SELECT count(*) FROM log")[0][0]))
        own = await Raw.connect(pg)
        for group in groups:
            own.send(group)
            came = await own.next()
            while came is not None and came[:1] not in (b"Z", b"G"):
                came = await own.next()
            if came is not None and came[:1] == b"G" and SYNC in group:
                await own.until_ready()
        await own.close()
        return told

    assert foretold.run(main).value == expected


def test_what_is_flushed_is_not_committed() -> None:
    """The implicit transaction of a batch ends with Sync: that is when it is told."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        pg.on_commit(lambda commit: told.append(commit.statements))
        own = await Raw.connect(pg)
        own.send(statement(INSERT), FLUSH)
        await own.take(3)
        before = list(told)
        await own.ask(SYNC)
        await own.close()
        return before, told

    assert foretold.run(main).value == ([], [(INSERT,)])


def test_what_the_test_commits_is_no_commit_of_a_program() -> None:
    """`pg.sql` changes something while one session is in a transaction; the next query of another
    session has committed nothing."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        pg.on_commit(lambda commit: told.append(commit.statements))
        one, other = [await Raw.connect(pg) for _ in range(2)]
        await one.sql("BEGIN")
        await one.sql(INSERT)
        pg.sql(INSERT)
        await other.sql("SELECT 1")
        before = list(told)
        await one.sql("COMMIT")
        await one.close()
        await other.close()
        return before, told

    assert foretold.run(main).value == ([], [("BEGIN", INSERT, "COMMIT")])


def test_rows_before_a_savepoint_are_named() -> None:
    """ROLLBACK TO takes back what came after the savepoint: the commit names what came before."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        pg.on_commit(lambda commit: told.append(commit.statements))
        own = await Raw.connect(pg)
        for sql in ("BEGIN", INSERT, "SAVEPOINT s", "ROLLBACK TO s", "COMMIT"):
            await own.sql(sql)
        await own.close()
        return told

    assert INSERT in foretold.run(main).value[0]


def test_a_procedure_that_stands_still() -> None:
    """What it has committed by then is told then: others see it while it waits."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        began = world.clock.monotonic()
        holder, own, listener = [await Raw.connect(pg) for _ in range(3)]
        pg.on_commit(lambda commit: told.append(commit.statements))
        await listener.sql("LISTEN news")
        await holder.sql("BEGIN; UPDATE lock SET x = 1")
        own.send(query("CALL waits()"))
        heard = await listener.take(1)
        counts = [len(told)]
        await holder.sql("COMMIT")
        await own.until_ready()
        counts.append(len(told))
        own.send(query("CALL sleeps()"))
        await asyncio.sleep(2)
        counts.append(len(told))
        await own.until_ready()
        for each in (holder, own, listener):
            await each.close()
        return heard, counts, world.clock.monotonic() - began < 10

    heard, counts, soon = foretold.run(main).value
    assert (heard, soon) == ("A", True)
    assert counts == [2, 4, 5]  # LISTEN and its own first part; the holder's and its own last one


def test_a_statement_that_another_one_overtakes() -> None:
    """A function that writes and waits for a lock commits after a transaction that began later."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        told: list[Any] = []
        pg.on_commit(lambda commit: told.append(commit.statements))
        holder, own, third = [await Raw.connect(pg) for _ in range(3)]
        await holder.sql("BEGIN; UPDATE lock SET x = 1")
        own.send(query("SELECT writes()"))
        await asyncio.sleep(1)
        await third.sql(INSERT)
        await holder.sql("ROLLBACK")
        await own.until_ready()
        for each in (holder, own, third):
            await each.close()
        return told

    assert foretold.run(main).value == [(INSERT,), ("SELECT writes()",)]


def test_closed_sessions_are_not_shown() -> None:
    """pg_stat_activity has the sessions that are open, and foretold's own under its name."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        for _ in range(3):
            each = await Raw.connect(pg, application_name="shop")
            await each.close()
        await asyncio.sleep(1)
        own = await Raw.connect(pg, application_name="shop")
        seen = pg.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shop'")
        own.send(query(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name <> 'foretold'"
        ))  # fmt: skip
        rows = [each for each in await own.until_ready() if each[:1] == b"D"]
        await own.close()
        return seen[0][0], rows[0][-1:]

    assert foretold.run(main).value == (1, b"1")
