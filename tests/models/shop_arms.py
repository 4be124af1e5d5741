"""Three races of the shop, written once and run on two arms: the real PostgreSQL and the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

import foretold
from foretold.models import FakePg, at, plus, to

ROWS = {"basket": 0, "charged": 0, "lamp": 1, "sold": 0, "visits": 0}
SCHEMA = "create table t (id text primary key, v int not null);" + "".join(
    f"insert into t values ('{key}', {value});" for key, value in ROWS.items()
)


class RealSession:
    """A connection of asyncpg with the methods of the fake's session."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def select(self, where: Any) -> Any:
        return await self._rows(where, "")

    async def lock(self, where: Any) -> Any:
        return await self._rows(where, "for update")

    async def _rows(self, where: Any, how: str) -> Any:
        sql = f"select id, v from t where {where.sql} order by id {how}"
        return tuple(map(tuple, await self._connection.fetch(sql)))

    async def update(self, where: Any, change: Any) -> int:
        sql = f"update t set v = {change.sql} where {where.sql}"
        return int((await self._connection.execute(sql)).rpartition(" ")[2])


class RealPg:
    """The real server, as the fake is used."""

    def __init__(self, pg: Any) -> None:
        self._pg = pg

    def rows(self) -> dict[str, int]:
        return {row[0]: row[1] for row in self._pg.sql("select id, v from t order by id")}

    @asynccontextmanager
    async def transaction(self, name: str) -> AsyncIterator[RealSession]:
        connection = await asyncpg.connect(self._pg.dsn)
        try:
            async with connection.transaction():
                yield RealSession(connection)
        finally:
            await connection.close()


async def fake_arm(world: Any) -> Any:
    """The model instead of the server."""
    return FakePg("read committed", ROWS)


async def real_arm(world: Any) -> Any:
    """The server itself."""
    return RealPg(await world.postgres(schema=SCHEMA))


async def buy(shop: Any, who: str, *, locks: bool) -> None:
    """Oversell: the stock is read, and written later."""
    async with shop.transaction(who) as t:
        ((_, left),) = await (t.lock if locks else t.select)(at("lamp"))
        if left > 0:
            await t.update(at("lamp"), to(left - 1))
            await t.update(at("sold"), plus(1))


async def pay(shop: Any, who: str, *, locks: bool) -> None:
    """Double charge: whether the basket was paid is looked up, and noted later."""
    async with shop.transaction(who) as t:
        ((_, paid),) = await (t.lock if locks else t.select)(at("basket"))
        if not paid:
            await t.update(at("basket"), to(1))
            await t.update(at("charged"), plus(30))


async def visit(shop: Any, who: str, *, locks: bool) -> None:
    """Lost counter: it is read, and written later."""
    async with shop.transaction(who) as t:
        ((_, visits),) = await (t.lock if locks else t.select)(at("visits"))
        await t.update(at("visits"), to(visits + 1))


RIGHT: dict[str, tuple[Callable[..., Awaitable[None]], dict[str, int]]] = {
    "oversell": (buy, {"lamp": 0, "sold": 1}),
    "double charge": (pay, {"charged": 30}),
    "lost counter": (visit, {"visits": 2}),
}


def race(arm: Any, name: str, *, locks: bool) -> Any:
    """Two customers at once, and how the table has to look in the end."""
    work, expected = RIGHT[name]

    async def main(world: Any) -> None:
        shop = await arm(world)
        await foretold.together(work(shop, "ada", locks=locks), work(shop, "bob", locks=locks))
        rows = shop.rows()
        assert {key: rows[key] for key in expected} == expected

    return main


def several(arm: Any) -> Any:
    """Three customers, of whom each looks and buys twice: twelve transactions."""

    async def main(world: Any) -> None:
        shop = await arm(world)

        async def customer(name: str) -> None:
            for _ in range(2):
                await visit(shop, name, locks=True)
                await buy(shop, name, locks=True)

        await foretold.together(*map(customer, ("ada", "bob", "cleo")))
        assert shop.rows()["visits"] == 6

    return main
