"""What one fresh process does: run all scenarios on some tapes, and print their digests.

python -m tests.postgres.child SEEDS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import asyncpg

import foretold
from tests.postgres import (
    test_drivers_asyncpg,
    test_drivers_orm,
    test_drivers_psycopg,
    test_protocol,
)
from tests.postgres.scenarios import ALL, DRIVERS, SCHEMA

HAVE_SCENARIOS = (test_drivers_asyncpg, test_drivers_psycopg, test_drivers_orm, test_protocol)


async def planted(world: foretold.World) -> Any:
    """Not one of them: what it selects differs from process to process, and may."""
    pg = await world.postgres(schema=SCHEMA)
    connection = await asyncpg.connect(pg.dsn)
    found = await connection.fetchval("SELECT pg_backend_pid()")
    await connection.close()
    return found


def digests(seeds: int) -> dict[str, str]:
    """One digest for each scenario and seed; and for the planted one."""
    chosen = {**ALL, **DRIVERS, "planted": planted}
    return {
        f"{name} {seed}": foretold.run(main, seed=seed).digest
        for seed in range(seeds)
        for name, main in chosen.items()
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests(int(sys.argv[1]))))
