"""uvicorn, FastAPI and httpx, unmodified: what an HTTP service and its clients rely on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn
import websockets
from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

import foretold
from tests.compat import tls
from tests.compat.scene import check, for_each, scenario

CHUNK = b"0123456789abcdef" * 512
CHUNKS = 24
WITHOUT_TLS = httpx.create_ssl_context(verify=False)
"""Made once: `httpx.AsyncClient()` would load the authorities' file each time."""


def application(log: list[str]) -> FastAPI:
    """A small service that notes what happens to it."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        log.append("startup")
        yield
        log.append("shutdown")

    app = FastAPI(lifespan=lifespan)

    @app.get("/peer")
    async def peer(request: Request) -> dict[str, Any]:
        assert request.client is not None
        return {"host": request.client.host, "port": request.client.port}

    @app.get("/slow/{number}")
    async def slow(number: int) -> dict[str, int]:
        await asyncio.sleep(0.1 * (number % 4))
        return {"number": number}

    @app.post("/size")
    async def size(request: Request) -> dict[str, int]:
        return {"size": sum([len(piece) async for piece in request.stream()])}

    @app.get("/chunks")
    async def chunks() -> StreamingResponse:
        return StreamingResponse(pieces(), media_type="application/octet-stream")

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def until_gone() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield CHUNK
                    await asyncio.sleep(0.05)
            finally:
                log.append("client gone")

        return StreamingResponse(until_gone())

    @app.get("/events")
    async def events() -> StreamingResponse:
        async def each_second() -> AsyncIterator[str]:
            for number in range(5):
                yield f"id: {number}\ndata: tick {number}\n\n"
                await asyncio.sleep(1)

        return StreamingResponse(each_second(), media_type="text/event-stream")

    @app.websocket("/shout")
    async def shout(socket: WebSocket) -> None:
        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await socket.send_text((await socket.receive_text()).upper())
        log.append("socket closed")

    return app


async def pieces() -> AsyncIterator[bytes]:
    """A body whose length is not told beforehand."""
    for _ in range(CHUNKS):
        yield CHUNK
        await asyncio.sleep(0.001)


class Service:
    """The service on host `api`, and clients for it: with TLS or without."""

    def __init__(self, world: foretold.World, *, secure: bool = False) -> None:
        self.log: list[str] = []
        self.secure = secure
        self.host = world.host("api")
        config = uvicorn.Config(application(self.log), host="0.0.0.0", port=8000, log_config=None)
        config.load()
        if secure:
            config.ssl = tls.SERVER
        self.server = self.host.start(uvicorn.Server(config).serve)
        self.url = f"{'https' if secure else 'http'}://api:8000"

    async def client(self) -> httpx.AsyncClient:
        """Once the service listens."""
        await self.host.listening(8000)
        verify = tls.CLIENT if self.secure else WITHOUT_TLS
        return httpx.AsyncClient(base_url=self.url, verify=verify, trust_env=False)

    async def stop(self) -> None:
        """As SIGTERM does; uvicorn then ends by itself."""
        await self.host.stop()
        assert (self.log[0], self.log[-1]) == ("startup", "shutdown")
        assert self.server.done()


async def keep_alive_of(service: Service) -> None:
    """Requests in turn share one connection; after five idle seconds uvicorn closes it."""
    async with await service.client() as client:
        ports = [(await client.get("/peer")).json()["port"] for _ in range(4)]
        await asyncio.sleep(7)
        ports.append((await client.get("/peer")).json()["port"])
    assert len(set(ports[:4])) == 1
    assert ports[4] != ports[3]
    await service.stop()


async def concurrency_of(service: Service) -> None:
    """Twelve requests at a time take as long as the longest of them."""
    loop = asyncio.get_running_loop()
    async with await service.client() as client:
        start = loop.time()
        answers = await asyncio.gather(*(client.get(f"/slow/{n}") for n in range(12)))
        assert [answer.json()["number"] for answer in answers] == list(range(12))
        assert 0.3 < loop.time() - start < 1.0
    await service.stop()


async def streaming_of(service: Service) -> None:
    """Bodies of unknown length, both ways, arrive whole."""
    async with await service.client() as client:
        sent = await client.post("/size", content=pieces())
        assert sent.json() == {"size": CHUNKS * len(CHUNK)}
        async with client.stream("GET", "/chunks") as response:
            got = b"".join([piece async for piece in response.aiter_bytes()])
        assert got == CHUNK * CHUNKS
    await service.stop()


async def events_of(service: Service) -> None:
    """Server-sent events arrive one by one, as they are sent."""
    loop = asyncio.get_running_loop()
    async with await service.client() as client:
        start, seen = loop.time(), []
        async with client.stream("GET", "/events") as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    seen.append((line, round(loop.time() - start)))
    assert seen == [(f"data: tick {n}", n) for n in range(5)]
    await service.stop()


async def websocket_of(service: Service) -> None:
    """A websocket through FastAPI, closed by the client."""
    await (await service.client()).aclose()
    url = service.url.replace("http", "ws", 1) + "/shout"
    ssl = tls.CLIENT if service.secure else None
    async with websockets.connect(url, ssl=ssl, proxy=None) as socket:
        for word in ("one", "two", "three"):
            await socket.send(word)
            assert await socket.recv() == word.upper()
    await service.stop()
    assert "socket closed" in service.log


async def disconnect_of(service: Service) -> None:
    """A client that goes away in the middle of a body ends the generator that makes it."""
    async with await service.client() as client:
        async with client.stream("GET", "/endless") as response:
            async for piece in response.aiter_bytes():
                assert piece
                break
        await asyncio.sleep(1)
        assert "client gone" in service.log
    await service.stop()


async def shutdown_of(service: Service) -> None:
    """On SIGTERM uvicorn finishes the request it is at, then nobody listens any more."""
    async with await service.client() as client:
        request = asyncio.create_task(client.get("/slow/3"))
        await asyncio.sleep(0.1)
        await service.stop()
        assert (await request).json() == {"number": 3}
        await asyncio.sleep(0.1)  # until the client has seen that its connection was closed
        with pytest.raises(httpx.ConnectError):
            await client.get("/peer")


PARTS = (
    keep_alive_of,
    concurrency_of,
    streaming_of,
    events_of,
    websocket_of,
    disconnect_of,
    shutdown_of,
)


def scenario_of(part: Any, *, secure: bool) -> Any:
    """One of the parts above as a scenario, over http or https."""

    async def main(world: foretold.World) -> None:
        await part(Service(world, secure=secure))

    main.__name__ = part.__name__.removesuffix("_of") + ("_https" if secure else "")
    return scenario(main)


LOGS: list[list[str]] = []
"""What services saw that outlived their scenario."""


@scenario
async def left_open(world: foretold.World) -> None:
    """The run ends in the middle of everything: a request, server-sent events and a websocket, each
    of another host. Nobody closes anything by himself."""
    service = Service(world)
    LOGS.append(service.log)
    await service.host.listening(8000)

    async def reader() -> None:
        async with await service.client() as own, own.stream("GET", "/events") as response:
            async for line in response.aiter_lines():
                assert line is not None

    async def talker() -> None:
        async with websockets.connect(
            service.url.replace("http", "ws") + "/shout", proxy=None
        ) as w:
            while True:
                await w.send("word")
                await asyncio.sleep(0.1)
                assert await w.recv() == "WORD"

    async def asker() -> None:
        async with await service.client() as own:
            await own.get("/slow/3")

    for main in (reader, talker, asker):
        world.host(main.__name__).start(main)
    await asyncio.sleep(0.25)


PLAIN = [scenario_of(part, secure=False) for part in PARTS]
SECURE = [scenario_of(part, secure=True) for part in PARTS]


@for_each(*PLAIN)
def test_http(main: Any) -> None:
    """What each part says holds over HTTP on every tape."""
    check(main)


@for_each(*SECURE)
def test_https(main: Any) -> None:
    """The same with TLS on both sides, as httpx and uvicorn do it."""
    check(main)


def test_http_left_open() -> None:
    """At the end of the run clients are cancelled, and uvicorn shuts down as it does in production:
    it is not killed, on any tape."""
    LOGS.clear()
    check(left_open)
    assert {(log[0], log[-1]) for log in LOGS} == {("startup", "shutdown")}
    assert all("socket closed" in log for log in LOGS)
