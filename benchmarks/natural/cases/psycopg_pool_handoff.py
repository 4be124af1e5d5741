"""psycopg-pool 3.3.0: a cancelled request gets its connection all the same (psycopg/psycopg#1275).

Six requests share one connection; three clients go away while theirs waits.
"""

import asyncio
import random

from patterns import all_end, pause
from stand_ins import Connection

KIND = "five"
BUGGY = ("psycopg-pool==3.3.0",)
FIXED = ("psycopg-pool==3.3.3",)


async def main() -> None:
    import psycopg_pool

    pool = psycopg_pool.AsyncConnectionPool(
        "", connection_class=Connection, min_size=1, max_size=1, open=False
    )
    await pool.open(wait=True)
    begun: set[int] = set()
    gone: set[int] = set()
    wrong: set[int] = set()

    async def request(number: int) -> None:
        async with pool.connection(timeout=20):
            wrong.update(gone & {number})
            begun.add(number)
            await pause(0.003)

    async def goes_away(number: int) -> None:
        await pause(0.015)
        if number not in begun and tasks[number].cancel():
            gone.add(number)

    tasks = [asyncio.create_task(request(number)) for number in range(6)]
    await asyncio.gather(*map(goes_away, random.sample(range(6), 3)))
    await all_end(tasks)
    await pool.close(timeout=1)
    assert not wrong, "a request was cancelled before it had a connection, and runs"
