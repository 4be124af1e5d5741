"""Around the shop: how often one may ask, and who has gone meanwhile. Plain ASGI."""

import asyncio
import time
from collections import deque
from typing import Any

from fastapi.responses import JSONResponse

from examples.shop.bugs import planted

LIMITS = {"/customers": (2, 10.0)}
"""So many requests within so many seconds, of one address."""
USUAL = (100, 1.0)


class Limiter:
    """A sliding window for each address, by this process' clock. Its name goes with each answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        instance = scope["app"].state.instance.encode()

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"x-instance", instance)]
            await send(message)

        refusal = JSONResponse({"detail": "too many requests"}, 429, {"retry-after": "10"})
        work = self.app if self.admits(scope) else refusal
        await work(scope, receive, sending)

    def admits(self, scope: Any) -> bool:
        most, within_s = LIMITS.get(scope["path"], USUAL)
        windows: dict[Any, deque[float]] = scope["app"].state.windows
        window = windows.setdefault((address_of(scope), scope["path"] in LIMITS), deque())
        now = time.monotonic()
        while window and window[0] <= now - within_s:
            window.popleft()
        if len(window) >= most:
            return False
        window.append(now)
        return True


def address_of(scope: Any) -> str:
    """Who asks."""
    if planted("limiter_bypassed"):
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                return str(value.decode())
    return str(scope["client"][0])


class GiveUp:
    """No work for clients who have gone: the request is cancelled. Only with `lost_mail`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not planted("lost_mail"):
            await self.app(scope, receive, send)
            return
        messages: asyncio.Queue[Any] = asyncio.Queue()
        is_answered = False

        async def sending(message: Any) -> None:
            nonlocal is_answered
            is_answered |= message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        async def watch() -> None:
            while not is_answered:
                messages.put_nowait(message := await receive())
                if message["type"] == "http.disconnect":
                    break
            if not is_answered:
                work.cancel()

        work = asyncio.create_task(self.app(scope, messages.get, sending))
        watching = asyncio.create_task(watch())
        try:
            await asyncio.wait([work])
        finally:
            watching.cancel()
        if not work.cancelled():
            work.result()
