"""SQL in a story: short, on one line, and with what decides."""

from __future__ import annotations

import random

import pytest

from foretold.services.postgres.rows import Catalogue, KnownRows, meets, rows_of
from foretold.services.postgres.sqlqueries import queries_of
from foretold.services.postgres.sqlshown import (
    SQL_CHARS_MAX,
    VALUE_CHARS_MAX,
    outcome_text,
    shortened,
    value_text,
)
from foretold.services.postgres.sqltext import read
from foretold.services.postgres.statements import makes_settings
from foretold.trace.events import Cells, Schema, Table

COLUMNS = ", ".join(f"item.column_{n}" for n in range(30))


def test_a_query_in_brackets_is_read_by_itself() -> None:
    """Of each table that it alone reads: its condition, and whether it is a sum."""

    def inside(sql: str) -> dict[str, tuple[bool, list[str]]]:
        (reading,) = read(sql)
        found = queries_of(reading).items()
        return {n[-1]: (q.sums_up, [c.column for c in q.conditions]) for n, q in found}

    count = "(SELECT count(*) FROM s.a WHERE s.a.x = 1)"
    assert inside("SELECT 1 FROM a WHERE (x = 1)") == {}
    assert inside(f"WITH n AS {count} SELECT * FROM b, n WHERE y = 2") == {"a": (True, ["x"])}
    assert inside(f"SELECT y - {count} FROM b") == {"a": (True, ["x"])}
    assert inside(f"SELECT {count} FROM s.a") == {}, "it is read outside of it as well"
    assert inside(f"SELECT {count}, {count}") == {}
    assert inside(f"SELECT (SELECT {count} FROM b)") == {"a": (True, ["x"])}
    assert inside("SELECT (SELECT 1 FROM a WHERE x = 1") == {"a": (False, ["x"])}, "not closed"


