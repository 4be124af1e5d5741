"""psycopg-pool 3.2.1: connections are left open after the pool was closed (psycopg#784).

A service stops while requests are under way.
"""

import asyncio

from patterns import pause
from stand_ins import Connection

KIND = "test"
BUGGY = ("psycopg-pool==3.2.1",)
FIXED = ("psycopg-pool==3.2.2",)


async def main() -> None:
    import psycopg_pool

    made: list[Connection] = []

    class Counted(Connection):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    pool = psycopg_pool.AsyncConnectionPool(
        "", connection_class=Counted, min_size=1, max_size=4, open=False
    )
    await pool.open(wait=True)

    async def query() -> None:
        await pause(0.02)
        try:
            async with pool.connection(timeout=20):
                await pause(0.004)
        except psycopg_pool.PoolClosed:
            pass

    tasks = [asyncio.create_task(query()) for _ in range(8)]
    await pause(0.04)
    await pool.close(timeout=1)
    await asyncio.wait(tasks)
    await asyncio.sleep(5)
    left = sum(not connection.closed for connection in made)
    assert not left, f"the pool is closed, and {left} connections are open"
