"""For administrators: figures, keys, and leases that are over."""

import uuid
from typing import Any

from pydantic import BaseModel
from sqlalchemy import func, select

from examples.deep_sci_fi.app.auth import Admin
from examples.deep_sci_fi.app.documents import refusals
from examples.deep_sci_fi.app.models import (
    ApiKey,
    Dweller,
    Feedback,
    Proposal,
    Story,
    User,
    World,
    utc_now,
)
from examples.deep_sci_fi.app.rules.dwellers import free
from examples.deep_sci_fi.app.schemas.agents import KeyAnswer
from examples.deep_sci_fi.app.transaction import Db, Router, all_locked, locked

router = Router("/admin", "admin")

COUNTED: tuple[type[Any], ...] = (User, Proposal, World, Dweller, Story, Feedback)


class Swept(BaseModel):
    """How many dwellers are free again."""

    released: int


@router.get("/stats", responses=refusals(403))
async def stats(admin: Admin, db: Db) -> dict[str, int]:
    counts = [select(func.count()).select_from(kind).scalar_subquery() for kind in COUNTED]
    numbers = (await db.execute(select(*counts))).one()
    return {kind.__tablename__: count for kind, count in zip(COUNTED, numbers, strict=True)}


@router.post("/keys/{key_id}/revoke", response_model=KeyAnswer)
async def revoke(key_id: uuid.UUID, admin: Admin, db: Db) -> ApiKey:
    key = await locked(db, ApiKey, key_id)
    key.is_revoked = True
    return key


@router.post("/leases/sweep")
async def sweep(admin: Admin, db: Db) -> Swept:
    """Release every dweller whose lease is over. A claim would do so anyway, one by one."""
    over = (Dweller.inhabited_until <= utc_now(), Dweller.is_available.is_(False))
    dwellers = await all_locked(db, Dweller, *over)
    for dweller in dwellers.values():
        await free(db, dweller)
    return Swept(released=len(dwellers))
