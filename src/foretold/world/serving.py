"""`host.serve`: an ASGI application under uvicorn, in a story each request by its name.

Uvicorn handles every request in a task called `run_asgi`. Schedules know the task by that name; a
story calls it `GET /orders of client`. So that looking changes nothing, the application is wrapped
in runs with detail alone, and the wrapper neither waits nor changes what passes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from foretold.trace.events import Visited
from foretold.world import errands
from foretold.world.errands import ServedRequest

if TYPE_CHECKING:
    from foretold.world.host import Host


def serve(host: Host, app: Any, settings: dict[str, Any]) -> Any:
    """A coroutine that serves the application until it is cancelled."""
    import uvicorn

    class Config(uvicorn.Config):
        """Tells of requests once uvicorn has found out what sort of application it is."""

        def load(self) -> None:
            super().load()
            if host.world.trace.detail:
                self.loaded_app = NamedRequests(host, self.loaded_app)

    return uvicorn.Server(Config(app, **settings)).serve()


class NamedRequests:
    def __init__(self, host: Host, app: Any) -> None:
        self._host, self._app = host, app
        self._times: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        with errands.working_for(self._errand(scope)):
            return await self._app(scope, receive, send)

    def _errand(self, scope: Any) -> ServedRequest:
        kernel, network = self._host.kernel, self._host.world.network
        ip, _ = scope.get("client") or ("", 0)
        stack = network.by_ip.get(ip)
        client = self._host.name if stack is None else stack.name  # else it is a loopback address
        asks = f"{scope['method']} {scope['path']}"
        self._times[client, asks] += 1
        times = self._times[client, asks]
        asks = asks if times == 1 else f"{asks} ({times})"
        kernel.keep(Visited, client=client, asks=asks)
        return ServedRequest((kernel.host, kernel.current.name), client, asks)