@pytest.mark.parametrize(
    ("sql", "short"),
    [
        ("SELECT 1", "SELECT 1"),
        (
            "SELECT shop.item.id, item.n FROM shop.item WHERE shop.item.id = 1",
            "SELECT id, n FROM shop.item WHERE id = 1",
        ),
        (
            'INSERT INTO "shop"."item" (n) VALUES (1) RETURNING "shop"."item".id',
            'INSERT INTO "shop"."item" (n) VALUES (1) RETURNING id',
        ),
        ("SELECT shop.shop.id FROM shop.shop", "SELECT id FROM shop.shop"),
        ("SELECT crm.item.id FROM shop.item", "SELECT crm.item.id FROM shop.item"),
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


def names(sql: str) -> tuple[set[str], set[str]]:
    """The tables that all statements mention, and those that they change."""
    readings = read(sql)
    mentioned = {".".join(name) for each in readings for name in each.tables}
    return mentioned, {".".join(name) for each in readings for name in each.written}


@pytest.mark.parametrize(
    ("sql", "mentioned", "written"),
    [
        ("UPDATE item SET n = 1", "item", "item"),
        ("WITH a AS (UPDATE keys SET n = 1) UPDATE users SET m = 2", "keys users", "keys users"),
        ("INSERT INTO item (a) VALUES (1) ON CONFLICT DO UPDATE SET a = 2", "item", "item"),
        ("DELETE FROM item", "item", "item"),
        ("SELECT * FROM item FOR NO KEY UPDATE", "item", ""),
        ("SELECT * FROM item FOR UPDATE OF item", "item", ""),
        ('SELECT * FROM "Item" JOIN other ON true FOR UPDATE', "Item other", ""),
        ("SELECT * FROM public.orders WHERE id = $1", "public.orders", ""),
        ('UPDATE "shop"."orders" SET qty = 1', "shop.orders", "shop.orders"),
        ("INSERT INTO app.payments (id) VALUES ($1)", "app.payments", "app.payments"),
        ("SELECT extract(epoch from created_at) FROM orders", "orders", ""),
        ("SELECT substring(name from 2), trim(both from x) FROM users", "users", ""),
        ("SELECT a FROM x WHERE a IS NOT DISTINCT FROM b", "x", ""),
        ("SELECT * FROM orders o, items AS i WHERE o.id = i.order_id", "orders items", ""),
        ("SELECT * FROM (a JOIN b ON a.i = b.i), c", "a b c", ""),
        ("SELECT * FROM a CROSS JOIN LATERAL (SELECT 1) x", "a", ""),
        ("SELECT 1 FROM generate_series(1, 3) g, t", "t", ""),
        ("WITH new AS (SELECT 1 FROM old) SELECT * FROM new", "old", ""),
        ("WITH RECURSIVE a (n) AS (SELECT 1), b AS (SELECT n FROM a) SELECT 1 FROM b", "", ""),
        ("SELECT 'copied from backup', $$update x$$ FROM orders -- from here", "orders", ""),
        ("SELECT /* from a /* nested */ from b */ 1 FROM c", "c", ""),
        ("DELETE FROM orders USING items WHERE items.o = orders.id", "orders items", "orders"),
        ("TRUNCATE TABLE orders, only items CASCADE", "orders items", "orders items"),
        ("INSERT INTO t SELECT * FROM u", "t u", "t"),
        ("COPY t (a) FROM STDIN", "t", "t"),
        ("COPY t TO STDOUT", "t", ""),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = 1", "t s", "t"),
        ("BEGIN; UPDATE a SET x = 1; COMMIT", "a", "a"),
        ('SELECT * FROM "order items"', "order items", ""),
    ],
)
def test_which_tables_are_meant(sql: str, mentioned: str, written: str) -> None:
    """Names as they are written, wherever they stand; words in quotes, comments, functions and
    locks are no tables."""
    expected = {"order items"} if mentioned == "order items" else set(mentioned.split())
    assert names(sql) == (expected, set(written.split()))


def test_outcomes() -> None:
    """As a person says them; what is no number of rows stays."""
    assert outcome_text(["INSERT 0 1"]) == "1 row"
    assert outcome_text(["SELECT 0"]) == "0 rows"
    assert outcome_text(["UPDATE 1", "UPDATE 1"]) == "1 row"
    assert outcome_text(["COMMIT"]) == "COMMIT"
    assert outcome_text([], "40001 could not serialize") == "error 40001 could not serialize"


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
    """`$11` is not `$1`; what is not known stays. They are part of what has to fit on the line."""
    assert shortened("SELECT a = $1 AND b = $2", ["'x'", "7"]) == "SELECT a = 'x' AND b = 7"
    assert shortened("SELECT $11", ["'x'"]) == "SELECT $11"
    insert = "INSERT INTO item (a, b) VALUES ($1, $2)"
    assert shortened(insert, ["1", "'x'"]) == "INSERT INTO item (a, b) VALUES (1, 'x')"
    assert shortened(insert, ["1", repr("x" * 90)]) == "INSERT INTO item (a, b)"


def test_long_texts_are_cut_and_ids_are_not() -> None:
    """A text is still one, with its quotes; half an id would be none."""
    assert value_text("'draft'") == "'draft'"
    assert value_text(repr("x" * 100)) == repr("x" * (VALUE_CHARS_MAX - 3) + "…")
    assert value_text("0f8fad5b-d9cb-469f-a165-70867728950e").endswith("950e")


def rows(sql: str, *values: str) -> KnownRows:
    """What is known of the rows of a statement, without a catalogue."""
    (reading,) = read(sql)
    return rows_of(reading, values, None, Catalogue())


def test_which_rows_are_meant() -> None:
    """By `column = value` and by what is inserted; not by what is set, and not by alternatives."""
    assert rows("SELECT a FROM t WHERE t.b = $1::UUID AND c = $2", "x", "y").asked == {
        ("t", "b"): {"x"},
        ("t", "c"): {"y"},
    }
    assert rows("UPDATE t SET a=$1 WHERE id = $2", "x", "y").asked == {("t", "id"): {"y"}}
    either = "SELECT 1 FROM t WHERE id = $1 AND (a IS NULL OR a = $2)"
    assert rows(either, "x", "y").asked == {("t", "id"): {"x"}}
    assert rows("SELECT 1 FROM t WHERE a = $1 OR b = $2", "x", "y").asked == {}
    assert rows("SELECT 1 FROM t x WHERE x.a IN (1, '2', $1)", "3").asked == {
        ("t", "a"): {"1", "2", "3"}
    }
    insert = "INSERT INTO t (a, b) VALUES ($2::INTEGER, now()) RETURNING id"
    assert rows(insert, "x", "y").asked == {("t", "a"): {"y"}}
    insert = "INSERT INTO t (a, b) VALUES ($2::INTEGER, 'it''s') RETURNING id"
    assert rows(insert, "x", "y").asked == {("t", "a"): {"y"}, ("t", "b"): {"it's"}}
    assert rows("INSERT INTO t (a) VALUES ($1), ($2)", "x", "y").asked == {("t", "a"): {"x", "y"}}
    joined = "SELECT 1 FROM t JOIN u ON t.id = u.id WHERE u.a = $1 AND b = $2"
    assert rows(joined, "x", "y").asked == {("u", "a"): {"x"}}, "whose `b` it is, is not known"
    assert rows("UPDATE t SET a=$1, b = now() WHERE c = $2", "1", "2").sets == {"a", "b"}
    assert rows("SELECT 1 FROM t WHERE a = $1", "…").asked == {}, "a value that is not shown"


TABLES = Schema(0, "db", "", tables={7: Table("public", "t", {1: "id", 2: "name"}, (("id",),))})


def met(read_sql: str, write_sql: str, *found: str) -> bool | None:
    """Whether a read met a write; `found` are the ids that the server has answered to the read."""
    catalogue = Catalogue([TABLES])
    cells = Cells(columns=((7, 1),), rows=tuple((each,) for each in found)) if found else None
    asked, changed = read(read_sql)[0], read(write_sql)[0]
    return meets(rows_of(asked, (), cells, catalogue), rows_of(changed, (), None, catalogue), "t")


def test_rows_are_compared_by_what_both_sides_know() -> None:
    """By conditions, and by what the server has answered. What cannot be compared is not known."""
    rename = "UPDATE t SET name = 'x' WHERE id = 2"
    assert met("SELECT name FROM t WHERE id = 1", rename) is False
    assert met("SELECT name FROM t WHERE id = 2", rename) is True
    assert met("SELECT name FROM t", rename) is True, "it reads all rows"
    assert met("SELECT id, age FROM t WHERE key = 'a'", rename) is False, "not what was changed"
    assert met("SELECT * FROM t WHERE key = 'a'", rename) is None
    assert met("SELECT * FROM t WHERE key = 'a'", rename, "1") is False, "the server said: row 1"
    assert met("SELECT * FROM t WHERE key = 'a'", rename, "1", "2") is True
    assert met("SELECT * FROM t WHERE name = 'x'", rename, "1") is True, "it would find row 2 now"
    assert met("SELECT * FROM t WHERE name = 'y'", rename, "1") is None, "was it called so before?"
    insert = "INSERT INTO t (id, name) VALUES (3, 'x')"
    assert met("SELECT * FROM t WHERE name = 'x'", insert, "1") is True, "a new row to be found"
    assert met("SELECT * FROM t WHERE name = 'y'", insert) is False


def test_a_column_that_is_no_key_tells_no_row() -> None:
    """The server says which columns are keys. Two statements about `name = 'x'` may mean two rows,
    unless the read asks for all that are called so."""
    change = "UPDATE t SET n = 1 WHERE name = 'x'"
    assert met("SELECT n FROM t WHERE name = 'x' AND age > 3", change) is None
    assert met("SELECT n FROM t WHERE name = 'x'", change) is True
    by_key = "UPDATE t SET n = 1 WHERE id = 2"
    assert met("SELECT n FROM t WHERE id = 2 AND age > 3", by_key) is True


PIECES = (
    "select", "insert", "into", "update", "delete", "from", "where", "set", "values", "(", ")", ",",
    ";", ".", "*", "=", "::", "$1", "'a'", "'b", '"', '"q"', "--", "/*", "*/", "$$", "$t$", "and",
    "or", "in", "any", "as", "with", "join", "on", "using", "for", "share", "key", "limit",
    "returning", "truncate", "table", "copy", "merge", "do", "conflict", "int[]", "varchar(3)", "5",
    "-1", "1.5e3", "E'x\\''", "U&'z'", "t", "u", "é", "∑", "\n",
)  # fmt: skip


def test_no_text_is_too_odd() -> None:
    """A program may send anything: quotes without end, half a comment, half a statement. The server
    complains of it; we must not."""
    chance = random.Random(1)
    for number in range(1_500):
        pieces = [chance.choice(PIECES) for _ in range(chance.randrange(18))]
        sql = ("" if number % 5 == 0 else " ").join(pieces)
        for each in read(sql):
            rows_of(each, ["1"], None, Catalogue())
        assert "\n" not in shortened(sql, ["1"], 20)
        assert makes_settings(sql) in (True, False)
