"""SQL in a story: short, on one line, and with what decides."""

from __future__ import annotations

import pytest

from foretold.search.sqltext import (
    SQL_CHARS_MAX,
    VALUE_CHARS_MAX,
    columns_set,
    outcome_text,
    rows_meant,
    shortened,
    tables_of,
    value_text,
    with_values,
    written_by,
)

COLUMNS = ", ".join(f"item.column_{n}" for n in range(30))


@pytest.mark.parametrize(
    ("sql", "short"),
    [
        ("SELECT 1", "SELECT 1"),
        (
            f"SELECT {COLUMNS} \nFROM item WHERE item.id = $1::UUID FOR NO KEY UPDATE",
            "SELECT … FROM item WHERE id = $1 FOR NO KEY UPDATE",
        ),
        (
            "SELECT count(*) AS count_1 FROM item WHERE item.at > $1::TIMESTAMP WITH TIME ZONE",
            "SELECT count(*) FROM item WHERE at > $1",
        ),
        (
            f"INSERT INTO item ({COLUMNS.replace('item.', '')}) VALUES ($1::INTEGER, $2::JSONB)",
            "INSERT INTO item (column_0, column_1, column_2, …)",
        ),
        (
            f"UPDATE item SET {COLUMNS.replace(',', '=1,')}=2 WHERE item.id = $9",
            "UPDATE item SET column_0=1, column_1=1, column_2=1, … WHERE id = $9",
        ),
        (
            "SELECT a.x, (SELECT max(y) FROM b WHERE b.id = a.id) AS y_of_that_a FROM a JOIN b",
            "SELECT … FROM a JOIN b",
        ),
    ],
)
def test_what_decides_is_kept(sql: str, short: str) -> None:
    """Tables, conditions and locks stay; columns and casts go."""
    assert shortened(sql) == short


def test_a_long_one_keeps_its_end() -> None:
    """The lock comes last: it must not be what is cut off."""
    sql = "SELECT a FROM item WHERE " + " AND ".join(f"c{n} = {n}" for n in range(50))
    short = shortened(f"{sql} FOR UPDATE SKIP LOCKED")
    assert len(short) <= SQL_CHARS_MAX
    assert short.startswith("SELECT a FROM item WHERE c0 = 0")
    assert short.endswith("FOR UPDATE SKIP LOCKED")


def test_what_is_written() -> None:
    """Also behind WITH; a lock is no write, and neither is what a conflict leads to."""
    assert written_by("UPDATE item SET n = 1") == {"item"}
    assert written_by("WITH a AS (UPDATE keys SET n = 1) UPDATE users SET m = 2") == {
        "keys",
        "users",
    }
    assert written_by("INSERT INTO item (a) VALUES (1) ON CONFLICT DO UPDATE SET a = 2") == {"item"}
    assert written_by("DELETE FROM item") == {"item"}
    assert written_by("SELECT * FROM item FOR NO KEY UPDATE") == set()
    assert written_by("SELECT * FROM item FOR UPDATE OF item") == set()
    assert tables_of('SELECT * FROM "Item" JOIN other ON true FOR UPDATE') == {"item", "other"}


def test_outcomes() -> None:
    """As a person says them; what is no number of rows stays."""
    assert outcome_text("INSERT 0 1") == "1 row"
    assert outcome_text("SELECT 0") == "0 rows"
    assert outcome_text("UPDATE 1, UPDATE 1") == "1 row"
    assert outcome_text("COMMIT") == "COMMIT"
    assert outcome_text("error 40001 could not serialize") == "error 40001 could not serialize"


def test_questions_inside_of_a_statement_are_left_out() -> None:
    """What is asked for in brackets says less than what is done, and it is not cut in two."""
    asked = "SELECT user_id FROM api_keys WHERE hash = $4 AND (ends IS NULL OR ends > $5)"
    used = "UPDATE api_keys SET at=$2 WHERE hash = $3"
    sql = f"WITH used AS ({used}) UPDATE users SET at=$1 WHERE id = ({asked})"
    assert shortened(sql) == (
        "WITH used AS (UPDATE …) UPDATE users SET at=$1 WHERE id = (SELECT …)"
    )


def test_a_long_one_is_cut_between_words() -> None:
    """`api_keys. … IS NULL` is no SQL that anybody knows."""
    words = [f"column_{n}" for n in range(40)]
    short = shortened("SELECT a FROM item JOIN other ON " + " = ".join(words))
    known = {"SELECT", "a", "FROM", "item", "JOIN", "other", "ON", "=", *words}
    assert set(short.replace(" …", "").split()) <= known


def test_values_stand_where_they_were_given() -> None:
    """`$11` is not `$1`; what is not known stays."""
    assert with_values("a = $1 AND b = $2", ["'x'", "7"]) == "a = 'x' AND b = 7"
    assert with_values("a = $11", ["'x'"]) == "a = $11"
    assert with_values("a = $1", []) == "a = $1"


def test_long_texts_are_cut_and_ids_are_not() -> None:
    """A text is still one, with its quotes; half an id would be none."""
    assert value_text("'draft'") == "'draft'"
    assert value_text(repr("x" * 100)) == repr("x" * (VALUE_CHARS_MAX - 3) + "…")
    assert value_text("0f8fad5b-d9cb-469f-a165-70867728950e").endswith("950e")


def test_which_rows_are_meant() -> None:
    """By `column = $1` and by what is inserted; not by what is set, and not by alternatives."""
    assert rows_meant("SELECT a FROM t WHERE t.b = $1::UUID AND c = $2", ["x", "y"]) == {
        ("t", "b"): {"x"},
        ("t", "c"): {"y"},
    }
    assert rows_meant("UPDATE t SET a=$1 WHERE id = $2", ["x", "y"]) == {("t", "id"): {"y"}}
    either = "SELECT 1 FROM t WHERE id = $1 AND (a IS NULL OR a = $2)"
    assert rows_meant(either, ["x", "y"]) == {("t", "id"): {"x"}}
    assert rows_meant("SELECT 1 FROM t WHERE a = $1 OR b = $2", ["x", "y"]) == {}
    insert = "INSERT INTO t (a, b) VALUES ($2::INTEGER, now()) RETURNING id"
    assert rows_meant(insert, ["x", "y"]) == {("t", "a"): {"y"}}
    insert = "INSERT INTO t (a, b) VALUES ($2::INTEGER, $1) RETURNING id"
    assert rows_meant(insert, ["x", "y"]) == {("t", "a"): {"y"}, ("t", "b"): {"x"}}
    assert rows_meant("INSERT INTO t (a) VALUES ($1), ($2)", ["x", "y"]) == {}
    joined = "SELECT 1 FROM t JOIN u ON t.id = u.id WHERE u.a = $1 AND b = $2"
    assert rows_meant(joined, ["x", "y"]) == {("u", "a"): {"x"}}, "whose `b` it is, is not known"
    assert columns_set("UPDATE t SET a=$1, b = now() WHERE c = $2") == {"a", "b"}
