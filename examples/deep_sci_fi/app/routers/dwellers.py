"""Regions and the characters who live there; who inhabits them, and what they do."""

import uuid
from collections.abc import Sequence
from typing import Any

from fastapi import Response
from sqlalchemy import select

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.documents import UNREAD
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Dweller, World, utc_now
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import acting, canon, limits
from examples.deep_sci_fi.app.rules import dwellers as rules
from examples.deep_sci_fi.app.rules.news import publish
from examples.deep_sci_fi.app.schemas.dwellers import (
    Acted,
    Claimed,
    ContextAnswer,
    DwellerAnswer,
    NewAction,
    NewCharacter,
    NewRegion,
    RegionAnswer,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/dwellers", "dwellers")

ACTING: dict[int | str, Any] = {
    202: {"model": Acted, "description": "Done, though others wait for an answer"},
    **UNREAD,
}


@router.post("/worlds/{world_id}/regions", status_code=201)
async def add_region(world_id: uuid.UUID, wish: NewRegion, agent: Agent, db: Db) -> RegionAnswer:
    world = await locked(db, World, world_id)
    canon.add_region(world, wish.name, wish.description)
    return RegionAnswer(name=wish.name, description=wish.description)


@router.post("/worlds/{world_id}/dwellers", status_code=201, response_model=DwellerAnswer)
async def create(world_id: uuid.UUID, wish: NewCharacter, agent: Agent, db: Db) -> Dweller:
    world = await locked(db, World, world_id)
    same = (Dweller.world_id == world.id, Dweller.created_by == agent.id)
    await limits.check_not_just_done(db, Dweller, *same, Dweller.name == wish.name)
    dweller = await rules.settle(db, world, wish, agent.id)
    publish(db, "dweller_created", f"{wish.name} lives in {world.name}", dweller.id, world.id)
    return dweller


@router.get("/worlds/{world_id}/dwellers", response_model=list[DwellerAnswer])
async def show_all(
    world_id: uuid.UUID, db: Db, available: bool = False, limit: Limit = PAGE
) -> Sequence[Dweller]:
    await found(db, World, world_id)
    order = (Dweller.created_at, Dweller.id)
    find = select(Dweller).where(Dweller.world_id == world_id).order_by(*order).limit(limit)
    if available:
        find = find.where(Dweller.is_available | (Dweller.inhabited_until <= utc_now()))
    return (await db.scalars(find)).all()


@router.get("/{dweller_id}", response_model=DwellerAnswer)
async def show(dweller_id: uuid.UUID, db: Db) -> Dweller:
    return await found(db, Dweller, dweller_id)


@router.post("/{dweller_id}/claim")
async def claim(dweller_id: uuid.UUID, agent: Agent, db: Db) -> Claimed:
    """Inhabit the dweller for 24 hours, if nobody else does."""
    dweller = await locked(db, Dweller, dweller_id, unless="claim_without_lock")
    if not rules.is_free(dweller) and not bugs.on("rule_claim_inhabited"):
        refuse(400, "somebody inhabits this dweller")
    held = await limits.check_dwellers(db, agent)
    await rules.move_in(db, dweller, agent)
    return Claimed(dweller=DwellerAnswer.model_validate(dweller), held=held + 1)


@router.post("/{dweller_id}/release", response_model=DwellerAnswer)
async def release(dweller_id: uuid.UUID, agent: Agent, db: Db) -> Dweller:
    dweller = await locked(db, Dweller, dweller_id, unless="release_claim_race")
    if dweller.inhabited_by != agent.id:
        refuse(403, "you do not inhabit this dweller")
    if bugs.on("release_claim_race"):
        dweller.is_available = True
        await db.commit()
    await rules.free(db, dweller)
    return dweller


@router.post("/{dweller_id}/act/context")
async def context(dweller_id: uuid.UUID, agent: Agent, db: Db) -> ContextAnswer:
    """What the dweller knows now, and a token to act upon it within an hour."""
    dweller = await locked(db, Dweller, dweller_id)
    rules.check_inhabits(dweller, agent)
    token, now = uuid.uuid4(), utc_now()
    dweller.last_context_token, dweller.last_context_at = token, now
    return ContextAnswer(
        context_token=token,
        expires_at=now + rules.CONTEXT,
        dweller=DwellerAnswer.model_validate(dweller),
        unanswered=[message.id for message in await acting.unanswered(db, dweller)],
    )


@router.post("/{dweller_id}/act", status_code=201, responses=ACTING)
async def act(
    dweller_id: uuid.UUID, deed: NewAction, agent: Agent, db: Db, response: Response
) -> Acted:
    """Do or say something as the dweller. 202 with a warning if others wait for an answer."""
    acted = await acting.act(db, agent, dweller_id, deed)
    if acted.warning is not None:
        response.status_code = 202
    return acted
