"""One request and its response, on the server's side: `scope`, `receive` and `send`.

It does what uvicorn does, with the same words where something is wrong: the application has its
task; a client that leaves is told as `http.disconnect`, and the task goes on; an exception becomes
status 500 if nothing was sent yet, and else ends the connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import h11

from foretold.kernel.threads.baton import StrandEnded
from foretold.services.web.http1 import BROKEN, TOO_LITTLE, TOO_MUCH, answered, bytes_of

if TYPE_CHECKING:
    from foretold.services.web.answer import HttpAnswer
    from foretold.services.web.link import Link
    from foretold.services.web.process import ServerProcess

logger = logging.getLogger("foretold.web")
logger.addHandler(logging.NullHandler())  # a campaign of thousands of runs is no place to print

TOGETHER_NS = 50_000
"""What the application sends within so much time travels in one packet."""
HIGH_WATER_BYTES = 65_536 + 212_992 + 131_072
"""What uvicorn and the kernels on both sides hold of a body that nobody reads, before `send`
waits."""
CLOSED = object()
"""In a packet: the server has closed the connection with it."""
FAILED = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
Refusal = tuple[()] | tuple[tuple[int, list[Any], int], bytes]
"""Head and body; empty: silence."""
START, BODY = "http.response.start", "http.response.body"


class Cycle:
    """From the head of a request to the end of its response, and what the application does after
    that."""

    def __init__(
        self, process: ServerProcess, link: Link, answer: HttpAnswer, scope: dict[str, Any]
    ) -> None:
        self.process, self.link, self.answer, self.scope = process, link, answer, scope
        self.is_last = False
        """The client has said that it is the last request of its connection."""
        self._body: list[bytes] = []
        self._more_body = True
        self._news = asyncio.Event()
        self.disconnected = False
        self.started = self.complete = False
        self.refusal: Refusal | None = None
        """Not None: the server answers for the application; or not at all."""
        self._following: Cycle | None = None
        """The client's next request, which has come before the end of this response."""
        self._broken = False
        """h11 has refused something: it takes no more."""
        self._left: int | None = None
        """How much of the announced length is still to come."""
        self._packet: list[Any] | None = None
        self._packet_ns = 0

    def begin(self, body: bytes, more: bool) -> None:
        """The head has arrived, and perhaps the body with it."""
        self.arrives(body, more)
        former = self.link.cycle
        if former is None or former.complete:
            self._enter()
        else:
            former._following = self

    def _enter(self) -> None:
        self.link.cycle = self
        if self.refusal is not None:
            self._refuse(*self.refusal)
            return
        process, scope = self.process, self.scope
        name = f"{scope['method']} {scope['path']}"
        loop, context = process.loop, process.context.copy()
        task = loop.create_task(self.run(process.app), name=name, context=context)
        process.tasks.add(task)
        task.add_done_callback(process.done)

    def arrives(self, body: bytes, more: bool) -> None:
        """A part of the request's body has arrived; the last one if there is no more."""
        if body:
            self._body.append(body)
        self._more_body = more
        self._news.set()

    def client_left(self) -> None:
        """The connection is gone."""
        if not self.complete:
            self.disconnected = True
        self._news.set()
        self.answer.make_room()

    # --- the application -------------------------------------------------------------------------

    async def run(self, app: Any) -> None:
        """Call the application, and tell the client if that went wrong."""
        try:
            result = await app(self.scope, self.receive, self.send)
        except StrandEnded:
            raise  # the process is gone
        except BaseException as error:
            self._complain("Exception in ASGI application", error)
            if self.started:
                self._close()
            else:
                await self._send_500()
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if result is not None:
            self._complain(f"ASGI callable should return None, but returned '{result}'.")
            self._close()
        elif not self.started and not self.disconnected:
            self._complain("ASGI callable returned without starting response.")
            await self._send_500()
        elif not self.complete and not self.disconnected:
            self._complain("ASGI callable returned without completing response.")
            self._close()

    def _complain(self, text: str, error: BaseException | None = None) -> None:
        logger.error(text, exc_info=error)
        if error is None:  # else the door has told
            scope = self.scope
            self.process.web.note("application", f"{scope['method']} {scope['path']}: {text}")

    async def _send_500(self) -> None:
        await self.send({"type": START, "status": 500, "headers": FAILED})
        await self.send({"type": BODY, "body": b"Internal Server Error"})

    async def receive(self) -> dict[str, Any]:
        """The next part of the request; or that the client is gone or has its response."""
        if not self.disconnected and not self.complete:
            await self._news.wait()
            self._news.clear()
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        body, self._body = b"".join(self._body), []
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    async def send(self, message: dict[str, Any]) -> None:
        """A part of the response."""
        if self.answer.unread > HIGH_WATER_BYTES and not self.disconnected:
            await self.answer.drained(self.process.loop)
        if self.disconnected:
            return
        kind = message["type"]
        if not self.started:
            if kind != START:
                raise RuntimeError(f"Expected ASGI message '{START}', but got '{kind}'.")
            self._start(message["status"], list(message.get("headers", ())))
        elif not self.complete:
            if kind != BODY:
                raise RuntimeError(f"Expected ASGI message '{BODY}', but got '{kind}'.")
            self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(
                f"Unexpected ASGI message '{kind}' sent, after response already completed."
            )

    def _start(self, status: Any, headers: list[Any]) -> None:
        self.started = self._broken = True
        scope, link = self.scope, self.link
        head = answered(scope["method"], status, headers, self.is_last)
        self._broken = head.is_tunnel
        self._left = head.length
        if head.close or not self.process.is_open:
            link.keep_alive = False
        self._say((head.status, head.headers, head.length))

    def _send_body(self, body: Any, more: bool) -> None:
        if self._broken:
            raise h11.LocalProtocolError(BROKEN)
        self._broken = True
        body = b"" if self.scope["method"] == "HEAD" else bytes_of(body, self._left)
        if self._left is not None:
            self._left -= len(body)
            if self._left < 0:
                raise h11.LocalProtocolError(TOO_MUCH)
        if body:
            self.answer.unread += len(body)
            self._say(body)
        if not more:
            self._end()
        self._broken = False

    def _end(self) -> None:
        """The application has sent the last of its response."""
        self.complete = True
        self._news.set()
        if self._left:
            raise h11.LocalProtocolError(TOO_LITTLE)
        self._say(None)
        if not self.link.keep_alive:
            self._close()
        elif self._following is not None and self.link.server is not None:
            self._following._enter()

    def _refuse(self, head: Any = None, body: bytes = b"") -> None:
        """The server's own answer to a request that the application does not get."""
        if head is not None:
            self.started = self.complete = True
            self.answer.unread += len(body)
            for part in (head, body, None):
                self._say(part)
            self._close()

    def _close(self) -> None:
        """Close the connection: with the packet that has just left, as TCP does, or behind it."""
        link = self.link
        if link.server is not None and self._packet and link.server_clock.ns <= self._packet_ns:
            self._packet.append(CLOSED)
            link.drop_server()
        else:
            link.close_server()

    def _say(self, part: Any) -> None:
        """On its way to the client: in the packet that has just left, or in one of its own."""
        now_ns = self.link.server_clock.ns
        if self._packet is not None and now_ns <= self._packet_ns:
            self._packet.append(part)
            return
        self._packet, self._packet_ns = [part], now_ns + TOGETHER_NS
        size = len(part) if isinstance(part, bytes) else 0
        arrives_ns = self.link.to_client(size, self._arrive, self._packet)
        self._packet_ns = min(self._packet_ns, arrives_ns - 1)

    def _arrive(self, packet: list[Any]) -> None:
        """What was sent comes to the client."""
        is_last = packet[-1] is CLOSED
        if is_last:
            packet.pop()
        self.answer.arrives(packet)
        if is_last:
            self.link.closed_by_server()
