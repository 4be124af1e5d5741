"""aiosqlite 0.15.0: the result of a cancelled query fails in the loop (omnilib/aiosqlite#80).

Readers of one table; some of them give up. No error may reach the handler of the loop.
"""

import asyncio
from typing import Any

from patterns import all_end, pause, some_give_up

KIND = "test"
BUGGY = ("aiosqlite==0.15.0", "typing_extensions==4.12.2")
FIXED = ("aiosqlite==0.16.0", "typing_extensions==4.12.2")
CHANCE = False


async def main() -> None:
    import aiosqlite

    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, about: errors.append(about))
    async with aiosqlite.connect(":memory:") as database:
        await database.execute("CREATE TABLE stock (name TEXT, amount INTEGER)")
        await database.execute("INSERT INTO stock VALUES ('apple', 3)")

        async def read() -> None:
            await pause(0.01)
            await database.execute("SELECT amount FROM stock")

        tasks = [asyncio.create_task(read()) for _ in range(4)]
        await some_give_up(tasks, 2, 0.012)
        await all_end(tasks)
        await asyncio.sleep(0.1)
    assert not errors, f"the loop reports: {errors[0]['message']}"
