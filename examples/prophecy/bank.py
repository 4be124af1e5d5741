"""A bank with a mistake, and without: found by the serial oracle, with no invariant written down.

foretold explore examples.prophecy.bank:withdraw_twice
foretold explore examples.prophecy.bank:locked_twice
"""

import asyncpg

import foretold

SCHEMA = """
create table account (name text primary key, balance int not null);
create table movement (id int generated always as identity, name text, amount int);
insert into account values ('ada', 100);
"""


async def withdraw(dsn: str, amount: int, *, lock: str = "") -> str:
    """The balance is read, and written later: two at once overdraw, or one of them is lost."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            asked = f"select balance from account where name = 'ada' {lock}"
            balance = await connection.fetchval(asked)
            if balance < amount:
                return "refused"
            changed = "update account set balance = $1 where name = 'ada'"
            await connection.execute(changed, balance - amount)
            noted = "insert into movement (name, amount) values ('ada', $1)"
            await connection.execute(noted, -amount)
            return "paid"
    finally:
        await connection.close()


async def withdraw_twice(world: foretold.World) -> None:
    pg = await world.postgres(schema=SCHEMA)
    await foretold.serially(pg, lambda: withdraw(pg.dsn, 60), lambda: withdraw(pg.dsn, 60))


async def locked_twice(world: foretold.World) -> None:
    """The same, with the row locked from the read on."""
    pg = await world.postgres(schema=SCHEMA)

    async def locked() -> str:
        return await withdraw(pg.dsn, 60, lock="for update")

    await foretold.serially(pg, locked, locked)
