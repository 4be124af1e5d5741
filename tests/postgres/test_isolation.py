"""The anomalies of transactions, at each isolation level, as PostgreSQL documents them.

Every cell is an explicit order of statements; the world only runs it.
"""

from __future__ import annotations

from typing import Any

import pytest

import foretold
from tests.postgres.scenarios import run

SCHEMA = """
CREATE TABLE account (id int PRIMARY KEY, owner text, balance int NOT NULL);
INSERT INTO account VALUES (1, 'ada', 100), (2, 'ada', 100);
"""
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ONE = "SELECT balance FROM account WHERE id = 1"
TWO = "SELECT balance FROM account WHERE id = 2"
SUM = "SELECT sum(balance)::int FROM account WHERE owner = 'ada'"


def begin(level: str) -> list[tuple[str, str]]:
    """Two transactions at this level."""
    return [(name, f"BEGIN ISOLATION LEVEL {level}") for name in "ab"]


def done(*steps: tuple[str, str], level: str) -> list[Any]:
    """What became of each step after the beginnings: rows, or the code of an error."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        made = await pg.interleave(*begin(level), *steps)
        return [step.code or [tuple(row) for row in step.rows] for step in made[2:]]

    return list(run(main))


def refused(level: str, *, at: str) -> str | list[Any]:
    """The code if the level is at least `at`, else that it was done."""
    return "40001" if LEVELS.index(level) >= LEVELS.index(at) else []


@pytest.mark.parametrize("level", LEVELS)
def test_dirty_read(level: str) -> None:
    """Nobody ever sees what is not committed."""
    came = done(
        ("a", "UPDATE account SET balance = 0 WHERE id = 1"),
        ("b", ONE),
        ("a", "ROLLBACK"),
        ("b", "COMMIT"),
        level=level,
    )
    assert came == [[], [(100,)], [], []]


@pytest.mark.parametrize("level", LEVELS)
def test_non_repeatable_read(level: str) -> None:
    """READ COMMITTED sees what others commit meanwhile, the others do not."""
    came = done(
        ("b", ONE),
        ("a", "UPDATE account SET balance = 0 WHERE id = 1"),
        ("a", "COMMIT"),
        ("b", ONE),
        ("b", "COMMIT"),
        level=level,
    )
    second = 0 if level == "READ COMMITTED" else 100
    assert came == [[(100,)], [], [], [(second,)], []]


@pytest.mark.parametrize("level", LEVELS)
def test_phantom(level: str) -> None:
    """New rows that a condition fits appear only at READ COMMITTED. (PostgreSQL's REPEATABLE READ
    is stronger here than the standard asks.)"""
    count = "SELECT count(*)::int FROM account WHERE owner = 'ada'"
    came = done(
        ("b", count),
        ("a", "INSERT INTO account VALUES (3, 'ada', 5)"),
        ("a", "COMMIT"),
        ("b", count),
        ("b", "COMMIT"),
        level=level,
    )
    second = 3 if level == "READ COMMITTED" else 2
    assert came == [[(2,)], [], [], [(second,)], []]


@pytest.mark.parametrize("level", LEVELS)
def test_lost_update(level: str) -> None:
    """Both read, both write what they computed: one update is lost, or the second is refused."""
    came = done(
        ("a", ONE),
        ("b", ONE),
        ("a", "UPDATE account SET balance = 110 WHERE id = 1"),
        ("b", "UPDATE account SET balance = 120 WHERE id = 1"),
        ("a", "COMMIT"),
        ("b", "COMMIT"),
        level=level,
    )
    assert came == [[(100,)], [(100,)], [], refused(level, at="REPEATABLE READ"), [], []]


@pytest.mark.parametrize("level", LEVELS)
def test_read_skew(level: str) -> None:
    """Two rows that belong together are read before and after somebody changes both."""
    came = done(
        ("b", ONE),
        ("a", "UPDATE account SET balance = balance - 50 WHERE id = 1"),
        ("a", "UPDATE account SET balance = balance + 50 WHERE id = 2"),
        ("a", "COMMIT"),
        ("b", TWO),
        ("b", "COMMIT"),
        level=level,
    )
    second = 150 if level == "READ COMMITTED" else 100
    assert came == [[(100,)], [], [], [], [(second,)], []]


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew(level: str) -> None:
    """Both check a condition over two rows, each changes one of them: only SERIALIZABLE sees it."""
    came = done(
        ("a", SUM),
        ("b", SUM),
        ("a", "UPDATE account SET balance = balance - 150 WHERE id = 1"),
        ("b", "UPDATE account SET balance = balance - 150 WHERE id = 2"),
        ("a", "COMMIT"),
        ("b", "COMMIT"),
        level=level,
    )
    assert came == [[(200,)], [(200,)], [], [], [], refused(level, at="SERIALIZABLE")]


def test_a_wait_is_told() -> None:
    """A statement that waits is marked; its answer is entered when it comes."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        steps = await pg.interleave(
            ("a", "BEGIN"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1"),
            ("a", "COMMIT"),
        )
        return [(s.waited, s.done, s.tag) for s in steps], pg.sql(ONE)[0]["balance"], pg.waits

    steps, balance, waits = run(main)
    assert steps[2] == (True, True, "UPDATE 1")
    assert [waited for waited, _, _ in steps] == [False, False, True, False]
    assert (balance, waits) == (2, 1)


def test_a_statement_that_frees_another_one() -> None:
    """The first to wait for a row finds that it is gone, and lets the second one go on, though its
    transaction is open: the next step of that one can be made at once."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=SCHEMA)
        steps = await pg.interleave(
            ("a", "BEGIN"),
            ("a", "UPDATE account SET balance = 0 WHERE id = 1"),
            ("a", "DELETE FROM account WHERE id = 1"),
            ("b", "BEGIN"),
            ("b", "DELETE FROM account WHERE id = 1"),
            ("c", "SELECT id FROM account ORDER BY id FOR UPDATE"),
            ("a", "COMMIT"),
            ("c", "SELECT 1"),
        )
        assert [step.waited for step in steps[4:6]] == [True, True]
        assert [list(row) for row in steps[5].rows] == [[2]]

    run(main)


def test_a_session_that_waits_can_do_nothing_else() -> None:
    """A step for it is a mistake in the test, and is told so."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        await pg.interleave(
            ("a", "BEGIN"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1"),
            ("b", "COMMIT"),
        )

    with pytest.raises(foretold.UsageError, match="still waits for a lock"):
        run(main)


@pytest.mark.parametrize("step", ["BEGIN", ("a",), ("a", 1), ("", "BEGIN")])
def test_a_step_that_is_none(step: Any) -> None:
    """The error shows how to write one."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=SCHEMA)
        await pg.interleave(step)

    with pytest.raises(foretold.UsageError, match="right: await pg"):
        run(main)
