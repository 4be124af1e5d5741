"""A shard for players: HTTP for commands and queries, a WebSocket for what happens.

POST /personas            {"persona": "ada"}                        the token
POST /commands/NAME       {"persona", "token", "payload"}           the command's number
POST /query               {"find": ["Health"], "exactly": false}    entities
WS   /events?persona=ada                                            events, and each tick
POST /debug/pause, /debug/resume, /debug/step, /debug/reset         for developers
"""

import asyncio
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from examples.cardinal.events import DEFAULT, Event
from examples.cardinal.gateway import Gateway, told
from examples.cardinal.world import RunLoop, World

BEHIND_MAX = 256
"""Messages that may wait for a slow player, who is sent away then."""


class HttpFace:
    """The application (`app`) of a shard."""

    def __init__(self, gateway: Gateway, loop: RunLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._players: dict[asyncio.Queue[dict[str, Any] | None], str] = {}
        gateway.world.events.handlers[DEFAULT].append(self._on_event)
        gateway.world.followers.append(self._on_tick)
        self.app = Starlette(
            routes=[
                Route("/personas", self._persona, methods=["POST"]),
                Route("/commands/{name}", self._command, methods=["POST"]),
                Route("/query", self._query, methods=["POST"]),
                Route("/debug/{deed}", self._debug, methods=["POST"]),
                WebSocketRoute("/events", self._events),
            ]
        )

    async def _persona(self, request: Request) -> JSONResponse:
        asked = await _json(request)
        name = asked.get("persona") if isinstance(asked, dict) else None
        return _response(self._gateway.claim(str(name)))

    async def _command(self, request: Request) -> JSONResponse:
        name = request.path_params["name"]
        return _response(self._gateway.command(name, await _json(request)))

    async def _query(self, request: Request) -> JSONResponse:
        return _response(self._gateway.query(await _json(request)))

    async def _debug(self, request: Request) -> JSONResponse:
        deed, loop = request.path_params["deed"], self._loop
        if deed == "pause":
            loop.pause()
        elif deed == "resume":
            loop.resume()
        elif deed == "step" and loop.paused:
            await loop.step()
        elif deed == "reset":
            await loop.reset()
        else:
            return _response({"error": f"{deed} cannot be done now"})
        return _response({"height": self._gateway.world.height, "paused": loop.paused})

    # --- what happens ----------------------------------------------------------------------------

    async def _events(self, socket: WebSocket) -> None:
        await socket.accept()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(BEHIND_MAX + 1)
        self._players[queue] = socket.query_params.get("persona", "")
        gone = asyncio.ensure_future(_until_gone(socket))
        try:
            while not gone.done():
                news = asyncio.ensure_future(queue.get())
                await asyncio.wait({gone, news}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                elif (message := news.result()) is None:
                    await socket.close(1013, "too slow")
                    return
                else:
                    await socket.send_json(message)
        except WebSocketDisconnect:
            pass
        finally:
            gone.cancel()
            self._players.pop(queue, None)

    def _on_event(self, event: Event) -> None:
        for queue, persona in list(self._players.items()):
            if event.address in ("*", persona):
                self._tell(queue, told(event))

    def _on_tick(self, world: World) -> None:
        changed = sorted({change.entity for change in world.core.state.changes})
        for queue in list(self._players):
            self._tell(queue, {"tick": world.height - 1, "changed": changed})

    def _tell(self, queue: asyncio.Queue[dict[str, Any] | None], message: dict[str, Any]) -> None:
        if queue.qsize() < BEHIND_MAX:
            queue.put_nowait(message)
        else:
            queue.put_nowait(None)
            self._players.pop(queue)


async def _until_gone(socket: WebSocket) -> None:
    try:
        while True:
            await socket.receive_text()
    except WebSocketDisconnect:
        return


async def _json(request: Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        return None


def _response(answer: dict[str, Any]) -> JSONResponse:
    return JSONResponse(answer, 400 if "error" in answer else 200)
