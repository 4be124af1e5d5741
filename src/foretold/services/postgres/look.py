"""`pg.sql(…)`: a look at the committed state, for the test itself.

It is a session of the server like all others, at the instant of the world at which it is asked, but
it crosses no network. It never waits: for a lock that somebody holds it would wait for ever, since
nobody goes on meanwhile.
"""

from __future__ import annotations

import datetime
import json
import struct
from typing import TYPE_CHECKING

from foretold.errors import PostgresError, UsageError
from foretold.services.postgres import protocol
from foretold.services.postgres.backend import DONE, GONE
from foretold.services.postgres.pool import DISCARD
from foretold.services.postgres.protocol import (
    BIND,
    COPY_FAIL,
    COPY_IN,
    DESCRIBE,
    ERROR,
    EXECUTE,
    PARSE,
    READY,
    SYNC,
    fields_of,
    message,
    text,
)
from foretold.services.postgres.sqltext import only_reads
from foretold.services.postgres.values import Rows, found_in

if TYPE_CHECKING:
    from foretold.services.postgres.backend import Backend
    from foretold.services.postgres.gateway import Gateway


def look(gateway: Gateway, sql: str, values: tuple[object, ...]) -> Rows:
    """The rows of one statement."""
    cluster = gateway.kept.cluster
    cluster.check()
    gateway.tick()
    gateway.show_sessions([sql])
    backend = gateway.pool.take(
        protocol.PROTOCOL_3, {"user": cluster.superuser, "database": gateway.kept.database.name}
    )
    gateway.tick()  # a new process has used up some randomness, one of the pool has not
    seed = protocol.query(f"SELECT setseed({gateway.groups % 1_000 / 1_000})")
    try:
        if only_reads(sql):
            return _rows(_read(gateway, backend, seed, _group(sql, values), sql))
        backend.ask(seed)
        rows = _rows(_ask(gateway, backend, _group(sql, values), sql))
        gateway.telling.looked()
        return rows
    finally:
        gateway.pool.give_back(backend)
        gateway.waits.settle()


def _read(gateway: Gateway, backend: Backend, seed: bytes, group: bytes, sql: str) -> list[bytes]:
    """All at once, with what makes the process as new: most looks are plain queries, and a machine
    makes a hundred in a run."""
    backend.is_clean = False
    backend.send(seed + group + protocol.query(DISCARD))
    parts: list[list[bytes]] = []
    for _ in range(3):
        outcome, messages = backend.read(
            lambda m: m[:1] == READY, lambda: gateway.waits.is_stuck(backend.pid)
        )
        if outcome != DONE:
            raise _unanswered(backend, outcome, sql)
        parts.append(messages)
    backend.is_clean = backend.is_new = not any(each[:1] == ERROR for each in parts[2])
    return parts[1]


def _group(sql: str, values: tuple[object, ...]) -> bytes:
    parameters = b"".join(map(_parameter, values))
    return b"".join(
        (
            message(PARSE, b"\0", text(sql), b"\0\0"),
            message(BIND, b"\0\0\0\0", struct.pack("!h", len(values)), parameters, b"\0\0"),
            message(DESCRIBE, b"P\0"),
            message(EXECUTE, b"\0\0\0\0\0"),
            message(SYNC),
        )
    )


def _parameter(value: object) -> bytes:
    if value is None:
        return struct.pack("!i", -1)
    written = _written(value).encode()
    return struct.pack("!i", len(written)) + written


def _written(value: object) -> str:
    """A value as PostgreSQL reads it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    if isinstance(value, list | tuple):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return _written(value)
    quoted = _written(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _ask(gateway: Gateway, backend: Backend, data: bytes, sql: str) -> list[bytes]:
    backend.is_clean = False
    backend.send(data)
    outcome, messages = backend.read(
        lambda m: m[:1] in (READY, COPY_IN), lambda: gateway.waits.is_stuck(backend.pid)
    )
    if outcome == DONE and messages[-1][:1] == COPY_IN:
        backend.send(message(COPY_FAIL, text("pg.sql brings no data")) + message(SYNC))
        outcome, more = backend.read(lambda m: m[:1] == READY)
        messages += more
    if outcome == DONE:
        backend.is_clean = True
        return messages
    raise _unanswered(backend, outcome, sql)


def _unanswered(backend: Backend, outcome: str, sql: str) -> Exception:
    """Why there is no answer. The process is closed, since it is not clean."""
    if outcome == GONE:
        return PostgresError("the server has ended the session of pg.sql")
    backend.cancel()
    backend.read(lambda m: m[:1] == READY)
    return UsageError(
        f"pg.sql({sql!r}) would have to wait: another session holds a lock that it needs, or it "
        "sleeps. pg.sql reads committed data and never waits. Use a driver, or pg.interleave."
    )


def _rows(messages: list[bytes]) -> Rows:
    for each in messages:
        if each[:1] == ERROR:
            fields = fields_of(each)
            raise PostgresError(fields.get("M", ""), fields.get("C", ""), fields.get("D", ""))
    return found_in(messages)
