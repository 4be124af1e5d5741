"""`foretold_postgres` in pytest."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

import foretold
from tests.postgres.scenarios import SCHEMA


@pytest.fixture
def foretold_postgres_schema() -> str:
    """As a user's conftest.py would say it."""
    return SCHEMA


@foretold.simulate(runs=3)
async def test_each_run_has_its_own(world: foretold.World, foretold_postgres: Any) -> None:
    """What one run writes, the next one does not find."""
    connection = await asyncpg.connect(foretold_postgres.dsn)
    try:
        await connection.execute("INSERT INTO document VALUES ('plan', 'ada')")
    finally:
        await connection.close()
    assert [tuple(row) for row in foretold_postgres.sql("SELECT * FROM document")] == [
        ("plan", "ada")
    ]


def test_outside_of_a_run_there_is_none(foretold_postgres: Any) -> None:
    """The error says where it works."""
    with pytest.raises(foretold.UsageError, match="there is no world here"):
        _ = foretold_postgres.dsn
