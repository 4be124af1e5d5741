"""A request that is sent twice under one Idempotency-Key is done once, and answered twice.

Keys belong to who sends them, an agent or an administrator, so a request without authentication has
none: who registers twice is two agents.

The answer is stored in the transaction of the request itself: either both are there or neither is,
and a crash leaves nothing "in progress". While a request runs it holds an advisory lock on (caller,
key), which PostgreSQL drops with the transaction, whatever becomes of us. So a duplicate

    finds the answer, and gets it          after the first has succeeded
    finds the lock taken, and gets 409     while the first runs
    finds neither, and runs                after the first has failed
"""

import hashlib
import uuid

from fastapi import Request, Response
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import IdempotencyKey

HEADER = "idempotency-key"
METHODS = {"POST", "PUT", "PATCH"}


class AlreadyAnswered(Exception):
    """This request was done before; here is what was answered."""

    def __init__(self, response: Response) -> None:
        self.response = response


def concerns(request: Request) -> bool:
    """Whether the request has a key, and may change something."""
    return request.method in METHODS and HEADER in request.headers


async def recall(request: Request, caller_id: uuid.UUID) -> None:
    """Look the caller's key up. Raises AlreadyAnswered if this request was done before."""
    try:
        key = uuid.UUID(request.headers[HEADER])
    except ValueError:
        refuse(400, "an Idempotency-Key is a UUID")
    db: AsyncSession = request.state.db
    if not bugs.on("idempotency_runs_twice"):
        await _lock(db, caller_id, key)
    stored = await _find(db, caller_id, key)
    fingerprint = await _fingerprint(request)
    if stored is not None:
        if stored.fingerprint != fingerprint:
            refuse(422, "this Idempotency-Key belongs to another request")
        raise AlreadyAnswered(Response(stored.body, stored.code, media_type="application/json"))
    request.state.idempotency = (caller_id, key, fingerprint)


async def _lock(db: AsyncSession, caller_id: uuid.UUID, key: uuid.UUID) -> None:
    digest = hashlib.blake2b(caller_id.bytes + key.bytes, digest_size=8).digest()
    number = int.from_bytes(digest, "big", signed=True)
    if not await db.scalar(select(func.pg_try_advisory_xact_lock(number))):
        refuse(409, "this request is in progress", **{"Retry-After": "1"})


async def _find(db: AsyncSession, caller_id: uuid.UUID, key: uuid.UUID) -> IdempotencyKey | None:
    find = select(IdempotencyKey).where(IdempotencyKey.key == key)
    if not bugs.on("idempotency_key_unscoped"):
        find = find.where(IdempotencyKey.caller_id == caller_id)
    return (await db.scalars(find.limit(1))).first()


async def _fingerprint(request: Request) -> str:
    """What makes two requests the same: where they go, and what they say."""
    body = await request.body()
    return hashlib.sha256(f"{request.method} {request.url.path}\n".encode() + body).hexdigest()


async def remember(request: Request, response: Response) -> None:
    """Keep the answer of a request that succeeded, in its own transaction."""
    claim = getattr(request.state, "idempotency", None)
    if claim is None or response.status_code >= 400:
        return
    caller_id, key, fingerprint = claim
    row = {"caller_id": caller_id, "key": key, "fingerprint": fingerprint}
    row |= {"code": response.status_code, "body": bytes(response.body).decode()}
    db: AsyncSession = request.state.db
    statement = insert(IdempotencyKey).values(**row)
    if bugs.on("idempotency_runs_twice"):
        statement = statement.on_conflict_do_nothing()
    await db.execute(statement)
