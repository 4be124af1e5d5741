"""Messages between bubbles: JSON in UDP datagrams, on asyncio's own sockets.

A datagram may be lost, late, overtaken or doubled, and the sender learns nothing of it. So `tell`
promises nothing, and `ask` sends the same request again until the answer comes or time is up.
Whatever handles a request must therefore be prepared to get it twice.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any, cast

Address = tuple[str, int]
Message = dict[str, Any]
Handler = Callable[[Message], Message | None]


class Endpoint(asyncio.DatagramProtocol):
    """One bubble's socket. A handler gets a message and gives the answer, or None."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handlers: dict[str, Handler] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        # A process must not take the late answers to its predecessor for its own.
        self._life = secrets.token_hex(4)
        self._asked = 0

    async def open(self, address: Address) -> Address:
        """Bind. Port 0 takes a free one: the kernel finds and binds it in one step."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=address)
        assert self._transport is not None, "connection_made was called"
        bound: Address = self._transport.get_extra_info("sockname")[:2]
        return bound

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def tell(self, to: Address, kind: str, **body: Any) -> bool:
        """Send a message. True says that it was sent, and nothing more."""
        if self._transport is None or self._transport.is_closing():
            return False
        message = {"kind": kind, "from": self.name, **body}
        self._transport.sendto(json.dumps(message).encode(), to)
        return True

    async def ask(
        self, to: Address, kind: str, *, within_s: float, every_s: float, **body: Any
    ) -> Message | None:
        """The answer, or None if there was none in time."""
        loop = asyncio.get_running_loop()
        self._asked += 1
        number = f"{self._life}.{self._asked}"
        answered: asyncio.Future[Message] = loop.create_future()
        self._waiting[number] = answered
        until_s = loop.time() + within_s
        try:
            while (left_s := until_s - loop.time()) > 0:
                self.tell(to, kind, id=number, **body)
                await asyncio.wait([answered], timeout=min(every_s, left_s))
                if answered.done():
                    return answered.result()
            return None
        finally:
            del self._waiting[number]

    # --- called by asyncio -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def error_received(self, error: Exception) -> None:
        """A peer that is down may be reported; `ask` sends again anyway."""

    def datagram_received(self, data: bytes, address: Address) -> None:
        message: Message = json.loads(data)
        if "re" in message:
            waiting = self._waiting.get(message["re"])
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        handler = self.handlers.get(message["kind"])
        answer = None if handler is None else handler(message)
        if answer is not None and "id" in message:
            self.tell(address, "answer", re=message["id"], **answer)
