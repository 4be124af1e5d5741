"""One life of the server: from its startup to its end, be it by SIGTERM or by a kill."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from foretold.errors import UsageError
from foretold.services.web.cycle import logger
from foretold.services.web.lifespan import Lifespan

if TYPE_CHECKING:
    import httpx

    from foretold.services.web.link import Link
    from foretold.services.web.server import Web

BACKLOG = 2_048
_NO_SOCKETS = """\
{0} has connected to {1}:{2} by a socket. With through="asgi", that server answers the clients of \
world.web only.
  right, for a client of the test: web.client("ada")
  right, for a program that calls it: await world.web(app, host="{1}", through="uvicorn")"""


class ServerProcess:
    def __init__(self, web: Web) -> None:
        self.web = web
        self.host = web.host
        self.loop = web.host.loop
        self.app: Any = None
        self.context = contextvars.copy_context()
        self.links: set[Link] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_open = False
        """It takes connections."""
        self._stop = asyncio.Event()
        self._idle: asyncio.Event | None = None

    async def live(self) -> None:
        """The main of the host: start, serve, and end when it is told to."""
        self.loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        self.app = self.web.open_door()
        lifespan = await self._start()
        with socket.create_server(("0.0.0.0", self.web.port), backlog=BACKLOG):
            self.state, self.is_open = lifespan.state, True
            self.web.process = self
            self._refuse_sockets()
            await self._stop.wait()
            self.is_open = False
        await self._drain()
        await lifespan.shutdown()
        if lifespan.failed is not None or (lifespan.error and not lifespan.unsupported):
            logger.error("Application shutdown failed.", exc_info=lifespan.error)

    state: dict[str, Any]

    def _refuse_sockets(self) -> None:
        """Nobody accepts connections here. Who makes one would wait for ever."""
        (listener,) = self.host.stack.listeners["0.0.0.0", self.web.port]

        def connected() -> None:
            while listener.queue:
                end = listener.queue.popleft()
                who = "a program" if end.peer is None else end.peer.stack.name
                end.abort()
                told = _NO_SOCKETS.format(who, self.host.name, self.web.port)
                self.web.world.fail(UsageError(told), at=self.host)

        listener.on_change = connected

    async def _start(self) -> Lifespan:
        """The application is started; if it has been up before, as often as it takes."""
        while True:
            lifespan = Lifespan(self.app)
            try:
                await lifespan.startup()
            except Exception as error:
                await self.web.did_not_start(error)
            else:
                return lifespan

    async def _drain(self) -> None:
        """Idle connections are closed, requests in flight and what runs after them go on to their
        end."""
        for link in sorted(self.links, key=lambda link: link.address):
            if link.cycle is None or link.cycle.complete:
                link.close_server()
            else:
                link.keep_alive = False
        while self.tasks:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def done(self, task: asyncio.Task[None]) -> None:
        """What a request has started is over."""
        self.tasks.discard(task)
        if self._idle is not None and not self.tasks:
            self._idle.set()

    def scope(self, request: httpx.Request, target: bytes, address: Any) -> dict[str, Any]:
        """The scope of a request, but for its headers: as uvicorn makes it, in its order."""
        root = self.web.root_path
        raw_path, _, query = target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": (self.host.ip, self.web.port),
            "client": address,
            "scheme": request.url.scheme,
            "method": request.method,
            "root_path": root,
            "path": root + unquote(raw_path.decode("ascii")),
            "raw_path": root.encode("ascii") + raw_path,
            "query_string": query,
            "headers": [],
            "state": self.state.copy(),
        }
