"""What the tests of web frameworks share: what a small application does, and clients that look.

Each framework's own file has the application, written as its users write it. All offer the same:

    GET  /me        who asks: the address, and the name behind the token; 401 without one
    POST /notes     adds a note; what is committed after the response is in `NOTES` a little later
    GET  /count     how many notes there are; a plain (not async) function where there are such
    GET  /stream    five parts
    GET  /fails     raises
    GET  /slow      takes a second

A limiter lets each address ask so often in so many seconds, by `time.monotonic`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx

import foretold
from tests.compat.scene import scenario

TOKENS = {"token-a": "ada", "token-b": "bob"}
NOTES: list[str] = []
EVENTS: list[str] = []
LIMIT, WINDOW_S = 40, 10.0
COMMIT_S = 0.02


class Limiter:
    """So many requests of one address in a window of time."""

    def __init__(self) -> None:
        self._seen: dict[str, list[float]] = {}

    def allows(self, address: str) -> bool:
        """Whether one more is allowed."""
        now = time.monotonic()
        seen = self._seen[address] = [
            at for at in self._seen.get(address, []) if at > now - WINDOW_S
        ]
        seen.append(now)
        return len(seen) <= LIMIT


async def commit(text: str) -> None:
    """What happens after the response."""
    await asyncio.sleep(COMMIT_S)
    NOTES.append(text)


def bearer(token: str) -> dict[str, str]:
    """The credentials of an actor."""
    return {"authorization": token}


async def visit(web: Any) -> None:
    """Two actors use the application."""
    async with (
        web.client("ada", headers=bearer("token-a")) as ada,
        web.client("bob", headers=bearer("token-b")) as bob,
        web.client("eve") as eve,
    ):
        found = await asyncio.gather(ada.get("/me"), bob.get("/me"), eve.get("/me"))
        assert [answer.status_code for answer in found] == [200, 200, 401]
        names = [answer.json() for answer in found[:2]]
        assert [who["name"] for who in names] == ["ada", "bob"]
        assert len({who["address"] for who in names}) == 2
        await _note(ada)
        answers = await asyncio.gather(*(bob.get("/count") for _ in range(3)))
        assert [answer.json() for answer in answers] == [{"count": 1}] * 3
        async with ada.stream("GET", "/stream") as response:
            assert b"".join([part async for part in response.aiter_bytes()]) == b"01234"
        async with web.client("ada") as once:  # a server closes the connection then, a bit later
            assert (await once.get("/fails")).status_code == 500
        assert (await ada.get("/missing")).status_code == 404
        await _limited(eve, ada)
        await _killed(web, bob)


async def _note(ada: httpx.AsyncClient) -> None:
    answer = await ada.post("/notes", json={"text": "hello"})
    assert answer.status_code == 201
    assert NOTES == [], "the client has its response before that is committed"
    await asyncio.sleep(2 * COMMIT_S)
    assert NOTES == ["hello"]


async def _limited(eve: httpx.AsyncClient, ada: httpx.AsyncClient) -> None:
    """The limiter counts each address by itself, in virtual time."""
    codes = [(await eve.get("/me")).status_code for _ in range(LIMIT)]
    assert (codes[0], codes[-1]) == (401, 429)
    assert (await ada.get("/me")).status_code == 200
    await asyncio.sleep(WINDOW_S + 1)
    assert (await eve.get("/me")).status_code == 401


async def _killed(web: Any, bob: httpx.AsyncClient) -> None:
    """A server that dies in the middle, and comes back."""
    asking = asyncio.create_task(bob.get("/slow"))
    await asyncio.sleep(0.3)
    web.host.kill()
    try:
        await asking
    except httpx.RemoteProtocolError:
        pass
    else:
        raise AssertionError("there was nobody to answer")
    web.host.restart()
    await web.host.listening(web.port)
    assert (await bob.get("/me")).status_code == 200


def scenarios_of(module: str, make: Callable[[], Any]) -> list[Any]:
    """The scenarios of a framework: straight into ASGI and through uvicorn."""
    made = []
    for through in ("asgi", "uvicorn"):

        async def main(world: foretold.World, through: str = through) -> None:
            NOTES.clear()
            EVENTS.clear()
            await visit(await world.web(make(), through=through))

        main.__name__, main.__module__ = through, module
        made.append(scenario(main))
    return made
