"""An httpx transport straight into the application of another host, in virtual time.

The client has its response when the application has sent it, and not when the application returns:
what runs on after that overlaps with the next request, as it does in production.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import httpx

from foretold.services.web.answer import HttpAnswer, HttpBody
from foretold.services.web.cycle import Cycle
from foretold.services.web.http1 import TOO_LITTLE, TOO_MUCH, asked
from foretold.services.web.link import Link
from foretold.services.web.pool import Pool, Slot
from foretold.services.web.upgrade import refusal_of
from foretold.world.net.network import SYN_RETRY_NS
from foretold.world.net.tcp import SYN_GIVE_UP_NS

if TYPE_CHECKING:
    from foretold.services.web.server import Web
    from foretold.tape import Stream
    from foretold.world.host import Host

BLOCK_BYTES = 65_536
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class AsgiTransport(httpx.AsyncBaseTransport):
    """The connections of one client."""

    def __init__(
        self,
        web: Web,
        name: str,
        ip: str | None,
        elsewhere: Callable[[], Any],
        limits: httpx.Limits,
    ) -> None:
        self.web, self.name, self.ip = web, name, ip
        self._elsewhere = elsewhere
        self._other: httpx.AsyncBaseTransport | None = None
        """For requests to other servers."""
        self._pool = Pool(limits)
        self._choices: Stream = web.world.tape.stream("net", f"{web.host.name}:{name}")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.host != self.web.host.name or url.port != self.web.port:
            return await self._from_elsewhere(request)
        if not request.method.isascii():
            raise TypeError("method strings may not include unicode characters.")
        loop = asyncio.get_running_loop()
        timeouts = request.extensions.get("timeout") or {}
        place = await self._pool.place(loop, timeouts.get("pool"))
        link = place.link
        try:
            if link is None:
                link = await self._connect(loop, timeouts.get("connect"), place)
            answer = HttpAnswer(link, loop)
            await self._send(request, link, answer)
            return await self._head(answer, timeouts.get("read"))
        except BaseException:
            if link is not None:
                link.close_client()
            self._pool.leave(place)
            raise

    async def _from_elsewhere(self, request: httpx.Request) -> httpx.Response:
        if self._other is None:
            self._other = self._elsewhere()
        return await self._other.handle_async_request(request)

    async def aclose(self) -> None:
        """The client is closed: its connections are."""
        self._pool.close()
        if self._other is not None:
            await self._other.aclose()

    # --- connections -----------------------------------------------------------------------------

    def _rest(self, link: Link) -> None:
        """A response is read, or nobody wants the rest of it: its connection is free, or gone."""
        link.answer = None
        self._pool.leave(link.place)

    async def _connect(self, loop: Any, timeout_s: float | None, place: Slot) -> Link:
        """A connection of its own, once the server has accepted it."""
        attempt = Attempt(self.web, loop.host, self._choices, loop.create_future())
        attempt.begin()
        alarm = None if timeout_s is None else loop.call_later(timeout_s, attempt.end, "too long")
        try:
            said = await attempt.waiter
        finally:
            attempt.over = True
            if alarm is not None:
                alarm.cancel()
        if said == "too long":
            raise httpx.ConnectTimeout("")
        if attempt.process is None:
            raise httpx.ConnectError("All connection attempts failed")
        address = (self.ip or loop.host.ip, loop.host.stack.free_port())
        place.link = link = Link(attempt.process, loop.host, address, self._choices, place)
        return link

    # --- a request -------------------------------------------------------------------------------

    async def _send(self, request: httpx.Request, link: Link, answer: HttpAnswer) -> None:
        process = link.process
        target = request.extensions.get("target", request.url.raw_path)
        head = asked(request.method, target, request.headers.raw)
        scope = process.scope(request, target, link.address)
        scope["headers"] = [*head.headers]
        self.web.requests += 1
        self.web.world.trace.note("web", self.name, request.method, scope["path"])
        cycle = Cycle(process, link, answer, scope)
        cycle.is_last = head.close
        if head.upgrade == b"websocket":
            cycle.refusal = refusal_of(request.method, target, head.headers)
        try:
            content = request.content
        except httpx.RequestNotRead:
            content = None
        if content is not None and len(content) <= BLOCK_BYTES and head.suits(len(content)):
            link.to_server(len(content), cycle.begin, content, False)
            return
        link.to_server(0, cycle.begin, b"", True)
        sent = 0
        async for chunk in request.stream:  # type: ignore[union-attr]  # an async client's stream
            sent += len(chunk)
            if head.length is not None and sent > head.length:
                raise httpx.LocalProtocolError(TOO_MUCH)
            for start in range(0, len(chunk), BLOCK_BYTES):
                block = chunk[start : start + BLOCK_BYTES]
                link.to_server(len(block), cycle.arrives, block, True)
        if not head.suits(sent):
            raise httpx.LocalProtocolError(TOO_LITTLE)
        link.to_server(0, cycle.arrives, b"", False)

    async def _head(self, answer: HttpAnswer, timeout_s: float | None) -> httpx.Response:
        status, headers, answer.expected = await answer.next(timeout_s)
        answer.started = True
        answer.complete = answer.expected == 0
        self.web.world.trace.note("web", self.name, str(status))
        return httpx.Response(
            status,
            headers=headers,
            stream=HttpBody(answer, timeout_s, self._rest),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": REASONS.get(status, b""),
            },
        )


class Attempt:
    """Somebody wants a connection: SYN, and again if no answer comes, as Linux does."""

    def __init__(self, web: Web, client: Host, choices: Stream, waiter: Any) -> None:
        self.web, self.choices, self.waiter = web, choices, waiter
        network = web.world.network
        self.there = network.path(client.stack, web.host.stack)
        self.back = network.path(web.host.stack, client.stack)
        self.wire = web.world.wire
        self.over = False
        self.process: Any = None
        self._first_ns = client.kernel.clock.ns

    def begin(self) -> None:
        """The first SYN leaves."""
        self._send(self._first_ns)

    def end(self, how: str) -> None:
        """It is decided."""
        if not self.waiter.done():
            self.waiter.set_result(how)

    def _send(self, now_ns: int) -> None:
        if self.over:
            return
        if now_ns - self._first_ns >= SYN_GIVE_UP_NS:
            self.end("nobody answered")
        elif self.there.cut:
            self._again(now_ns)
        else:
            self.there.pass_on(self._leaves, now_ns)

    def _leaves(self, now_ns: int) -> None:
        arrives_ns = self.there.arrival_ns(now_ns, 0, self.choices)
        self.wire.at(arrives_ns, self._arrives, now_ns)

    def _again(self, sent_ns: int) -> None:
        again_ns = max(self.wire.now_ns, sent_ns + SYN_RETRY_NS + (sent_ns - self._first_ns))
        self.wire.at(again_ns, self._send, again_ns)

    def _arrives(self, sent_ns: int) -> None:
        if self.web.host.stack.dead or self.there.cut or self.back.cut:
            self._again(sent_ns)
            return
        self.process = self.web.listening()
        self.back.pass_on(self._answer, self.wire.now_ns)

    def _answer(self, now_ns: int) -> None:
        self.wire.at(self.back.arrival_ns(now_ns, 0, self.choices), partial(self.end, "answered"))
