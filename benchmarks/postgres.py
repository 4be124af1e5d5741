"""What the database costs: statements, whole runs of the shop, the start of a run.

Beside each stands the same work on stock asyncio, with a direct connection to the same server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import uvicorn

import foretold
from examples.shop import service, simulation
from examples.shop.model import Base
from foretold.kernel import real
from foretold.services.postgres.cluster import Cluster
from foretold.services.postgres.state import Database

STATEMENTS = 2_000
STARTS = 20
SHOP_PORT = 28_653
SCHEMA = "CREATE TABLE account (id int PRIMARY KEY, balance int);" + (
    "INSERT INTO account SELECT n, 100 FROM generate_series(1, 100) n"
)
SELECT = "SELECT balance FROM account WHERE id = $1"


async def select_all(dsn: str, clock: Callable[[], float]) -> float:
    """How long STATEMENTS selects take, one after the other."""
    connection = await asyncpg.connect(dsn)
    started = clock()
    for number in range(STATEMENTS):
        await connection.fetchval(SELECT, number % 100 + 1)
    taken = clock() - started
    await connection.close()
    return taken


def statements_through_the_gateway() -> float:
    """Per second, in one run."""

    async def main(world: foretold.World) -> float:
        pg = await world.postgres(schema=SCHEMA)
        return await select_all(pg.dsn, real.perf_counter)

    taken: float = foretold.run(main).value
    return STATEMENTS / taken


def statements_direct(database: Database) -> float:
    """Per second, on stock asyncio."""
    return STATEMENTS / asyncio.run(select_all(database.address(), real.perf_counter))


def shop_in_the_world(seed: int) -> None:
    """One whole run: server, application, ten customers."""
    foretold.run(simulation.locked, seed=seed)


async def _shop() -> None:
    config = uvicorn.Config(service.app, port=SHOP_PORT, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    address = f"http://127.0.0.1:{SHOP_PORT}"
    async with httpx.AsyncClient(base_url=address, timeout=60, verify=simulation.SSL) as client:
        people = (f"customer {number}" for number in range(1, simulation.CUSTOMERS + 1))
        await asyncio.gather(*(simulation.buy(client, person) for person in people))
    server.should_exit = True
    await serving


def shop_on_stock(database: Database, side: Any) -> None:
    """The same with real sockets, and a database that is put right before."""
    database.reset()
    side.simple(f"INSERT INTO item VALUES (1, 'lamp', {simulation.PIECES}, 30)")
    service.LOCK_ROWS, service.HONOUR_KEYS = True, False
    asyncio.run(_shop())


def start_ms() -> float:
    """How long it takes until a warm run has its database."""

    async def main(world: foretold.World) -> float:
        began = real.perf_counter()
        pg = await world.postgres(schema=Base.metadata)
        taken = real.perf_counter() - began
        connection = await asyncpg.connect(pg.dsn)
        await connection.execute("INSERT INTO item VALUES (1, 'lamp', 5, 30)")
        await connection.close()
        return taken

    return min(foretold.run(main, seed=seed).value for seed in range(STARTS)) * 1_000


def best(rounds: int, work: Callable[[], float]) -> float:
    """The best rate of several rounds."""
    return max(work() for _ in range(rounds))


def per_second(work: Callable[[], object]) -> float:
    """How often a second `work` can be done."""
    started = real.perf_counter()
    work()
    return 1 / (real.perf_counter() - started)


def measure(rounds: int) -> dict[str, tuple[float, float | None]]:
    """Name → our figure, and that of stock."""
    logging.disable(logging.CRITICAL)
    cluster = Cluster.shared()
    accounts = Database(cluster, "bench_accounts", SCHEMA)
    shop = Database(cluster, "bench_shop", Base.metadata)
    side = cluster.connect(shop.name)
    os.environ["DATABASE_URL"] = shop.address().replace("postgresql:", "postgresql+asyncpg:")
    ours, stock, runs, direct = 0.0, 0.0, 0.0, 0.0
    for number in range(rounds * 3):
        ours = max(ours, statements_through_the_gateway())
        stock = max(stock, statements_direct(accounts))
        runs = max(runs, per_second(lambda number=number: shop_in_the_world(number)))  # type: ignore[misc]  # bound here
        direct = max(direct, per_second(lambda: shop_on_stock(shop, side)))
    figures = {
        "postgres_statements": (ours, stock),
        "postgres_shop_runs": (runs, direct),
        "postgres_start_ms": (start_ms(), None),
    }
    side.close()
    del os.environ["DATABASE_URL"]
    logging.disable(logging.NOTSET)
    return figures


BARS: dict[str, tuple[str, float]] = {
    "postgres_statements": ("ratio", 0.6),
    "postgres_shop_runs": ("ratio", 0.5),
    "postgres_start_ms": ("below", 15.0),
}
SHOP_RUNS_MIN = 12.0


def main() -> None:
    """Measure all, show a table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/postgres.json"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, (mine, theirs) in measure(options.rounds).items():
        how, bar = BARS[name]
        ratio = None if theirs is None else round(mine / theirs, 3)
        met = mine < bar if how == "below" else ratio is not None and ratio >= bar
        if name == "postgres_shop_runs":
            met = met and mine >= SHOP_RUNS_MIN
        figures[name] = {"ours": round(mine, 1), "stock": theirs, "ratio": ratio, "bar": bar}
        figures[name]["met"] = met
        beside = "" if theirs is None else f"  stock {theirs:10.1f}  ratio {ratio}"
        print(f"{name:24}{mine:10.1f}{beside}  bar {bar}{'' if met else '  MISSED'}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
