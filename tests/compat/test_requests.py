"""requests and urllib3, unmodified: blocking clients in threads, on hosts beside the server's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import requests
import requests.adapters
import urllib3
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

import foretold
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario

THREADS = 4


class Api:
    """A small service of plain `def` code. It knows nothing of the world: FastAPI keeps endpoints
    in caches of the process, and with them all that they refer to."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.ports: list[int] = []
        self.failures = 0
        self.lock = threading.Lock()
        self._add_calls()

    def _add_calls(self) -> None:
        @self.app.get("/peer")
        def peer(request: Request) -> int:
            assert request.client is not None
            with self.lock:
                self.ports.append(request.client.port)
            return request.client.port

        @self.app.get("/flaky")
        def flaky() -> str:
            with self.lock:
                self.failures += 1
                if self.failures % 3:
                    raise HTTPException(503, headers={"Retry-After": "1"})
            return "at last"

        @self.app.get("/slow")
        def slow(seconds: float) -> float:
            time.sleep(seconds)
            return seconds

        @self.app.post("/length")
        async def length(request: Request) -> int:
            return len(await request.body())

        @self.app.get("/rows")
        def rows() -> StreamingResponse:
            return StreamingResponse(self.rows())

    def rows(self) -> Iterator[str]:
        """A body in pieces."""
        for number in range(20):
            time.sleep(0.01)
            yield f"row {number}\n"


class Service:
    """The service on host `api`, and a host for its clients."""

    def __init__(self, world: foretold.World, *, secure: bool = False) -> None:
        self.api = Api()
        self.host, self.client = world.host("api"), world.host("client")
        self.server = uvicorn.Config(self.api.app, host="0.0.0.0", port=80, log_config=None)
        self.server.load()
        if secure:
            self.server.ssl = tls.SERVER

    async def used_by(self, plain: Callable[[], Any]) -> Any:
        """What a plain program on the clients' host gives, once the service listens."""
        self.host.start(uvicorn.Server(self.server).serve)
        await self.host.listening(80)
        return await self.client.start(plain)


def session_of(**pool: Any) -> requests.Session:
    """A session that looks at no file of the machine, and knows its pool's size."""
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", requests.adapters.HTTPAdapter(**pool))
    return session


@scenario
async def sessions(world: foretold.World) -> Any:
    """One session shared by threads: connections are kept and used again, no more than threads."""
    service = Service(world)

    def plain() -> list[int]:
        with (
            session_of(pool_maxsize=THREADS) as session,
            concurrent.futures.ThreadPoolExecutor(THREADS) as pool,
        ):
            calls = [pool.submit(session.get, "http://api/peer") for _ in range(12)]
            return [call.result().json() for call in calls]

    ports = await service.used_by(plain)
    assert sorted(ports) == sorted(service.api.ports)
    assert len(set(ports)) <= THREADS
    return ports


@scenario
async def retries(world: foretold.World) -> None:
    """urllib3's retries, under requests: two failures each, waited for in virtual time."""
    service = Service(world)
    retry = urllib3.Retry(total=20, backoff_factor=0.5, status_forcelist=[503])

    def plain() -> tuple[list[str], float]:
        began = time.monotonic()
        with (
            session_of(max_retries=retry) as session,
            concurrent.futures.ThreadPoolExecutor(2) as pool,
        ):
            calls = [pool.submit(session.get, "http://api/flaky") for _ in range(2)]
            return [call.result().json() for call in calls], time.monotonic() - began

    answers, took_s = await service.used_by(plain)
    assert answers == ["at last", "at last"]
    assert service.api.failures == 6
    assert 2 <= took_s < 10


@scenario
async def timeouts(world: foretold.World) -> None:
    """A timeout to read, one to connect (to a host that is silent, at each of its two addresses),
    and a refused connection."""
    service = Service(world)
    world.host("gone").crash()

    def plain() -> list[str]:
        seen = []
        with session_of() as session:
            for url, limit in (
                ("http://api/slow?seconds=1", 5.0),
                ("http://api/slow?seconds=60", 5.0),
                ("http://gone/", (3.0, 60.0)),
                ("http://api:81/", 5.0),
            ):
                began = time.monotonic()
                try:
                    seen.append(str(session.get(url, timeout=limit).json()))
                except requests.RequestException as error:
                    seen.append(type(error).__name__)
                seen.append(str(round(time.monotonic() - began)))
        return seen

    expected = ["1.0", "1", "ReadTimeout", "5", "ConnectTimeout", "6", "ConnectionError", "0"]
    assert await service.used_by(plain) == expected


@scenario
async def bodies(world: foretold.World) -> None:
    """Large bodies out, streamed bodies in, read line by line while others do the same."""
    service = Service(world)

    def one(session: requests.Session) -> tuple[int, list[str]]:
        sent = session.post("http://api/length", data=b"x" * 300_000).json()
        with session.get("http://api/rows", stream=True) as answer:
            return sent, [line.decode() for line in answer.iter_lines()]

    def plain() -> list[Any]:
        with session_of() as session, concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(one, [session] * 3))

    rows = [f"row {number}" for number in range(20)]
    assert await service.used_by(plain) == [(300_000, rows)] * 3


@scenario
async def pools(world: foretold.World) -> Any:
    """urllib3 alone: a pool that blocks has no more connections than it says."""
    service = Service(world)

    def plain() -> list[int]:
        with (
            urllib3.HTTPConnectionPool("api", maxsize=2, block=True, timeout=9) as pool,
            concurrent.futures.ThreadPoolExecutor(THREADS) as threads,
        ):
            calls = [threads.submit(pool.request, "GET", "/peer") for _ in range(10)]
            return [call.result().json() for call in calls]

    ports = await service.used_by(plain)
    assert len(set(ports)) <= 2
    return ports


@scenario
async def secure(world: foretold.World) -> None:
    """The same over TLS: blocking sockets wrapped by `ssl`."""
    service = Service(world, secure=True)

    def plain() -> list[int]:
        with (
            urllib3.HTTPSConnectionPool("api", port=80, ssl_context=tls.CLIENT) as pool,
            concurrent.futures.ThreadPoolExecutor(2) as threads,
        ):
            calls = [
                threads.submit(pool.request, "POST", "/length", body=b"x" * n) for n in (9, 99)
            ]
            return [call.result().json() for call in calls]

    assert await service.used_by(plain) == [9, 99]


@scenario
async def beside_a_loop(world: foretold.World) -> None:
    """Blocking calls of an async program go to threads; its loop ticks on meanwhile."""
    service = Service(world)

    async def program() -> tuple[list[float], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.1)
                ticks += 1

        ticking = asyncio.create_task(tick())
        with session_of() as session:
            url = "http://api/slow?seconds=2"
            asked = [asyncio.to_thread(session.get, url) for _ in range(3)]
            answers = [answer.json() for answer in await asyncio.gather(*asked)]
        ticking.cancel()
        return answers, ticks

    answers, ticks = await service.used_by(program)
    assert answers == [2, 2, 2]
    assert 15 <= ticks <= 25


@for_each(sessions, retries, timeouts, bodies, beside_a_loop)
def test_requests(main: Any) -> None:
    """What each scenario says holds on every tape."""
    check(main)


@for_each(pools, secure)
def test_urllib3(main: Any) -> None:
    """urllib3 without requests, on every tape."""
    check(main)
