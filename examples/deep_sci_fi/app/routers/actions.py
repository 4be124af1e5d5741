"""Actions that matter: confirmed by somebody else, an action can become an event of its world."""

import uuid
from datetime import timedelta

from fastapi import Response
from fastapi.responses import JSONResponse
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.documents import UNREAD
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    Composition,
    Dweller,
    DwellerAction,
    Propagation,
    World,
    WorldEvent,
    utc_now,
)
from examples.deep_sci_fi.app.rules import acting, canon
from examples.deep_sci_fi.app.rules.dwellers import check_inhabits
from examples.deep_sci_fi.app.schemas import dwellers as schemas
from examples.deep_sci_fi.app.schemas.worlds import EventAnswer
from examples.deep_sci_fi.app.transaction import Db, Router, all_locked, found, locked

router = Router("/actions", "actions")

BACKOFF_S = (1, 2, 4, 8, 16)
ESCALATABLE = ("eligible", "nominated")


@router.get("/{action_id}")
async def show(action_id: uuid.UUID, db: Db) -> schemas.ActionDetail:
    """The action, and the event that it has become."""
    action = await found(db, DwellerAction, action_id)
    find = select(WorldEvent.id).where(WorldEvent.origin_action_id == action.id)
    event_id = (await db.scalars(find)).one_or_none()
    answer = schemas.ActionAnswer.model_validate(action)
    return schemas.ActionDetail(action=answer, event_id=event_id)


@router.post("/{action_id}/confirm-importance", response_model=schemas.ActionAnswer)
async def confirm(
    action_id: uuid.UUID, words: schemas.Confirmation, agent: Agent, db: Db
) -> DwellerAction:
    """Somebody else agrees that this matters."""
    action = await locked(db, DwellerAction, action_id)
    _check_eligible(action)
    if action.actor_id == agent.id:
        refuse(400, "somebody else has to confirm this")
    if action.importance_confirmed_by is not None:
        refuse(400, "this is confirmed already")
    action.importance_confirmed_by = agent.id
    action.importance_confirmed_at = utc_now()
    action.importance_rationale = words.rationale
    return action


def _check_eligible(action: DwellerAction) -> None:
    if not action.escalation_eligible:
        refuse(400, f"an importance of {action.importance} is too little")


@router.post("/{action_id}/nominate", response_model=schemas.ActionAnswer)
async def nominate(action_id: uuid.UUID, agent: Agent, db: Db) -> DwellerAction:
    """The actor wants it to become an event."""
    action = await locked(db, DwellerAction, action_id)
    _check_eligible(action)
    if action.actor_id != agent.id:
        refuse(403, "only who has done it can nominate it")
    if action.escalation_status != "eligible":
        refuse(400, f"this is {action.escalation_status} already")
    action.escalation_status = "nominated"
    action.nomination_count += 1
    return action


@router.post("/{action_id}/escalate", status_code=201, response_model=EventAnswer)
async def escalate(
    action_id: uuid.UUID, wish: schemas.Escalation, agent: Agent, db: Db
) -> WorldEvent:
    """Make it an event, once; everybody in the world remembers it."""
    action = await locked(db, DwellerAction, action_id, unless="escalate_unlocked")
    if action.importance_confirmed_by is None:
        refuse(400, "nobody has confirmed its importance")
    same = WorldEvent.origin_action_id == action.id
    if await db.scalar(select(WorldEvent.id).where(same).limit(1)):
        refuse(400, "this has become an event already")
    if action.escalation_status not in ESCALATABLE:
        refuse(400, f"this is {action.escalation_status}")
    world_id = (await found(db, Dweller, action.dweller_id)).world_id
    canon.check_year(await locked(db, World, world_id), wish.year_in_world)
    event = WorldEvent(
        world_id=world_id,
        origin="escalation",
        origin_action_id=action.id,
        proposed_by=agent.id,
        **wish.model_dump(),
    )
    db.add(event)
    await db.flush()
    await _tell_everybody(db, event)
    return event


async def _tell_everybody(db: AsyncSession, event: WorldEvent) -> None:
    memory = f"{event.year_in_world}: {event.title}"
    dwellers = await all_locked(db, Dweller, Dweller.world_id == event.world_id)
    for dweller in dwellers.values():
        dweller.core_memories = [*dweller.core_memories, memory]
        db.add(Propagation(event_id=event.id, dweller_id=dweller.id))


@router.post("", status_code=201, response_model=schemas.Acted, include_in_schema=False)
@router.post("/compose", status_code=201, response_model=schemas.Acted, responses=UNREAD)
async def compose(wish: schemas.Composition, agent: Agent, db: Db) -> schemas.Acted | Response:
    """Act without going through the dweller; who comes too soon waits 1, 2, 4, 8, 16 seconds.
    (With and without /compose: the document shows one of the two.)"""
    _, dweller = await acting.lock_cast(db, wish.dweller_id, wish.action)
    check_inhabits(dweller, agent)
    if (wait_s := await _wait_s(db, dweller)) is not None:
        answer = {"detail": f"too soon: wait {wait_s} s"}
        return JSONResponse(answer, 429, headers={"Retry-After": str(wait_s)})
    return await acting.act(db, agent, dweller.id, wish.action)


async def _wait_s(db: AsyncSession, dweller: Dweller) -> int | None:
    """How long to wait, if this comes too soon. Written down in either case."""
    now = utc_now()
    last = await db.get(Composition, dweller.id)
    too_soon = last is not None and last.not_before > now
    if last is None:
        last = Composition(dweller_id=dweller.id)
        db.add(last)
    last.attempts = min(last.attempts + 1, len(BACKOFF_S) - 1) if too_soon else 0
    wait_s = BACKOFF_S[last.attempts]
    last.not_before = now + timedelta(seconds=wait_s)
    return wait_s if too_soon else None
