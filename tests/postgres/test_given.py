"""The values that clients give with statements, as stories show them."""

from __future__ import annotations

import datetime
import struct
import uuid
from typing import Any

import asyncpg
import psycopg
import pytest

import foretold
from foretold.services.postgres.given import TEXT_CHARS_MAX, given_in
from foretold.tape import Tape
from foretold.trace.events import Executed
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings

ID = uuid.UUID("00000004-0000-4000-8000-000000000001")


def bind(*values: bytes | None, formats: tuple[int, ...] = (1,)) -> bytes:
    """That part of a Bind message."""
    parts = [struct.pack(f"!h{len(formats)}h", len(formats), *formats)]
    parts.append(struct.pack("!h", len(values)))
    for value in values:
        parts.append(struct.pack("!i", -1 if value is None else len(value)) + (value or b""))
    return b"".join(parts)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (b"draft", 1043, "'draft'"),
        (b"x" * 1000, 25, repr("x" * (TEXT_CHARS_MAX - 1) + "…")),
        (struct.pack("!i", -7), 23, "-7"),
        (struct.pack("!q", 1 << 40), 20, str(1 << 40)),
        (struct.pack("!d", 0.5), 701, "0.5"),
        (b"\1", 16, "true"),
        (ID.bytes, 2950, str(ID)),
        (b'\1{"fire": 1}', 3802, "'{\"fire\": 1}'"),
        (struct.pack("!q", 86_400_000_000), 1184, "'2000-01-02 00:00:00'"),
        (struct.pack("!q", (1 << 63) - 1), 1184, "…"),
        (b"\0\0\0\1", 1700, "…"),
        (b"short", 2950, "…"),
        (None, 25, "NULL"),
    ],
)
def test_a_value_is_told_by_its_type(value: bytes | None, kind: int, shown: str) -> None:
    """As PostgreSQL would write it; what cannot be told in a few words is `…`, and nothing that a
    client may send is an error here."""
    assert given_in(bind(value), 0, [kind]) == (shown,)


def test_texts_and_unknown_types() -> None:
    """A format for each value, or one for all, or none; a number in text is no text."""
    assert given_in(bind(b"7", b"7", formats=()), 0, [23, 25]) == ("7", "'7'")
    assert given_in(bind(b"7", b"\1", formats=(0, 1)), 0, [0, 16]) == ("'7'", "true")
    assert given_in(bind(b"\0\1"), 0, []) == ("…",)


async def with_asyncpg(dsn: str) -> None:
    """In binary, of types that it has asked the server for."""
    client = await asyncpg.connect(dsn)
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    await client.execute("INSERT INTO thing VALUES ($1, $2, $3)", ID, "new", when)
    await client.close()


async def with_psycopg(dsn: str) -> None:
    """As texts, of types that it knows itself."""
    async with await psycopg.AsyncConnection.connect(dsn) as client:
        when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        await client.execute("INSERT INTO thing VALUES (%s, %s, %s)", (ID, "new", when))


@pytest.mark.parametrize("use", [with_asyncpg, with_psycopg])
def test_the_events_of_a_run_have_them(use: Any) -> None:
    """Of real drivers; a run without detail, where nothing is kept, has the same digest."""
    schema = "CREATE TABLE thing (id uuid, status text, at timestamptz)"

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=schema)
        await use(pg.dsn)

    tape, settings = Tape.seeded(1, {"order": "any"}), Settings.from_tape({"order": "any"})
    done = execute(bind_main(main), tape, settings, detail=True)
    assert done.error is None, done.error
    (insert,) = (e for e in done.trace.events if isinstance(e, Executed) and "INSERT" in e.sql)
    assert insert.values[:2] == (str(ID), "'new'")
    assert insert.values[2].startswith("'2026-01-01 00:00:00")
    assert execute(bind_main(main), tape, settings).digest == done.digest
