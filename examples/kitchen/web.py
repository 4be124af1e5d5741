"""FastAPI before the kitchen, on a host of its own, and the client that scenarios use then.

The front has the methods of `Kitchen`. Each is a request; a refusal is a 409. The conversation that
a request belongs to goes along in a header, so that the log knows it on the other side.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from examples.kitchen.kitchen import Kitchen
from examples.kitchen.tickets import Refused
from foretold.harness import SimulationWorld
from foretold.harness.declare import declared_by
from foretold.world.log import CORRELATION

OBSERVERS = declared_by(Kitchen, "observer")


class Order(BaseModel):
    items: list[str] | None = None
    courses: list[list[str]] | None = None


class Completion(BaseModel):
    item: str


async def conversation(x_correlation_id: Annotated[str, Header()] = "") -> None:
    CORRELATION.set(x_correlation_id)


def create_app(world: SimulationWorld) -> FastAPI:
    kitchen: Kitchen = world.kernel

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await world.start_application()
        yield
        await world.stop_application()

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(conversation)])

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=409)

    @app.post("/tickets", status_code=201)
    async def place_order(order: Order, x_actor: Annotated[str, Header()]) -> str:
        return await kitchen.PlaceOrder(x_actor, order.items, order.courses)

    @app.post("/tickets/{ticket}/courses/{course}")
    async def start(ticket: str, course: int, x_actor: Annotated[str, Header()]) -> None:
        await kitchen.StartCourse(x_actor, ticket, course)

    @app.post("/tickets/{ticket}/completions")
    async def complete(ticket: str, completion: Completion) -> None:
        await kitchen.CompleteItem(ticket, completion.item)

    @app.post("/tickets/{ticket}/closing")
    async def close(ticket: str) -> None:
        await kitchen.CloseTicket(ticket)

    _queries(app, kitchen)
    return app


def _queries(app: FastAPI, kitchen: Kitchen) -> None:
    @app.get("/tickets")
    async def board() -> dict[str, str]:
        return kitchen.Board()

    @app.get("/tickets/{ticket}")
    async def ticket_view(ticket: str) -> dict[str, Any]:
        return await kitchen.GetTicket(ticket)

    @app.get("/stations/{station}")
    async def station_view(station: str) -> list[str]:
        return kitchen.StationView(station)

    @app.get("/mails")
    async def mails() -> list[str]:
        return kitchen.Mails()

    @app.get("/checks/{name}")
    async def check(name: str) -> str:
        try:
            await getattr(kitchen, OBSERVERS[name].name)()
        except AssertionError as error:
            return str(error) or name
        return ""


class WebFront:
    """The kitchen as its clients see it."""

    def __init__(self, world: SimulationWorld) -> None:
        self._world = world
        self._web: Any = None
        self._client: Any = None

    async def start(self) -> None:
        self._web = await self._world.world.web(create_app(self._world))
        self._client = self._web.client("kitchen")

    async def stop(self) -> None:
        await self._client.aclose()

    async def _send(self, method: str, path: str, actor: str = "", body: Any = None) -> Any:
        headers = {"x-correlation-id": CORRELATION.get(), "x-actor": actor}
        answer: httpx.Response = await self._client.request(
            method, path, headers=headers, json=body
        )
        if answer.status_code == 409:
            raise Refused(answer.json()["detail"])
        answer.raise_for_status()
        return answer.json()

    async def PlaceOrder(self, actor: str, **order: Any) -> str:  # noqa: N802  # as Kitchen has it
        return str(await self._send("POST", "/tickets", actor, order))

    async def StartCooking(self, actor: str, ticket: str) -> None:  # noqa: N802  # as above
        await self.StartCourse(actor, ticket, 1)

    async def StartCourse(self, actor: str, ticket: str, course: int) -> None:  # noqa: N802  # as above
        await self._send("POST", f"/tickets/{ticket}/courses/{course}", actor)

    async def CompleteItem(self, ticket: str, item: str) -> None:  # noqa: N802  # as above
        await self._send("POST", f"/tickets/{ticket}/completions", body={"item": item})

    FinishItem = CompleteItem

    async def CloseTicket(self, ticket: str) -> None:  # noqa: N802  # as above
        await self._send("POST", f"/tickets/{ticket}/closing")

    async def GetTicket(self, ticket: str) -> Any:  # noqa: N802  # as above
        return await self._send("GET", f"/tickets/{ticket}")

    async def GetTicketStatus(self, ticket: str) -> Any:  # noqa: N802  # as above
        return (await self.GetTicket(ticket))["status"]

    async def StationView(self, station: str) -> Any:  # noqa: N802  # as above
        return await self._send("GET", f"/stations/{station}")

    async def Board(self) -> Any:  # noqa: N802  # as above
        return await self._send("GET", "/tickets")

    async def Mails(self) -> Any:  # noqa: N802  # as above
        return await self._send("GET", "/mails")

    async def the_board_is_what_the_events_say(self) -> None:
        await self._check("the_board_is_what_the_events_say")

    async def the_log_is_what_was_appended(self) -> None:
        await self._check("the_log_is_what_was_appended")

    async def _check(self, name: str) -> None:
        wrong = await self._send("GET", f"/checks/{name}")
        assert not wrong, wrong
