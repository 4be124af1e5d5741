"""psycopg-pool 3.1.6: a connection is lost with the waiting task that got it (psycopg#503, #509).

Tasks share a small pool; some are cancelled while they wait.
"""

import asyncio

from patterns import all_end, pause, some_give_up
from stand_ins import Connection

KIND = "training"
BUGGY = ("psycopg-pool==3.1.6",)
FIXED = ("psycopg-pool==3.1.7",)


async def main() -> None:
    import psycopg_pool

    pool = psycopg_pool.AsyncConnectionPool(
        "", connection_class=Connection, min_size=2, max_size=2, open=False
    )
    await pool.open(wait=True)

    async def query() -> None:
        await pause(0.005)
        async with pool.connection(timeout=20):
            await pause(0.004)

    tasks = [asyncio.create_task(query()) for _ in range(8)]
    await some_give_up(tasks, 3, 0.015)
    await all_end(tasks)
    await asyncio.sleep(1)
    free = pool.get_stats()["pool_available"]
    await pool.close(timeout=1)
    assert free == 2, f"nobody uses the pool, and {free} of 2 connections are free"
