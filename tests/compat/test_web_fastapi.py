"""A FastAPI application under `world.web`, unmodified: dependencies, middleware, lifespan."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from tests.compat.scene import check, for_each
from tests.compat.web import EVENTS, NOTES, TOKENS, Limiter, commit, scenarios_of


class Note(BaseModel):
    """What a client sends."""

    text: str


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """The limiter lives as long as the process."""
    EVENTS.append("startup")
    yield {"limiter": Limiter()}
    EVENTS.append("shutdown")


async def unit_of_work() -> AsyncIterator[list[str]]:
    """As sessions are used: since FastAPI 0.118 it is committed after the response."""
    added: list[str] = []
    yield added
    for text in added:
        await commit(text)


async def user(authorization: Annotated[str | None, Header()] = None) -> str:
    """Who asks."""
    if authorization not in TOKENS:
        raise HTTPException(401, "who are you?")
    return TOKENS[authorization]


async def parts() -> AsyncIterator[str]:
    """A body in five parts."""
    for number in range(5):
        yield str(number)
        await asyncio.sleep(0.01)


def application() -> FastAPI:
    """As its users write it."""
    app = FastAPI(lifespan=lifespan)

    @app.middleware("http")
    async def limit(request: Request, call_next: Any) -> Response:
        assert request.client is not None
        if not request.state.limiter.allows(request.client.host):
            return JSONResponse({"detail": "slowly, please"}, 429)
        answer: Response = await call_next(request)
        return answer

    @app.get("/me")
    async def me(request: Request, name: Annotated[str, Depends(user)]) -> dict[str, str]:
        assert request.client is not None
        return {"name": name, "address": request.client.host}

    @app.post("/notes", status_code=201)
    async def add(
        note: Note,
        name: Annotated[str, Depends(user)],
        work: Annotated[list[str], Depends(unit_of_work)],
    ) -> Note:
        work.append(note.text)
        return note

    @app.get("/count")
    def count() -> dict[str, int]:
        return {"count": len(NOTES)}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(parts())

    @app.get("/fails")
    async def fails() -> None:
        raise ValueError("a bug")

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(1)

    return app


ALL = scenarios_of(__name__, application)


@for_each(*ALL)
def test_fastapi(main: Any) -> None:
    """Credentials, a limiter, late commits, streams and a restart, on every tape."""
    check(main)
    assert EVENTS == ["startup", "startup", "shutdown"], "one process was killed, the other ended"
