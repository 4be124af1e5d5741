"""A Litestar application under `world.web`, unmodified: guards, background tasks, lifespan."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar import Litestar, Request, Response, get, post
from litestar.background_tasks import BackgroundTask
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, TooManyRequestsException
from litestar.handlers import BaseRouteHandler
from litestar.params import JSONBody
from litestar.response import Stream
from litestar.types import ASGIApp, Receive, Scope, Send

from tests.compat.scene import check, for_each
from tests.compat.web import EVENTS, NOTES, TOKENS, Limiter, commit, scenarios_of


@contextlib.asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    """The limiter lives as long as the process."""
    EVENTS.append("startup")
    app.state.limiter = Limiter()
    yield
    EVENTS.append("shutdown")


def known(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """A guard: only who has a token comes in."""
    if connection.headers.get("authorization") not in TOKENS:
        raise NotAuthorizedException


def limited(app: ASGIApp) -> ASGIApp:
    """Middleware: the limiter, for every request."""

    async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
        client: Any = scope["client"]
        if not scope["litestar_app"].state.limiter.allows(client[0]):
            raise TooManyRequestsException
        await app(scope, receive, send)

    return middleware


@get("/me", guards=[known])
async def me(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Who asks."""
    assert request.client is not None
    return {"name": TOKENS[request.headers["authorization"]], "address": request.client.host}


@post("/notes", guards=[known])
async def add(data: JSONBody[dict[str, str]]) -> Response[dict[str, str]]:
    """A note that is written after the response."""
    return Response(data, background=BackgroundTask(commit, data["text"]))


@get("/count", sync_to_thread=True)
def count() -> dict[str, int]:
    """In a thread."""
    return {"count": len(NOTES)}


@get("/stream")
async def stream() -> Stream:
    """A body in five parts."""

    async def parts() -> AsyncIterator[str]:
        for number in range(5):
            yield str(number)
            await asyncio.sleep(0.01)

    return Stream(parts())


@get("/fails")
async def fails() -> None:
    """A bug."""
    raise ValueError("a bug")


@get("/slow")
async def slow() -> None:
    """Takes a second."""
    await asyncio.sleep(1)


def application() -> Litestar:
    """As its users write it."""
    return Litestar(
        [me, add, count, stream, fails, slow],
        lifespan=[lifespan],
        logging_config=None,  # it would change how all of our tests log
        middleware=[limited],
    )


ALL = scenarios_of(__name__, application)


# A killed process closes nothing. Litestar's handlers, which are globals here, keep the application
# of the last run, and what that had open goes when the next one takes its place.
@pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")
@for_each(*ALL)
def test_litestar(main: Any) -> None:
    """Credentials, a limiter, background tasks, streams and a restart, on every tape."""
    check(main)
    assert EVENTS == ["startup", "startup", "shutdown"], "one process was killed, the other ended"
