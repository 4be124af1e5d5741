"""An ASGI application that does whatever its path says, and notes what happens to it.

Written against the specification itself: frameworks hide half of what a server does.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fidelity.web_probes import ANSWERS

Log = list[Any]
ENDLESS_CHUNK = b"x" * 1_000
LARGE = 3_000_000


class Application:
    """One application and its log."""

    def __init__(self, *, startup: str = "complete", shutdown: str = "complete") -> None:
        self.log: Log = []
        self.startup, self.shutdown = startup, shutdown

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        name = scope["path"].split("/")[1] or "index"
        await getattr(self, f"do_{name}", self.do_scope)(scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        scope["state"]["made"] = "at startup"
        if self.startup == "raises":
            raise RuntimeError("no lifespan here")
        await self._answer(receive, send, "startup", self.startup)
        if self.startup == "complete":
            await self._answer(receive, send, "shutdown", self.shutdown)

    async def _answer(self, receive: Any, send: Any, stage: str, how: str) -> None:
        message = await receive()
        self.log.append(message["type"])
        await send({"type": f"lifespan.{stage}.{how}", "message": f"{stage} says {how}"})

    # --- what a path asks for --------------------------------------------------------------------

    async def do_scope(self, scope: Any, receive: Any, send: Any) -> None:
        """The scope itself, and everything that `receive` says."""
        kept = {key: _plain(value) for key, value in scope.items() if key not in ("server",)}
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message["body"] for message in messages)
        kept["client"] = type(scope["client"][1]).__name__
        await respond(send, json.dumps({"scope": kept, "size": len(body)}).encode())

    async def do_port(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, str(scope["client"][1]).encode())

    async def do_status(self, scope: Any, receive: Any, send: Any) -> None:
        """A status, a body, headers of several sorts."""
        status = int(scope["path"].split("/")[2])
        headers = [(b"x-one", b"1"), (b"X-Two", b"2"), (b"set-cookie", b"a=1"), (b"x-one", b"3")]
        await respond(send, b"" if status in (204, 304) else b"body", status, headers)

    async def do_chunks(self, scope: Any, receive: Any, send: Any) -> None:
        """A body without a length."""
        await start(send)
        for number in range(5):
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
        await send({"type": "http.response.body"})

    async def do_large(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"y" * LARGE)

    async def do_endless(self, scope: Any, receive: Any, send: Any) -> None:
        """A body that goes on until the client is gone."""
        await start(send)
        leaving = asyncio.create_task(self._until_left(receive))
        while not leaving.done():
            await send({"type": "http.response.body", "body": ENDLESS_CHUNK, "more_body": True})
            await asyncio.sleep(0.001)
        self.log.append("stopped sending")

    async def _until_left(self, receive: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            assert message["type"] == "http.request"
        self.log.append(message["type"])

    async def do_never(self, scope: Any, receive: Any, send: Any) -> None:
        """No response, as long as the client is there."""
        self.log.append("waits")
        await self._until_left(receive)

    async def do_stalls(self, scope: Any, receive: Any, send: Any) -> None:
        """Half a response."""
        await start(send)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await self._until_left(receive)

    async def do_early(self, scope: Any, receive: Any, send: Any) -> None:
        """All of a body, and its end a while later."""
        await start(send, [(b"content-length", b"4")])
        await send({"type": "http.response.body", "body": b"body", "more_body": True})
        await asyncio.sleep(0.01)
        self.log.append("ends")
        await send({"type": "http.response.body"})

    async def do_background(self, scope: Any, receive: Any, send: Any) -> None:
        """Work after the response."""
        await respond(send, b"done")
        self.log.append((await receive())["type"])
        await asyncio.sleep(0.01)
        self.log.append("background")

    async def do_raises(self, scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("before the response")

    async def do_raises_later(self, scope: Any, receive: Any, send: Any) -> None:
        await start(send, [(b"content-length", b"10")])
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError("in the middle")

    async def do_raises_chunked(self, scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError("in the middle")

    async def do_raises_after(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"done")
        raise ValueError("after the response")

    async def do_nothing(self, scope: Any, receive: Any, send: Any) -> None:
        """Return without a response."""

    async def do_half(self, scope: Any, receive: Any, send: Any) -> None:
        await start(send)

    async def do_twice(self, scope: Any, receive: Any, send: Any) -> None:
        """A response after the response."""
        await respond(send, b"one")
        try:
            await respond(send, b"two")
        except RuntimeError as error:
            self.log.append(str(error))

    async def do_body_first(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.body", "body": b"?"})
        except RuntimeError as error:
            self.log.append(str(error))
        await respond(send, b"after all")

    async def do_too_short(self, scope: Any, receive: Any, send: Any) -> None:
        await start(send, [(b"content-length", b"10")])
        await send({"type": "http.response.body", "body": b"half"})

    async def do_answers(self, scope: Any, receive: Any, send: Any) -> None:
        """One of the table's, message by message."""
        try:
            for message in ANSWERS[scope["path"].split("/")[2]]:
                await send(message)
        except Exception as error:
            self.log.append(type(error).__name__)
            raise

    async def do_heard(self, scope: Any, receive: Any, send: Any) -> None:
        """All that it hears, until the client has said everything or is gone."""
        headers = [(n, v) for n, v in scope["headers"] if n != b"host" or b":" not in v]
        self.log.append((scope["method"], scope["path"], headers))
        size = 0
        message: dict[str, Any] = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            size += len(message.get("body", b""))
        # What came before the client was gone may be lost with it: that is a race.
        self.log.append(size if message["type"] == "http.request" else message["type"])
        await respond(send, b"heard")

    async def do_remember(self, scope: Any, receive: Any, send: Any) -> None:
        """How often it was asked."""
        self.log.append("remember")
        await respond(send, str(self.log.count("remember")).encode())

    async def do_cookie(self, scope: Any, receive: Any, send: Any) -> None:
        """Echo the cookies, and set one."""
        sent = dict(scope["headers"]).get(b"cookie", b"none")
        await respond(send, sent, headers=[(b"set-cookie", b"seen=1; Path=/")])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


async def start(send: Any, headers: Any = ()) -> None:
    """The head of a response."""
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})


async def respond(send: Any, body: bytes, status: int = 200, headers: Any = ()) -> None:
    """A whole response."""
    size = [] if status in (204, 304) else [(b"content-length", str(len(body)).encode())]
    message = {"type": "http.response.start", "status": status, "headers": [*headers, *size]}
    await send(message)
    await send({"type": "http.response.body", "body": body})


app = Application()
"""One that is found by its name."""
