"""A function that makes a schema stores the same rows in every process.

A tape is replayed in other processes, and each of them makes the schema anew. Here two databases
stand for two processes: whatever a function asks for by chance, both have the same rows.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import asyncpg
import bcrypt
import psycopg
import pytest

import foretold

TABLE = "create table thing (name text primary key, value text not null)"
ADDED = "insert into thing values ({}, {})"
OF_THE_PROGRAM = random.Random()


def by_chance() -> dict[str, object]:
    """What services store in the rows that they begin with."""
    return {
        "id": uuid.uuid4(),
        "id of the first version": uuid.uuid1(),
        "key": secrets.token_hex(),
        "bytes": os.urandom(8).hex(),
        "made": datetime.datetime.now(datetime.UTC),
        "second": time.time(),
        "number": random.random(),
        "number of a generator": OF_THE_PROGRAM.random(),
        "salt": bcrypt.gensalt(4).decode(),
    }


def plainly(address: str) -> None:
    """With a blocking driver."""
    with psycopg.connect(address) as connection:
        connection.execute(TABLE)
        for name, value in by_chance().items():
            connection.execute(ADDED.format("%s", "%s"), [name, str(value)])


async def with_a_loop(address: str) -> None:
    """With a loop of its own, which may sleep in real time."""
    connection = await asyncpg.connect(address)
    await connection.execute(TABLE)
    await asyncio.sleep(0.001)
    for name, value in by_chance().items():
        await connection.execute(ADDED.format("$1", "$2"), name, str(value))
    await connection.close()


def again(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """Another function, hence another database, which does the same."""
    return lambda address: function(address)


@pytest.mark.parametrize("function", [plainly, with_a_loop])
def test_the_rows_are_those_of_every_process(function: Callable[[str], Any]) -> None:
    """Each of the two is made in another run, from another seed."""

    def rows(seed: int) -> list[Any]:
        schema = again(function)

        async def main(world: foretold.World) -> list[Any]:
            pg = await world.postgres(schema=schema)
            return list(pg.sql("select name, value from thing order by name"))

        return list(foretold.run(main, seed=seed).value)

    first, second = rows(1), rows(2)
    assert len(first) == len(by_chance())
    assert first == second


def test_the_run_has_randomness_of_its_own() -> None:
    """What the function has drawn is not drawn from the run: the run that makes the schema gives
    the same as one that finds it there."""

    async def main(world: foretold.World) -> Any:
        schema: Any = plain
        pg = await world.postgres(schema=schema)
        return random.random(), OF_THE_PROGRAM.random(), uuid.uuid4(), pg.dsn

    plain = again(plainly)
    made = foretold.run(main, seed=3)
    assert foretold.run(main, seed=3).value == made.value
