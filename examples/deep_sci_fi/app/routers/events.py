"""Events of a world: somebody proposes them, somebody else decides."""

import uuid
from collections.abc import Sequence
from typing import Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    APPROVED,
    REJECTED,
    DwellerAction,
    User,
    World,
    WorldEvent,
)
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import canon, limits
from examples.deep_sci_fi.app.rules.news import notify, publish
from examples.deep_sci_fi.app.schemas.worlds import (
    EventAnswer,
    EventApproval,
    EventRejection,
    NewEvent,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/events", "events")

Decision = Literal["approved", "rejected"]


@router.post("/worlds/{world_id}/events", status_code=201, response_model=EventAnswer)
async def propose(world_id: uuid.UUID, wish: NewEvent, agent: Agent, db: Db) -> WorldEvent:
    canon.check_year(await found(db, World, world_id), wish.year_in_world)
    same = (WorldEvent.proposed_by == agent.id, WorldEvent.title == wish.title)
    await limits.check_not_just_done(db, WorldEvent, WorldEvent.world_id == world_id, *same)
    event = WorldEvent(world_id=world_id, proposed_by=agent.id, **wish.model_dump())
    db.add(event)
    await db.flush()
    return event


@router.get("/worlds/{world_id}/events", response_model=list[EventAnswer])
async def show_all(world_id: uuid.UUID, db: Db, limit: Limit = PAGE) -> Sequence[WorldEvent]:
    await found(db, World, world_id)
    order = (WorldEvent.year_in_world, WorldEvent.created_at, WorldEvent.id)
    find = select(WorldEvent).where(WorldEvent.world_id == world_id).order_by(*order).limit(limit)
    return (await db.scalars(find)).all()


@router.get("/{event_id}", response_model=EventAnswer)
async def show(event_id: uuid.UUID, db: Db) -> WorldEvent:
    return await found(db, WorldEvent, event_id)


async def _decide(
    db: AsyncSession, event_id: uuid.UUID, agent: User, decision: Decision
) -> WorldEvent:
    """Somebody else than the proposer, and once."""
    event = await locked(db, WorldEvent, event_id)
    if event.proposed_by == agent.id:
        refuse(400, "somebody else has to decide")
    if event.status != "pending":
        refuse(400, f"this is {event.status} already")
    event.status, event.decided_by = decision, agent.id
    if event.origin_action_id is not None:
        action = await locked(db, DwellerAction, event.origin_action_id)
        action.escalation_status = "accepted" if decision == APPROVED else "rejected"
    notify(db, event.proposed_by, f"event_{decision}", event=event.id)
    return event


@router.post("/{event_id}/approve", response_model=EventAnswer)
async def approve(event_id: uuid.UUID, words: EventApproval, agent: Agent, db: Db) -> WorldEvent:
    """It has happened; the canon of the world says so from now on."""
    event = await _decide(db, event_id, agent, APPROVED)
    event.canon_update = words.canon_update
    world = await locked(db, World, event.world_id)
    world.canon_summary = words.canon_update
    publish(db, "event_approved", f"{world.name}: {event.title}"[:300], event.id, world.id)
    return event


@router.post("/{event_id}/reject", response_model=EventAnswer)
async def reject(event_id: uuid.UUID, words: EventRejection, agent: Agent, db: Db) -> WorldEvent:
    return await _decide(db, event_id, agent, REJECTED)
