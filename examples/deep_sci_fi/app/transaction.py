"""One request is one transaction, committed before its answer is sent.

`Router` is FastAPI's, with a route class that opens a session, runs the endpoint, keeps the answer
under its idempotency key, commits, and only then lets the answer go. A refusal, like any exception,
rolls everything back, except that an agent has called. (A dependency with `yield` would commit
after the answer has been sent, and the client might not read its own write.)

Isolation is PostgreSQL's default, READ COMMITTED. So whoever decides something by what a row says
locks it first, with `locked`, in this order (nobody who holds a later one asks for an earlier one):

    the caller's own user row (auth.py) → suggestion → proposal, aspect, dweller proposal, story,
    event → action → world → dwellers, by their ids → feedback
"""

import asyncio
import re
import uuid
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.background import BackgroundTask

import foretold
from examples.deep_sci_fi.app import bugs, idempotency
from examples.deep_sci_fi.app.callbacks import Courier
from examples.deep_sci_fi.app.failures import FROM_DATABASE, is_passing, refuse
from examples.deep_sci_fi.app.models import Base

Row = TypeVar("Row", bound=Base)


class TransactionalRoute(APIRoute):
    """An endpoint in its transaction."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            bugs.switch_on(request.app.state.settings.bugs)
            db: AsyncSession = request.state.sessions()
            request.state.db = db
            try:
                response = await handle(request)
                await idempotency.remember(request, response)
            except idempotency.AlreadyAnswered as stored:
                response = stored.response
            except (HTTPException, RequestValidationError):
                await _take_back(request, db)
                raise
            except BaseException:
                await db.close()
                raise
            return await _committed(db, response, request.state.courier)

        return answer


async def _take_back(request: Request, db: AsyncSession) -> None:
    """What a refused request has done; except that who sent it was here. If that cannot be written
    now, the refusal is what counts."""
    note_call = getattr(request.state, "note_call", None)
    try:
        await db.rollback()
        if note_call is not None:
            await note_call()
            await db.commit()
    except FROM_DATABASE as error:
        if not is_passing(error):
            raise
    finally:
        await db.close()


async def _committed(db: AsyncSession, response: Response, courier: Courier) -> Response:
    if bugs.on("commit_after_response"):
        response.background = BackgroundTask(_commit, db, courier)
    else:
        await _commit(db, courier)
    return response


async def _commit(db: AsyncSession, courier: Courier) -> None:
    """And tell those whom it concerns; if nobody knows whether it was committed, look later."""
    notes = db.info.get("notes", ())
    try:
        await pause("a slow commit")
        await db.commit()
    except BaseException:
        if notes:
            courier.look_again()
        raise
    else:
        courier.send(notes)
    finally:
        await db.close()


async def open_session(request: Request) -> AsyncSession:
    """The session of this request, as a dependency."""
    db: AsyncSession = request.state.db
    return db


Db = Annotated[AsyncSession, Depends(open_session)]


class Router(APIRouter):
    """A router whose endpoints are transactions."""

    def __init__(self, prefix: str, tag: str) -> None:
        super().__init__(prefix=prefix, tags=[tag], route_class=TransactionalRoute)


async def found(db: AsyncSession, kind: type[Row], key: uuid.UUID) -> Row:
    """A row to look at, or 404."""
    row = await db.get(kind, key)
    return row or refuse(404, f"there is no {spoken(kind)} {key}")


def spoken(kind: type[Base]) -> str:
    """DwellerProposal, as people say it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()


async def locked(db: AsyncSession, kind: type[Row], key: uuid.UUID, unless: str = "") -> Row:
    """A row to decide by and to change: nobody else does, until this request has ended. Or 404.

    `unless` names the bug that forgets the lock.
    """
    if unless and bugs.on(unless):
        return await found(db, kind, key)
    await pause("before a row is locked")
    row = await db.get(kind, key, with_for_update={"key_share": True}, populate_existing=True)
    return row or refuse(404, f"there is no {spoken(kind)} {key}")


async def all_locked(db: AsyncSession, kind: type[Row], *where: Any) -> dict[uuid.UUID, Row]:
    """Several rows, locked in the order of their ids, so that two requests cannot deadlock."""
    key = kind.__table__.c.id
    find = select(kind).where(*where).order_by(key).with_for_update(key_share=True)
    rows: Iterable[Any] = await db.scalars(find.execution_options(populate_existing=True))
    return {row.id: row for row in rows}


async def pause(name: str) -> None:
    """Where a request may take longer than usual; it does in some simulations only."""
    if foretold.buggify(name):
        await asyncio.sleep(0.02)
