"""What clients do to a server, and what they see: programs for all three arms.

Each gets a stage (clients, the application's log, a way to kill the server) and gives back what it
has observed. Nothing here knows on which arm it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.fidelity.web_application import LARGE

LEFT_OUT = ("date", "server")
"""Headers that uvicorn adds, and nobody asks for."""
SHORT_S = 0.05


def seen(response: httpx.Response) -> Any:
    """What of a response matters."""
    headers = [(n, v) for n, v in response.headers.multi_items() if n not in LEFT_OUT]
    return response.status_code, response.reason_phrase, response.http_version, headers


async def outcome(call: Any) -> Any:
    """A response, or the exception that came instead, with its words."""
    try:
        response = await call
    except Exception as error:
        return type(error).__name__, str(error)
    return *seen(response), response.content


async def until(stage: Any, *entries: Any) -> None:
    """Wait until the application has noted these."""
    while not all(entry in stage.log for entry in entries):
        await asyncio.sleep(0.001)


async def scope(stage: Any) -> Any:
    """The scope of requests of several sorts: paths, queries, headers, bodies."""
    async with stage.client(headers={"X-Mine": "ä".encode("latin-1")}) as client:
        answers = [
            await client.get("/scope/a%20b/%E2%82%AC/c%2Fd?x=1&y=%20&z"),
            await client.post("/scope", json={"a": 1}),
            await client.put("/scope?", content=b"x" * 200_000),
            await client.request("PATCH", "/scope", content=pieces(), headers={"a": "1"}),
            await client.delete("/scope/", headers=[("b", "1"), ("b", "2")]),
            await client.options("/scope"),
        ]
        return [stage.without_address(answer.json()) for answer in answers]


async def pieces() -> AsyncIterator[bytes]:
    """A body without a length."""
    for number in range(4):
        yield b"%d" % number * 1_000


async def statuses(stage: Any) -> Any:
    """Status, words and headers of responses; with HEAD as well."""
    async with stage.client() as client:
        codes = (200, 201, 204, 301, 304, 404, 418, 500, 503)
        gets = [await outcome(client.get(f"/status/{code}")) for code in codes]
        heads = [await outcome(client.head(path)) for path in ("/status/200", "/chunks")]
        return gets, heads


async def bodies(stage: Any) -> Any:
    """Bodies in parts and large ones, read at once and in a stream."""
    async with stage.client() as client:
        chunks = await outcome(client.get("/chunks"))
        large = await client.get("/large")
        async with client.stream("GET", "/chunks") as response:
            streamed = b"".join([part async for part in response.aiter_raw()])
        return chunks, seen(large), large.content == b"y" * LARGE, streamed


async def mistakes(stage: Any) -> Any:
    """What a client sees of an application that does it wrong."""
    names = (
        "raises", "raises_later", "raises_chunked", "raises_after", "nothing", "half", "twice",
        "body_first", "too_short",
    )  # fmt: skip
    found = []
    for name in names:
        async with stage.client() as client:
            found.append((name, await outcome(client.get(f"/{name}"))))
    return found, [entry for entry in stage.log if "ASGI" in entry]


async def time_limits(stage: Any) -> Any:
    """A client's own limit, before the response and in the middle of it; the application hears
    that it is gone."""
    async with stage.client(timeout=SHORT_S) as client:
        found = [await outcome(client.get("/never")), await outcome(client.get("/stalls"))]
    while stage.log.count("http.disconnect") < 2:
        await asyncio.sleep(0.001)
    return found


async def leaving(stage: Any) -> Any:
    """A client that leaves in the middle of a body, and one that is cancelled while it waits."""
    async with stage.client() as client:
        async with client.stream("GET", "/endless") as response:
            async for part in response.aiter_raw():
                assert part
                break
        await until(stage, "http.disconnect", "stopped sending")
        stage.log.clear()
        asking = asyncio.create_task(client.get("/never"))
        await until(stage, "waits")
        asking.cancel()
        await until(stage, "http.disconnect")
        return seen(response), asking.cancelled() or "not yet", list(stage.log)


async def background(stage: Any) -> Any:
    """The client has its response before the application returns, and a next request meanwhile."""
    async with stage.client() as client:
        first = await client.get("/background")
        early = list(stage.log)
        second = await outcome(client.get("/status/200"))
        await until(stage, "background")
        return first.content, "background" in early, second, stage.log


async def connections(stage: Any) -> Any:
    """Requests in turn share a connection, those at a time do not."""
    async with stage.client() as client:
        ports = [(await client.get("/port")).content for _ in range(3)]
        asking = asyncio.create_task(client.get("/never"))
        await until(stage, "waits")
        other = (await client.get("/port")).content
        asking.cancel()
        await asyncio.wait([asking])
        await client.get("/raises")
        after = (await client.get("/port")).content
    return len(set(ports)), other in ports, after in [*ports, other]


async def limits(stage: Any) -> Any:
    """No more connections than the client's limits allow: who waits too long for one is told so, in
    turn; and no more are kept, nor longer."""
    few = httpx.Limits(max_connections=1)
    async with stage.client(limits=few, timeout=httpx.Timeout(5, pool=SHORT_S)) as client:
        asking = asyncio.create_task(client.get("/never"))
        await until(stage, "waits")
        found = [await outcome(client.get("/port"))]
        waiting = [asyncio.create_task(client.get("/port")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        asking.cancel()
        await asyncio.wait([*waiting, asking])
        ports = [task.result().content for task in waiting[1:]]
        found.append((waiting[0].cancelled(), ports[0] == ports[1]))
    for kept in (httpx.Limits(max_keepalive_connections=0), httpx.Limits(keepalive_expiry=0.02)):
        async with stage.client(limits=kept) as client:
            ports = [(await client.get("/port")).content for _ in range(3)]
            await asyncio.sleep(SHORT_S)
            found.append((len(set(ports)), (await client.get("/port")).content in ports))
    return found


async def reuse(stage: Any) -> Any:
    """Of several idle connections the oldest is taken; the hundred and first request waits."""
    async with stage.client(timeout=httpx.Timeout(5, pool=SHORT_S)) as client:
        asking = [asyncio.create_task(client.get("/never")) for _ in range(100)]
        while stage.log.count("waits") < 100:
            await asyncio.sleep(0.001)
        found = [await outcome(client.get("/port"))]
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        async with client.stream("GET", "/port") as first, client.stream("GET", "/port") as second:
            old, young = await first.aread(), await second.aread()
        again = [(await client.get("/port")).content for _ in range(2)]
        return found, old != young, again == [old, old]


async def early(stage: Any) -> Any:
    """A body is complete when it has its length. The next request waits for the server."""
    async with stage.client() as client:
        first = await outcome(client.get("/early"))
        before = "ends" in stage.log
        second = (await client.get("/port")).status_code
        return first, before, second, "ends" in stage.log


async def closing(stage: Any) -> Any:
    """A client is closed, with a request in flight and half a response read."""
    client = stage.client()
    asking = asyncio.create_task(outcome(client.get("/never")))
    await until(stage, "waits")
    async with client.stream("GET", "/stalls") as response:
        await client.aclose()
        left = await outcome(response.aread())
    while stage.log.count("http.disconnect") < 2:
        await asyncio.sleep(0.001)
    return await asking, left


async def cookies(stage: Any) -> Any:
    """Each client has cookies of its own."""
    async with stage.client() as one, stage.client() as other:
        return [(await client.get("/cookie")).content for client in (one, one, other)]


async def killed(stage: Any) -> Any:
    """A server that dies with requests in flight, and nobody there afterwards."""
    async with stage.client() as client:
        asking = [
            asyncio.create_task(outcome(client.get("/never"))),
            asyncio.create_task(outcome(client.get("/stalls"))),
        ]
        await until(stage, "waits")
        async with client.stream("GET", "/stalls") as response:
            assert response.status_code == 200
            stage.kill()
            found = [await task for task in asking]
        return found, await outcome(client.get("/port"))


PROGRAMS = (
    scope, statuses, bodies, mistakes, time_limits, leaving, background, connections, limits, reuse,
    early, closing, cookies, killed,
)  # fmt: skip
