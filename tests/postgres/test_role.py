"""As whom programs log in: a role that owns its database, and no superuser unless it was asked for.

A superuser may read the server's files, start programs and open connections from the server. Those
are the machine's, not the world's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

import foretold
from foretold.errors import PostgresError

SCHEMA = """
    CREATE EXTENSION pgcrypto;
    CREATE ROLE reader;
    CREATE TABLE note (id serial PRIMARY KEY, text text);
    GRANT SELECT ON note TO reader;
    INSERT INTO note (text) VALUES ('a');
"""
OUT_OF_THE_WORLD = {
    "reads a file": "SELECT pg_read_file('/etc/hostname')",
    "lists a directory": "SELECT pg_ls_dir('/')",
    "copies a file": "COPY note (text) FROM '/etc/hostname'",
    "writes a file": "COPY note TO '/tmp/foretold-note'",
    "starts a program": "COPY note (text) FROM PROGRAM 'hostname'",
    "feeds a program": "COPY note TO PROGRAM 'cat > /tmp/foretold-note'",
    "imports a file": "SELECT lo_import('/etc/hostname')",
    "calls other servers": "CREATE EXTENSION dblink",
    "reads files as tables": "CREATE EXTENSION file_fdw",
    "loads a library": "LOAD '/tmp/foretold.so'",
    "changes the server": "ALTER SYSTEM SET work_mem = '77MB'",
    "becomes a superuser": "ALTER ROLE postgres SUPERUSER",
    "makes a superuser": "CREATE ROLE root SUPERUSER",
    "becomes another superuser": "SET ROLE foretold",
}


def result_of(
    work: Callable[[asyncpg.Connection[Any]], Any], schema: str = SCHEMA, **settings: Any
) -> Any:
    """What one session of a program gets."""

    async def main(world: foretold.World) -> Any:
        pg = await world.postgres(schema=schema, **settings)
        connection = await asyncpg.connect(pg.dsn)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return foretold.run(main).value


@pytest.mark.parametrize("way", OUT_OF_THE_WORLD)
def test_there_is_no_way_out(way: str) -> None:
    """The server refuses, in its own words, as it does in production."""

    async def work(connection: asyncpg.Connection[Any]) -> None:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(OUT_OF_THE_WORLD[way])

    result_of(work)


def test_what_an_owner_may_do() -> None:
    """Tables, extensions that are trusted, roles, and ending its own sessions."""

    async def work(connection: asyncpg.Connection[Any]) -> Any:
        await connection.execute("CREATE TABLE other (id int); DROP TABLE note")
        await connection.execute("CREATE EXTENSION hstore; CREATE ROLE writer")
        await connection.execute("GRANT reader TO postgres; SET ROLE reader")
        return await connection.fetchrow(
            "SELECT current_setting('is_superuser'), session_user::text, current_user::text"
        )

    assert tuple(result_of(work)) == ("off", "postgres", "reader")


def test_row_security_is_in_force() -> None:
    """It does not bind a superuser. It binds the owner of a table that forces it."""
    schema = """
        CREATE TABLE note (owner text);
        INSERT INTO note VALUES ('ada'), ('bob');
        ALTER TABLE note ENABLE ROW LEVEL SECURITY;
        ALTER TABLE note FORCE ROW LEVEL SECURITY;
        CREATE POLICY own ON note USING (owner = current_setting('app.name'));
    """

    async def work(connection: asyncpg.Connection[Any]) -> Any:
        await connection.execute("SET app.name = 'ada'")
        return await connection.fetchval("SELECT count(*) FROM note")

    assert result_of(work, schema) == 1


def test_who_asks_is_a_superuser() -> None:
    """`superuser=True`, and both kinds beside one another."""

    async def work(connection: asyncpg.Connection[Any]) -> Any:
        return await connection.fetchval("SELECT current_setting('is_superuser')")

    assert [result_of(work, superuser=wanted) for wanted in (True, False, True)] == [
        "on",
        "off",
        "on",
    ]


def test_a_schema_that_needs_a_superuser_says_what_to_write() -> None:
    """The error of the server, and how to ask for one."""
    with pytest.raises(PostgresError, match="permission denied") as caught:
        result_of(lambda _: None, "CREATE EXTENSION file_fdw")
    assert "superuser=True" in "\n".join(caught.value.__notes__)


def test_foretolds_own_role_is_not_the_programs() -> None:
    """It is there, as the role of a host's operator is, and nobody logs in as it."""

    async def main(world: foretold.World) -> None:
        pg = await world.postgres(schema=SCHEMA)
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="not permitted"):
            await asyncpg.connect(pg.dsn.replace("postgres@", "foretold@"))

    foretold.run(main)
