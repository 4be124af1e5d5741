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
from urllib.parse import unquote

import httpx

from foretold.kernel.clock import NS
from foretold.services.web.answer import Answer, Body
from foretold.services.web.cycle import Cycle
from foretold.services.web.link import Link
from foretold.world.net.network import SYN_RETRY_NS
from foretold.world.net.tcp import SYN_GIVE_UP_NS

if TYPE_CHECKING:
    from foretold.services.web.server import Web
    from foretold.tape import Stream
    from foretold.world.host import Host

KEEP_ALIVE_NS = 5 * NS
"""uvicorn closes a connection that was idle for so long, and httpx does not use it again."""
BLOCK_BYTES = 65_536
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class AsgiTransport(httpx.AsyncBaseTransport):
    """The connections of one client."""

    def __init__(self, web: Web, name: str, ip: str | None, elsewhere: Callable[[], Any]) -> None:
        self.web, self.name, self.ip = web, name, ip
        self._elsewhere = elsewhere
        self._other: httpx.AsyncBaseTransport | None = None
        """For requests to other servers."""
        self._idle: list[Link] = []
        self._choices: Stream = web.world.tape.stream("net", f"{web.host.name}:{name}")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.host != self.web.host.name or url.port != self.web.port:
            return await self._from_elsewhere(request)
        loop = asyncio.get_running_loop()
        timeouts = request.extensions.get("timeout") or {}
        link = self._idle_link()
        if link is None:
            link = await self._connect(loop, timeouts.get("connect"))
        answer = Answer(link, loop)
        try:
            await self._send(request, link, answer)
            return await self._head(answer, timeouts.get("read"))
        except BaseException:
            link.close_client()
            raise

    async def _from_elsewhere(self, request: httpx.Request) -> httpx.Response:
        if self._other is None:
            self._other = self._elsewhere()
        return await self._other.handle_async_request(request)

    async def aclose(self) -> None:
        """The client is closed: its idle connections are."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.close_client()
        if self._other is not None:
            await self._other.aclose()

    # --- connections -----------------------------------------------------------------------------

    def _idle_link(self) -> Link | None:
        while self._idle:
            link = self._idle.pop()
            if link.client is None:
                continue
            if link.client_clock.ns - link.idle_since_ns < KEEP_ALIVE_NS:
                return link
            link.close_client()
        return None

    def _rest(self, link: Link) -> None:
        """A response was read to its end: its connection is free."""
        link.answer = None
        if link.client is not None and link.keep_alive:
            link.idle_since_ns = link.client_clock.ns
            self._idle.append(link)
        else:
            link.close_client()

    async def _connect(self, loop: Any, timeout_s: float | None) -> Link:
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
        return Link(attempt.process, loop.host, address, self._choices)

    # --- a request -------------------------------------------------------------------------------

    async def _send(self, request: httpx.Request, link: Link, answer: Answer) -> None:
        process = link.process
        head = head_of(request, link.address)
        trace = self.web.world.trace
        self.web.requests += 1
        try:
            content = request.content
        except httpx.RequestNotRead:
            content = None
        trace.note("web", self.name, request.method, head["path"])
        cycle = Cycle(process, link, answer, process.scope(head))
        if content is not None and len(content) <= BLOCK_BYTES:
            link.to_server(len(content), cycle.begin, content, False)
            return
        link.to_server(0, cycle.begin, b"", True)
        async for chunk in request.stream:  # type: ignore[union-attr]  # an async client's stream
            for start in range(0, len(chunk), BLOCK_BYTES):
                block = chunk[start : start + BLOCK_BYTES]
                link.to_server(len(block), cycle.arrives, block, True)
        link.to_server(0, cycle.arrives, b"", False)

    async def _head(self, answer: Answer, timeout_s: float | None) -> httpx.Response:
        status, headers, answer.expected = await answer.next(timeout_s)
        answer.started = True
        self.web.world.trace.note("web", self.name, str(status))
        return httpx.Response(
            status,
            headers=headers,
            stream=Body(answer, timeout_s, self._rest),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": REASONS.get(status, b""),
            },
        )


def head_of(request: httpx.Request, address: Any) -> dict[str, Any]:
    """What of a request's scope the client decides."""
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "method": request.method,
        "scheme": request.url.scheme,
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": address,
    }


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
