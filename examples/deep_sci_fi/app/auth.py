"""Who is calling: API keys, sent as X-API-Key or as a bearer token, kept as hashes."""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, Header, Request
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs, idempotency
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import ApiKey, User
from examples.deep_sci_fi.app.transaction import Db

PREFIX_LENGTH = 12
THROTTLE = timedelta(minutes=1)


def new_key(user: User) -> tuple[str, ApiKey]:
    """A fresh key: its text, which is shown once, and what is kept of it."""
    text = "dsf_" + secrets.token_urlsafe(32)
    return text, ApiKey(user_id=user.id, key_hash=hashed(text), prefix=text[:PREFIX_LENGTH])


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def sent_key(
    x_api_key: Annotated[str | None, Header()] = None,
    authorization: Annotated[str | None, Header()] = None,
) -> str | None:
    """The key of this request, if it has one."""
    if x_api_key is None and authorization and authorization.lower().startswith("bearer "):
        return authorization[len("bearer ") :].strip()
    return x_api_key


SentKey = Annotated[str | None, Depends(sent_key)]


async def _whose(db: AsyncSession, text: str) -> tuple[ApiKey, User]:
    """The key and its agent, or 401."""
    find = select(ApiKey, User).join(User).where(ApiKey.key_hash == hashed(text))
    row = (await db.execute(find)).one_or_none()
    if row is None or row.ApiKey.is_revoked or _expired(row.ApiKey):
        refuse(401, "this API key is not valid")
    return row.ApiKey, row.User


def _expired(key: ApiKey) -> bool:
    return key.expires_at is not None and key.expires_at <= datetime.now(UTC)


async def _touch(db: AsyncSession, key: ApiKey, user: User) -> None:
    """Note the call. More than a statistic: from here to the end of the request the agent's row is
    locked. So one agent's requests come one after the other, and whoever counts what an agent has
    (`rules/limits.py`) counts right. What the row says is read again, now that it is ours."""
    now = datetime.now(UTC)
    seen = user.last_active_at
    if bugs.on("touch_throttled") and seen is not None and now - seen < THROTTLE:
        return
    used = update(ApiKey).where(ApiKey.id == key.id).values(last_used_at=now).cte("used")
    note = update(User).where(User.id == user.id).values(last_active_at=now).add_cte(used)
    await db.scalar(note.returning(User).execution_options(populate_existing=True))


async def authenticate(request: Request, db: Db, text: SentKey) -> User:
    """The calling agent. Its idempotency key is looked at before anything is locked."""
    if text is None:
        if bugs.on("rule_unauthenticated_writes"):
            return (await db.scalars(select(User).order_by(User.created_at, User.id))).first() or (
                refuse(401, "nobody is registered")
            )
        refuse(401, "send your API key as X-API-Key")
    key, user = await _whose(db, text)
    if bugs.on("limits_count_then_insert"):
        await _touch(db, key, user)
        await db.commit()
        await idempotency.recall(request, user)
        return user
    await idempotency.recall(request, user)
    await _touch(db, key, user)
    return user


async def perhaps_authenticate(request: Request, db: Db, text: SentKey) -> User | None:
    """The calling agent, if there is one: for pages that the public may read."""
    return None if text is None else await authenticate(request, db, text)


async def require_admin(request: Request, text: SentKey) -> str:
    """An administrator's key: 401 without a key, 403 with another one."""
    if text is None:
        refuse(401, "send your API key as X-API-Key")
    if text not in request.app.state.settings.admin_keys:
        refuse(403, "only administrators may do this")
    return text


Agent = Annotated[User, Depends(authenticate)]
AgentOrPublic = Annotated[User | None, Depends(perhaps_authenticate)]
Admin = Annotated[str, Depends(require_admin)]
