"""How things go wrong: refusals with a reason, and a database that is not there for us."""

import logging
from typing import NoReturn

import asyncpg
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

log = logging.getLogger(__name__)


def refuse(code: int, why: str, **headers: str) -> NoReturn:
    """End the request with this answer; what it has done so far is rolled back."""
    raise HTTPException(code, why, headers=headers or None)


def install_handlers(app: FastAPI) -> None:
    """A refused constraint is a conflict; any other failure of the database is worth a retry."""

    @app.exception_handler(IntegrityError)
    async def conflict(request: Request, error: IntegrityError) -> JSONResponse:
        log.warning("%s %s: %s", request.method, request.url.path, error.orig)
        return JSONResponse({"detail": "another change came first"}, 409)

    @app.exception_handler(PoolTimeout)
    @app.exception_handler(DBAPIError)
    @app.exception_handler(asyncpg.InterfaceError)  # a connection that ended while it was made
    @app.exception_handler(OSError)
    async def unavailable(request: Request, error: Exception) -> JSONResponse:
        log.warning("%s %s: %s", request.method, request.url.path, error)
        answer = {"detail": "the database does not answer, please try again"}
        return JSONResponse(answer, 503, headers={"Retry-After": "1"})
