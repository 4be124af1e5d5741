"""How things go wrong: refusals with a reason, requests that cannot be read, and a database that is
not there for us.

What the database says is told apart by its SQLSTATE. A lost connection, a deadlock, a restart: the
same request may succeed later, 503. A row that somebody else was faster to write: 409. All else is
a mistake of ours, and a mistake must be seen: 500.
"""

import logging
from typing import Any, NoReturn

import asyncpg
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

log = logging.getLogger(__name__)

FROM_DATABASE = (
    DBAPIError,
    PoolTimeout,
    asyncpg.InterfaceError,  # SQLAlchemy wraps neither of these while a connection is made
    asyncpg.PostgresError,
    OSError,
)
"""What comes out of a session when something is wrong."""
PASSING_CLASSES = {"08", "40", "53", "55", "57", "58"}
"""No connection, rolled back, no resources, in use, an operator's hand, the system below."""
PASSING_STATES = {"25006", "25P03", "25P04"}
"""A server that is read-only for now, and transactions that took too long."""
CONFLICTS = {"23503", "23505", "23P01"}
"""What is referred to is gone, or what should be the only one is there already."""


def refuse(code: int, why: str, **headers: str) -> NoReturn:
    """End the request with this answer; what it has done so far is rolled back."""
    raise HTTPException(code, why, headers=headers or None)


def is_passing(error: Exception) -> bool:
    """Whether the same request may succeed if it is sent again later."""
    state = _state(error)
    if state is not None:
        return state[:2] in PASSING_CLASSES or state in PASSING_STATES
    if isinstance(error, DBAPIError):
        lost = error.connection_invalidated
        return lost or isinstance(error, OperationalError | InterfaceError)
    return True


def _state(error: Exception) -> str | None:
    """The SQLSTATE, if there is one; what the driver says by itself may have none."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)


def install_handlers(app: FastAPI) -> None:
    """How failures are answered."""

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": [_told(wrong) for wrong in error.errors()]}, 422)

    @app.exception_handler(IntegrityError)
    async def conflict(request: Request, error: IntegrityError) -> JSONResponse:
        if _state(error) not in CONFLICTS:
            raise error
        log.warning("%s %s: %s", request.method, request.url.path, error.orig)
        return JSONResponse({"detail": "another change came first"}, 409)

    async def unavailable(request: Request, error: Exception) -> JSONResponse:
        if not is_passing(error):
            raise error
        log.warning("%s %s: %s", request.method, request.url.path, error)
        answer = {"detail": "the database does not answer, please try again"}
        return JSONResponse(answer, 503, headers={"Retry-After": "1"})

    for kind in FROM_DATABASE:
        app.add_exception_handler(kind, unavailable)


def _told(wrong: dict[str, Any]) -> dict[str, Any]:
    """What is wrong, and where. Not what was sent: there may be no JSON for it, such as NaN, and
    no UTF-8; nor for the name of an unknown field."""
    where = [_written(part) if isinstance(part, str) else part for part in wrong["loc"]]
    return {"type": wrong["type"], "loc": where, "msg": _written(wrong["msg"])}


def _written(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
