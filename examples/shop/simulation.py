"""Ten customers, five pieces: does the shop sell what it does not have, or charge twice?

foretold explore examples.shop.simulation:overselling
foretold explore examples.shop.simulation:charged_twice
foretold explore examples.shop.simulation:overselling_with_threads
"""

from collections.abc import Callable, Coroutine
from typing import Any

import httpx

import foretold
from examples.shop import service, sync_service
from examples.shop.model import Base

PIECES = 5
CUSTOMERS = 10
Main = Callable[[foretold.World], Coroutine[Any, Any, None]]
SSL = httpx.create_ssl_context()
"""Made once: to read the world's certificates takes longer than a purchase."""


async def open_shop(world: foretold.World) -> Any:
    """The shop on its host, its database on another one, and something on the shelves."""
    pg = await world.postgres(schema=Base.metadata)
    pg.sql("INSERT INTO item VALUES (1, 'lamp', $1::int, 30)", PIECES)
    driver, app = ("psycopg", sync_service.app) if THREADS else ("asyncpg", service.app)
    api = world.host("api", environment={"DATABASE_URL": pg.url(driver)})
    api.serve(app)
    await api.listening(8000)
    return pg


def customer() -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url="http://api:8000", timeout=60, verify=SSL)


async def buy(client: httpx.AsyncClient, customer: str, key: str | None = None) -> int:
    """One purchase; the status tells how it went."""
    headers = {"idempotency-key": key} if key else {}
    wish = {"item": 1, "customer": customer}
    try:
        return (await client.post("/checkout", json=wish, headers=headers)).status_code
    except httpx.TransportError:
        return 503


async def rush(world: foretold.World) -> None:
    """Everybody wants a lamp at the same time."""
    pg = await open_shop(world)
    async with customer() as client:
        people = (f"customer {number}" for number in range(1, CUSTOMERS + 1))
        codes = await foretold.together(*(buy(client, person) for person in people))
    orders, stock = pg.sql('SELECT (SELECT count(*) FROM "order"), stock FROM item')[0]
    foretold.always(set(codes) <= {200, 409}, "every customer gets an answer", codes=codes)
    foretold.always(
        orders == PIECES - stock and orders <= PIECES,
        "no more is sold than there was",
        pieces=PIECES,
        orders=orders,
        left=stock,
    )


async def retry(world: foretold.World) -> None:
    """A customer whose purchase failed, as far as they can see, tries again."""
    pg = await open_shop(world)
    when = foretold.choose(["lost_before_commit", "lost_after_commit"], "when the connection dies")
    pg.fail_next(when)
    async with customer() as client:
        while await buy(client, "ada", key="basket 1") >= 500:
            pass
    charges = pg.sql("SELECT count(*) FROM charge")[0][0]
    foretold.always(charges == 1, "one basket is charged once", charges=charges)


THREADS = False


def _with(main: Main, *, rows: bool = False, keys: bool = False, threads: bool = False) -> Main:
    async def run(world: foretold.World) -> None:
        global THREADS
        service.LOCK_ROWS, service.HONOUR_KEYS, THREADS = rows, keys, threads
        await main(world)

    run.__name__ = run.__qualname__ = main.__name__
    return run


overselling = _with(rush)
locked = _with(rush, rows=True)
charged_twice = _with(retry, rows=True)
charged_once = _with(retry, rows=True, keys=True)
overselling_with_threads = _with(rush, threads=True)
locked_with_threads = _with(rush, rows=True, threads=True)
