"""Correct programs behind HTTP: clients try again, proxies deliver twice, servers restart."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import fastapi
import fastapi.responses
import httpx

import foretold
from tests.correct.postgres import TRANSIENT
from tests.correct.program import program

ORDERS = "CREATE TABLE orders (id serial PRIMARY KEY, key text UNIQUE, item text NOT NULL);"


@contextlib.asynccontextmanager
async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
    """The application has a pool as long as it is up."""
    pool = asyncpg.create_pool(
        os.environ["DATABASE_URL"], min_size=0, max_size=3, command_timeout=2
    )
    async with pool as app.state.pool:
        yield


shop = fastapi.FastAPI(lifespan=lifespan)


@shop.exception_handler(Exception)
async def unavailable(request: fastapi.Request, error: Exception) -> fastapi.Response:
    """The client may try again."""
    return fastapi.responses.PlainTextResponse("try again", 503)


for kind in TRANSIENT:
    shop.add_exception_handler(kind, unavailable)


@shop.post("/orders")
async def place(item: str, key: str, check: bool = True) -> int:
    """The key makes it one order, however often it is placed; without `check` it does not."""
    async with shop.state.pool.acquire(timeout=2) as db:
        await db.execute(
            "INSERT INTO orders (key, item) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING",
            key if check else None,
            item,
        )
        return int(await db.fetchval("SELECT id FROM orders WHERE item = $1", item))


@program(
    faults=foretold.faults.web + foretold.faults.postgres + foretold.faults.network,
    runs_max=60,
    slow=True,
)
async def web_orders(world: foretold.World, *, broken: bool) -> None:
    """A client that hears nothing places its order again. Broken: the key is not used."""
    async with world.calm():
        pg = await world.postgres(schema=ORDERS)
        web = await world.web(shop, environment={"DATABASE_URL": pg.dsn})

    async def customer(name: str) -> None:
        order: dict[str, str | bool] = {
            "item": f"book for {name}",
            "key": f"key of {name}",
            "check": not broken,
        }
        async with web.client(name) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    answer = await client.post("/orders", params=order)
                    if answer.status_code == 200:
                        return
                await asyncio.sleep(0.2)

    await asyncio.gather(customer("ada"), customer("bob"))
    await world.heal()
    await asyncio.sleep(40)  # late duplicates
    items = sorted(row[0] for row in pg.sql("SELECT item FROM orders"))
    assert items == ["book for ada", "book for bob"]


news = fastapi.FastAPI()
NUMBER = 6


@news.get("/news")
async def stream(after: int) -> fastapi.responses.StreamingResponse:
    """One line for each piece of news after that one."""

    async def lines() -> AsyncIterator[str]:
        for number in range(after + 1, NUMBER + 1):
            yield f"{number}\n"
            await asyncio.sleep(0.05)

    return fastapi.responses.StreamingResponse(lines())


@program(faults=foretold.faults.network + foretold.faults.web, runs_max=60, slow=True)
async def event_stream(world: foretold.World, *, broken: bool) -> None:
    """A stream that breaks is taken up after the last whole line. Broken: from the beginning."""
    async with world.calm():
        web = await world.web(news, through="uvicorn")
    seen: list[int] = []

    async def read(client: Any, after: int) -> None:
        async with client.stream("GET", "/news", params={"after": after}) as response:
            response.raise_for_status()
            half = ""
            async for text in response.aiter_text():
                *lines, half = (half + text).split("\n")
                seen.extend(map(int, lines))

    async with web.client("reader", timeout=1) as client:
        while not seen or seen[-1] < NUMBER:
            with contextlib.suppress(httpx.HTTPError):
                await read(client, seen[-1] if seen and not broken else 0)
            await asyncio.sleep(0.1)
    assert seen == list(range(1, NUMBER + 1))


class Wallet:
    """Vouchers that are redeemed once each, by handlers that run in threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answers: dict[str, str] = {}
        self.left = {"tea": 1, "cake": 2}

    def redeem(self, key: str, voucher: str, *, check: bool) -> str:
        """The key makes it one attempt, however often it is sent. Without `check` it is looked up
        before the lock is taken."""
        if not check and key in self.answers:
            return self.answers[key]
        with self.lock:
            if check and key in self.answers:
                return self.answers[key]
            answer = self.answers[key] = "yes" if self.left[voucher] else "no"
            self.left[voucher] -= answer == "yes"
            return answer


cafe = fastapi.FastAPI()


@cafe.post("/redeem/{voucher}")
def redeem(voucher: str, request: fastapi.Request, check: bool = True) -> dict[str, str]:
    """A plain function: it runs in a thread of the server's pool."""
    wallet: Wallet = cafe.state.wallet
    key = request.headers["Idempotency-Key"]
    return {"redeemed": wallet.redeem(key, voucher, check=check)}


@program(faults=foretold.faults.network + foretold.faults.web, runs_max=100, slow=True)
async def retries_against_threads(world: foretold.World, *, broken: bool) -> None:
    """An httpx client sends each request until it is answered, some twice at once, always with the
    same key. Broken: the server looks for the key before it takes its lock."""
    cafe.state.wallet = Wallet()
    async with world.calm():
        web = await world.web(cafe, through="uvicorn")

    async def redeemed(client: httpx.AsyncClient, key: str, voucher: str) -> str:
        headers = {"Idempotency-Key": key}
        url = f"/redeem/{voucher}"
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = await client.post(url, headers=headers, params={"check": not broken})
                if answer.status_code == 200:
                    return str(answer.json()["redeemed"])
            await asyncio.sleep(0.2)

    async def customer(name: str) -> list[str]:
        async with web.client(name, timeout=1) as client:
            twice = [redeemed(client, f"{name}'s cake", "cake") for _ in range(2)]
            first, second = await asyncio.gather(*twice)
            assert first == second, "one key, two answers"
            return [first, await redeemed(client, f"{name}'s tea", "tea")]

    answers = await asyncio.gather(customer("ada"), customer("bob"))
    assert [cake for cake, _ in answers] == ["yes", "yes"]
    assert sorted(tea for _, tea in answers) == ["no", "yes"]
