"""TLS and passwords: `world.postgres(tls=…, password=…)`."""

from __future__ import annotations

import ssl
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import trustme

import foretold
from tests.postgres.driving import check, for_each, on_host
from tests.postgres.scenarios import SCHEMA

AUTHORITY = trustme.CA()
SERVER = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
AUTHORITY.issue_cert("postgres").configure_cert(SERVER)
TRUSTING = ssl.create_default_context()
AUTHORITY.configure_trust(TRUSTING)
SUSPICIOUS = ssl.create_default_context()
"""It knows another authority."""
trustme.CA().configure_trust(SUSPICIOUS)
IN_TLS = "SELECT repeat('x', 300000)"


async def tls_asyncpg(world: foretold.World) -> None:
    """As it is asked for: required, verified, not wanted; and a certificate nobody knows."""
    pg = await world.postgres(schema=SCHEMA, tls=SERVER)
    for asked in ("require", TRUSTING, "prefer", "disable"):
        own = await asyncpg.connect(pg.dsn, ssl=asked)
        is_secure = own._transport.get_extra_info("ssl_object") is not None
        assert is_secure == (asked != "disable")
        assert len(await own.fetchval(IN_TLS)) == 300_000
        await own.execute("INSERT INTO document VALUES ($1, $2)", str(asked)[:9], "x" * 200_000)
        await own.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncpg.connect(pg.dsn, ssl=SUSPICIOUS)
    assert len(pg.sql("SELECT 1 FROM document")) == 4


async def tls_libpq(world: foretold.World) -> None:
    """psycopg and psycopg2, whose TLS is libpq's own."""
    pg = await world.postgres(schema=SCHEMA, tls=SERVER, password="secret")

    def main() -> None:
        with psycopg.connect(pg.dsn, sslmode="require") as own:
            assert own.pgconn.ssl_in_use
            row = own.execute(IN_TLS).fetchone()
            assert row is not None
            assert len(row[0]) == 300_000
            own.cancel_safe()
        other = psycopg2.connect(pg.dsn, sslmode="require")
        assert other.info.ssl_in_use
        other.close()
        with psycopg.connect(pg.dsn, sslmode="disable") as own:
            assert not own.pgconn.ssl_in_use
        with pytest.raises(psycopg.OperationalError, match="certificate"):
            psycopg.connect(pg.dsn, sslmode="verify-full", sslrootcert="system")

    await on_host(world, main)


async def no_tls(world: foretold.World) -> None:
    """Who insists on it is refused by itself; GSS is never to be had."""
    pg = await world.postgres(schema=SCHEMA)
    with pytest.raises(ConnectionError, match="SSL"):
        await asyncpg.connect(pg.dsn, ssl="require")
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        await psycopg.AsyncConnection.connect(pg.dsn, sslmode="require")
    with pytest.raises(psycopg.OperationalError, match="GSS"):
        await psycopg.AsyncConnection.connect(pg.dsn, gssencmode="require")


async def passwords(world: foretold.World) -> None:
    """The address carries it; whoever does not know it is refused in PostgreSQL's words."""
    pg = await world.postgres(schema=SCHEMA, password="s3cr:t@/ü")
    assert pg.dsn == "postgresql://postgres:s3cr%3At%40%2F%C3%BC@postgres:5432/app"
    own = await asyncpg.connect(pg.dsn)
    assert await own.fetchval("SELECT 1") == 1
    await own.close()
    async with await psycopg.AsyncConnection.connect(pg.dsn) as other:
        assert other.pgconn.used_password
    wrong = f"postgresql://{pg.user}:wrong@postgres/app"
    with pytest.raises(asyncpg.InvalidPasswordError) as caught:
        await asyncpg.connect(wrong)
    assert caught.value.sqlstate == "28P01"
    words = 'password authentication failed for user "postgres"'
    assert str(caught.value) == words
    with pytest.raises(psycopg.OperationalError, match=words):
        await psycopg.AsyncConnection.connect(wrong)
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        await psycopg.AsyncConnection.connect(f"postgresql://{pg.user}@postgres/app")
    (step,) = await pg.interleave(("a", "SELECT 1 AS one"))
    assert step.rows[0]["one"] == 1


@for_each(tls_asyncpg, tls_libpq, no_tls, passwords)
def test_access(main) -> None:
    """What each scenario says holds on every tape, and repeats."""
    check(main)


@pytest.mark.parametrize(
    "wrong", [{"tls": True}, {"tls": "cert.pem"}, {"password": ""}, {"password": 5}]
)
def test_wrong_settings(wrong: Any) -> None:
    """The error says what is wanted."""

    async def main(world: foretold.World) -> None:
        await world.postgres(schema=SCHEMA, **wrong)

    with pytest.raises(foretold.UsageError, match=r"world\.postgres"):
        foretold.run(main)
