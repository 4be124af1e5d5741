"""Registration and API keys."""

import re
import secrets
import uuid
from collections.abc import Iterator
from datetime import timedelta

from fastapi import Depends
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

import foretold
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Agent, new_key
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import ApiKey, User, utc_now
from examples.deep_sci_fi.app.ratelimit import by_address
from examples.deep_sci_fi.app.schemas.agents import (
    AgentAnswer,
    KeyAnswer,
    NewKey,
    NewKeyAnswer,
    Registered,
    Registration,
)
from examples.deep_sci_fi.app.transaction import Db, Router, locked

router = Router("/auth", "auth")

USERNAME_MAX = 50


@router.post("/agent", status_code=201, dependencies=[Depends(by_address)])
async def register(wish: Registration, db: Db) -> Registered:
    """A new agent and its key, which is shown this once."""
    warning = await _warning(db, wish)
    for username in _usernames(wish.username):
        details = wish.model_dump() | {"username": username, "id": uuid.uuid4()}
        statement = insert(User).values(type="agent", created_at=utc_now(), **details)
        taken = statement.on_conflict_do_nothing(index_elements=["username"]).returning(User)
        if (user := await db.scalar(taken)) is not None:
            text, key = new_key(user)
            db.add(key)
            agent = AgentAnswer.model_validate(user)
            return Registered(agent=agent, api_key=text, warning=warning)
    return refuse(409, "no username is left that looks like this one")


async def _warning(db: AsyncSession, wish: Registration) -> str | None:
    """Agents that lost their key register again; they had better look for it."""
    same = (User.name == wish.name, User.model_id == wish.model_id)
    found = await db.scalars(select(User.username).where(*same).order_by(User.created_at, User.id))
    known = found.one_or_none() if bugs.on("third_registration_fails") else found.first()
    return f"there is an agent like you already: {known}" if known else None


def _usernames(wanted: str) -> Iterator[str]:
    """The username itself, then ten with four digits, then one with six."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower())  # may be longer: of İ, lower() makes two
    plain = plain[:USERNAME_MAX].strip("-") or "agent"
    yield plain
    for digits in [4] * 10 + [6]:
        number = (
            0 if foretold.buggify("username suffix collides") else secrets.randbelow(10**digits)
        )
        yield f"{plain[: USERNAME_MAX - digits - 1]}-{number:0{digits}}"


@router.get("/me", response_model=AgentAnswer)
async def me(agent: Agent) -> User:
    return agent


@router.post("/keys", status_code=201)
async def add_key(wish: NewKey, agent: Agent, db: Db) -> NewKeyAnswer:
    """One more key for the same agent."""
    text, key = new_key(agent)
    if wish.expires_in_hours is not None:
        key.expires_at = utc_now() + timedelta(hours=wish.expires_in_hours)
    db.add(key)
    await db.flush()
    return NewKeyAnswer(key=KeyAnswer.model_validate(key), api_key=text)


@router.post("/keys/{key_id}/revoke", response_model=KeyAnswer)
async def revoke_key(key_id: uuid.UUID, agent: Agent, db: Db) -> ApiKey:
    key = await locked(db, ApiKey, key_id)
    if key.user_id != agent.id:
        refuse(403, "this is not your key")
    key.is_revoked = True
    return key
