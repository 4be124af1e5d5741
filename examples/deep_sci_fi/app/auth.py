"""Who is calling: API keys, sent as X-API-Key or as a bearer token, kept as hashes."""

import functools
import hashlib
import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs, idempotency
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import ApiKey, User
from examples.deep_sci_fi.app.transaction import Db

PREFIX_LENGTH = 12
THROTTLE = timedelta(minutes=1)
IN_HEADER = APIKeyHeader(name="X-API-Key", scheme_name="api_key", auto_error=False)
BEARER = HTTPBearer(scheme_name="bearer", auto_error=False)
OR_WITHOUT_KEY: dict[str, Any] = {"security": [{}]}
"""For the document, of operations that know `AgentOrPublic`."""


def new_key(user: User) -> tuple[str, ApiKey]:
    """A fresh key: its text, which is shown once, and what is kept of it."""
    text = "dsf_" + secrets.token_urlsafe(32)
    return text, ApiKey(user_id=user.id, key_hash=hashed(text), prefix=text[:PREFIX_LENGTH])


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def sent_key(
    in_header: Annotated[str | None, Security(IN_HEADER)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)],
) -> str | None:
    """The key of this request, if it has one."""
    if in_header is None and bearer is not None:
        return bearer.credentials
    return in_header


SentKey = Annotated[str | None, Depends(sent_key)]


def _key_is(text: str) -> tuple[ColumnElement[bool], ...]:
    lasts = or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > datetime.now(UTC))
    return ApiKey.key_hash == hashed(text), ApiKey.is_revoked.is_(False), lasts


async def _look_up(db: AsyncSession, text: str) -> User:
    """The agent with this key, or 401."""
    user = await db.scalar(select(User).join(ApiKey).where(*_key_is(text)))
    return user or refuse(401, "this API key is not valid")


async def _touch(db: AsyncSession, text: str) -> User:
    """The agent with this key, or 401; and note the call.

    The note is more than a statistic: from here to the end of the request the agent's row is
    locked. So one agent's requests come one after the other, and whoever counts what an agent has
    (`rules/limits.py`) counts right.
    """
    return await _note(db, text) or refuse(401, "this API key is not valid")


async def _note(db: AsyncSession, text: str) -> User | None:
    now = datetime.now(UTC)
    used = update(ApiKey).where(ApiKey.key_hash == hashed(text)).values(last_used_at=now)
    whose = select(ApiKey.user_id).where(*_key_is(text)).scalar_subquery()
    note = update(User).where(User.id == whose).values(last_active_at=now).returning(User)
    fresh = {"synchronize_session": False, "populate_existing": True}
    return await db.scalar(note.add_cte(used.cte("used")), execution_options=fresh)


async def _seen_lately(db: AsyncSession, text: str) -> User | None:
    user = await _look_up(db, text)
    seen = user.last_active_at
    return user if seen is not None and datetime.now(UTC) - seen < THROTTLE else None


async def _nobody(db: AsyncSession) -> User:
    if bugs.on("rule_unauthenticated_writes"):
        everybody = await db.scalars(select(User).order_by(User.created_at, User.id))
        return everybody.first() or refuse(401, "nobody is registered")
    return refuse(401, "send your API key as X-API-Key")


async def authenticate(request: Request, db: Db, text: SentKey) -> User:
    """The calling agent. Its idempotency key is looked at before anything is locked."""
    if text is None:
        return await _nobody(db)
    if idempotency.concerns(request):
        await _recall(request, db, text)
    if bugs.on("touch_throttled") and (user := await _seen_lately(db, text)):
        return user
    user = await _touch(db, text)
    request.state.note_call = functools.partial(_note, db, text)
    if bugs.on("limits_count_then_insert"):
        await db.commit()
    return user


async def _recall(request: Request, db: AsyncSession, text: str) -> None:
    """Who asks again is around, too. (Not noted is a request whose twin is in progress: it would
    have to wait for the twin, which notes the call for both.)"""
    try:
        await idempotency.recall(request, (await _look_up(db, text)).id)
    except idempotency.AlreadyAnswered:
        await _note(db, text)
        raise


async def perhaps_authenticate(request: Request, db: Db, text: SentKey) -> User | None:
    """The calling agent, if there is one: for pages that the public may read."""
    return None if text is None else await authenticate(request, db, text)


async def require_admin(request: Request, text: SentKey) -> str:
    """An administrator's key: 401 without a key, 403 with another one. Idempotency keys belong to
    it as they belong to an agent; its hash stands for the id."""
    if text is None:
        refuse(401, "send your API key as X-API-Key")
    if text not in request.app.state.settings.admin_keys:
        refuse(403, "only administrators may do this")
    if idempotency.concerns(request):
        await idempotency.recall(request, uuid.UUID(hashed(text)[:32]))
    return text


Agent = Annotated[User, Depends(authenticate)]
AgentOrPublic = Annotated[User | None, Depends(perhaps_authenticate)]
Admin = Annotated[str, Depends(require_admin)]
