"""One response on the client's side: what has come of it, who waits for more, and what went wrong.

Errors are those of httpx over httpcore: exactly what the program would see of a real connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from foretold.services.web.link import Link

NO_RESPONSE = "Server disconnected without sending a response."
INCOMPLETE = "peer closed connection without sending complete message body"
LOW_WATER_BYTES = 16_384


class HttpAnswer:
    """What comes back over one connection for one request."""

    __slots__ = (
        "_drained", "_error", "_loop", "_waiter", "complete", "expected", "link", "parts",
        "received", "started", "unread",
    )  # fmt: skip

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop) -> None:
        self.link: Link | None = link
        self.parts: deque[Any] = deque()
        self.started = self.complete = False
        self.expected: int | None = None
        self.received = 0
        self.unread = 0
        """How many bytes of the body the server has sent and the client has not read."""
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._error: Callable[[], Exception] | None = None
        self._drained: asyncio.Future[None] | None = None
        link.answer = self

    # --- what arrives ----------------------------------------------------------------------------

    def arrives(self, packet: list[Any]) -> None:
        """Some of the response is here."""
        self.parts.extend(packet)
        packet.clear()
        self._wake()

    def closed(self) -> None:
        """The server has closed the connection."""
        self.fail(self._cut_short)

    def reset(self) -> None:
        """The connection is broken."""
        self.fail(lambda: httpx.ReadError(""))

    def fail(self, error: Callable[[], Exception]) -> None:
        """Nothing more will come: whoever reads on gets this error."""
        if self._error is None:
            self._error = error
            self._wake()

    def _cut_short(self) -> Exception:
        if not self.started:
            return httpx.RemoteProtocolError(NO_RESPONSE)
        if self.expected is None:
            return httpx.RemoteProtocolError(f"{INCOMPLETE} (incomplete chunked read)")
        how_much = f"(received {self.received} bytes, expected {self.expected})"
        return httpx.RemoteProtocolError(f"{INCOMPLETE} {how_much}")

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- who reads -------------------------------------------------------------------------------

    async def next(self, timeout_s: float | None) -> Any:
        """The next part: the head, some of the body, or None at its end."""
        parts = self.parts
        while not parts:
            if self._error is not None:
                raise self._error()
            waiter = self._waiter = self._loop.create_future()
            if timeout_s is None:
                await waiter
                continue
            alarm = self._loop.call_later(timeout_s, _end_wait, waiter)
            try:
                await waiter
            finally:
                alarm.cancel()
            if self._waiter is waiter:
                self._waiter = None
                raise httpx.ReadTimeout("")
        return parts.popleft()

    def read(self, part: bytes) -> None:
        """The program has this part of the body."""
        self.received += len(part)
        self.unread -= len(part)
        if self._drained is not None and self.unread <= LOW_WATER_BYTES and self.link is not None:
            self.link.to_server(0, self.make_room)

    # --- the server's side of flow control -------------------------------------------------------

    async def drained(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the client has read what was sent, or is gone."""
        self._drained = loop.create_future()
        await self._drained

    def make_room(self) -> None:
        """The server may send more."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


def _end_wait(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class HttpBody(httpx.AsyncByteStream, AsyncIterator[bytes]):
    """The body of a response, as it comes in."""

    def __init__(
        self, answer: HttpAnswer, timeout_s: float | None, done: Callable[[Any], Any]
    ) -> None:
        self._answer, self._timeout_s, self._done = answer, timeout_s, done

    @property
    def address(self) -> Any:
        """The client's address, as long as the response has its connection."""
        link = self._answer.link
        return None if link is None else link.address

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """No generator: each of those is entered in the loop, and a body has few parts."""
        answer = self._answer
        if answer.complete:
            raise StopAsyncIteration
        part: bytes | None = await answer.next(self._timeout_s)
        if part is None:
            answer.complete = True
            raise StopAsyncIteration
        answer.read(part)
        answer.complete = answer.received == answer.expected
        return part

    async def aclose(self) -> None:
        """The program needs no more of it. What is left is not read: the connection is closed."""
        answer, link = self._answer, self._answer.link
        if link is None:
            return
        answer.link = None
        if not answer.complete and answer.parts and answer.parts[0] is None:
            answer.complete = True
        if not answer.complete:
            link.close_client()
        self._done(link)
