"""psycopg-pool 3.3.1: a request that gives up during the check goes on instead (psycopg#1401).

Connections are checked before use; some requests give up while they wait or are checked.
"""

import asyncio
import random

from patterns import all_end, pause
from stand_ins import Connection

KIND = "test"
BUGGY = ("psycopg-pool==3.3.1",)
FIXED = ("psycopg-pool==3.3.2",)


async def main() -> None:
    import psycopg_pool

    async def check(connection: Connection) -> None:
        await asyncio.sleep(0.0005)

    pool = psycopg_pool.AsyncConnectionPool(
        "", connection_class=Connection, min_size=2, max_size=2, open=False, check=check
    )
    await pool.open(wait=True)
    gone: set[int] = set()

    async def request(number: int) -> None:
        await pause(0.02)
        async with pool.connection(timeout=20):
            assert number not in gone, "a request runs that was cancelled"
            await pause(0.004)

    tasks = [asyncio.create_task(request(number)) for number in range(6)]

    async def client_disconnects(number: int) -> None:
        await pause(0.03)
        if tasks[number].cancel():
            gone.add(number)

    await asyncio.gather(*map(client_disconnects, random.sample(range(6), 3)))
    await all_end(tasks)
    await pool.close(timeout=1)
