"""What one fresh process does: run Deep Sci-Fi's machine on some tapes, and print what came of it.

python -m tests.examples.deep_sci_fi_child FIRST SEEDS
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from typing import Any

import foretold
from examples.deep_sci_fi.machine import DeepSciFi
from tests.compat.child import planted

TABLES = """SELECT table_name FROM information_schema.tables
            WHERE table_schema = 'public' ORDER BY table_name"""
Dump = dict[str, list[str]]


def dump_of(pg: Any) -> Dump:
    """All rows of all tables, as PostgreSQL writes them."""
    tables = [row[0] for row in pg.sql(TABLES)]
    return {
        table: sorted(row[0] for row in pg.sql(f"SELECT each::text FROM {table} AS each"))
        for table in tables
    }


class Dumped(DeepSciFi):
    """Shows the whole database when all is over."""

    last: Dump
    """Of the run that ended last."""

    async def teardown(self) -> None:
        await super().teardown()
        type(self).last = dump_of(self.pg)


def seen(seed: int) -> tuple[str, str]:
    """The digest of a run, and one of all that it has left in the database.

    As in searches and replays, the first run of a tape warms up and does not count: it makes what
    the platform makes once in a process (the TLS context of its callbacks, which draws entropy)."""
    foretold.run(Dumped, seed=seed)
    digest = foretold.run(Dumped, seed=seed).digest
    left = json.dumps(Dumped.last, sort_keys=True)
    return digest, hashlib.sha256(left.encode()).hexdigest()


def observed(seeds: range) -> dict[str, tuple[str, str]]:
    """For each tape; and for a program that was made to differ from process to process."""
    runs = {f"seed {seed}": seen(seed) for seed in seeds}
    return runs | {"planted": (foretold.run(planted).digest, "")}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    first, count = map(int, sys.argv[1:])
    sys.stdout.write(json.dumps(observed(range(first, first + count))))
