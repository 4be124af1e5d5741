"""FastAPI, Starlette and anyio with plain `def` code: what they run in worker threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import uvicorn
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException
from fastapi.responses import StreamingResponse

import foretold
from tests.compat.scene import check, for_each, scenario
from tests.compat.test_fastapi import WITHOUT_TLS

STOCK = 3
CLIENTS = 5


class Connection:
    """What a dependency with `yield` hands out, and takes back."""

    def __init__(self, log: list[str], number: int) -> None:
        self.log = log
        self.number = number
        self.thread = threading.current_thread().name
        log.append(f"open {number}")

    def close(self) -> None:
        """Given back, whatever became of the request."""
        self.log.append(f"close {self.number}")


class Shop:
    """A service whose code is plain: it locks, sleeps and blocks as if it were alone."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.left = STOCK
        self.lock = threading.Lock()
        self.app = FastAPI()
        self._add_sales()
        self._add_the_rest()

    def _add_sales(self) -> None:
        def connection(number: int) -> Iterator[Connection]:
            made = Connection(self.log, number)
            try:
                yield made
            finally:
                time.sleep(0.01)
                made.close()

        def price() -> int:
            time.sleep(0.02)
            return 7

        @self.app.post("/buy/{number}")
        def buy(
            number: int,
            tasks: BackgroundTasks,
            used: Connection = Depends(connection),
            cost: int = Depends(price),
        ) -> dict[str, int]:
            assert threading.current_thread() is not threading.main_thread()
            with self.lock:
                if not self.left:
                    raise HTTPException(409, "sold out")
                time.sleep(0.005)  # others wait for the lock meanwhile
                self.left -= 1
            tasks.add_task(self.write_receipt, used.number)
            tasks.add_task(self.send_mail, used.number)
            return {"number": number, "cost": cost}

    def _add_the_rest(self) -> None:
        @self.app.get("/numbers")
        def numbers() -> StreamingResponse:
            return StreamingResponse(self.slow_numbers())

        @self.app.get("/both")
        async def both() -> list[str]:
            found: list[str] = await anyio.to_thread.run_sync(self.ask_the_loop)
            return found

    def write_receipt(self, number: int) -> None:
        """A plain background task, in a thread."""
        time.sleep(0.1)
        self.log.append(f"receipt {number}")

    async def send_mail(self, number: int) -> None:
        """An async one, after it."""
        await asyncio.sleep(0.1)
        self.log.append(f"mail {number}")

    def slow_numbers(self) -> Iterator[str]:
        """A plain generator as a body: each piece is made in a thread."""
        for number in range(4):
            time.sleep(0.05)
            yield f"{number}\n"

    def ask_the_loop(self) -> list[str]:
        """A thread that goes back to the loop, twice."""
        later = anyio.from_thread.run(anyio.sleep, 0.1)
        return [repr(later), anyio.from_thread.run_sync(lambda: threading.current_thread().name)]


async def serve(world: foretold.World, shop: Shop) -> httpx.AsyncClient:
    """The shop on host `shop`, and a client once it listens."""
    host = world.host("shop")
    config = uvicorn.Config(shop.app, host="0.0.0.0", port=80, log_config=None)
    host.start(uvicorn.Server(config).serve)
    await host.listening(80)
    return httpx.AsyncClient(base_url="http://shop", verify=WITHOUT_TLS, trust_env=False)


@scenario
async def endpoints(world: foretold.World) -> Any:
    """Five buyers at once, three pieces: a lock of `threading` keeps the count, each connection is
    opened and closed once, and whoever bought gets a receipt and then a mail."""
    shop = Shop()
    async with await serve(world, shop) as client:
        answers = await asyncio.gather(*(client.post(f"/buy/{n}") for n in range(CLIENTS)))
        await asyncio.sleep(1)
    codes = [answer.status_code for answer in answers]
    assert sorted(codes) == [200] * STOCK + [409] * (CLIENTS - STOCK)
    assert shop.left == 0
    log = shop.log
    bought = [number for number, code in enumerate(codes) if code == 200]
    assert all(answers[n].json() == {"number": n, "cost": 7} for n in bought)
    assert all(log.index(f"open {n}") < log.index(f"close {n}") for n in range(CLIENTS))
    assert all(log.index(f"receipt {n}") < log.index(f"mail {n}") for n in bought)
    assert len(log) == 2 * CLIENTS + 2 * STOCK
    return log


@scenario
async def bodies(world: foretold.World) -> None:
    """Bodies of plain generators, and threads that call the loop, beside each other."""
    shop = Shop()
    async with await serve(world, shop) as client:
        streamed, *asked = await asyncio.gather(
            client.get("/numbers"), *(client.get("/both") for _ in range(3))
        )
    assert streamed.text == "0\n1\n2\n3\n"
    assert [answer.json() for answer in asked] == [["None", "MainThread"]] * 3


@scenario
async def few_workers(world: foretold.World) -> None:
    """anyio's limiter: of many calls only so many run at a time, the others wait their turn."""
    limiter = anyio.CapacityLimiter(2)
    most = now = 0
    lock = threading.Lock()

    def work(number: int) -> int:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(1)
        with lock:
            now -= 1
        return number

    began = anyio.current_time()
    found: list[int] = []

    async def one(number: int) -> None:
        found.append(await anyio.to_thread.run_sync(work, number, limiter=limiter))

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(one, number)
    assert sorted(found) == list(range(6))
    assert most == 2
    assert 3 <= anyio.current_time() - began < 4


@scenario
async def abandoned(world: foretold.World) -> None:
    """A call that is given up goes on in its thread, and its result goes nowhere."""
    ended: list[str] = []

    def work() -> None:
        time.sleep(5)
        ended.append("work")

    with anyio.move_on_after(1) as scope:
        await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    assert scope.cancelled_caught
    assert not ended
    await asyncio.sleep(5)
    assert ended == ["work"]


@scenario
async def portals(world: foretold.World) -> None:
    """A loop in a thread of its own, called from plain code: as test clients do."""

    async def double(number: int) -> int:
        await anyio.sleep(0.1)
        return 2 * number

    def plain() -> list[int]:
        with anyio.from_thread.start_blocking_portal() as portal:
            futures = [portal.start_task_soon(double, n) for n in range(4)]
            return [portal.call(double, 10), *(future.result() for future in futures)]

    assert await asyncio.to_thread(plain) == [20, 0, 2, 4, 6]


@for_each(endpoints, bodies, few_workers, abandoned, portals)
def test_threads_behind_a_loop(main: Any) -> None:
    """What each scenario says holds on every tape."""
    check(main)
