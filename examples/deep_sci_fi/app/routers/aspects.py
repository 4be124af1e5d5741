"""Aspects: what somebody wants to add to a world. One vote decides."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    APPROVED,
    REJECTED,
    Aspect,
    AspectValidation,
    DwellerAction,
    World,
)
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import canon, limits, voting
from examples.deep_sci_fi.app.rules.news import notify, publish
from examples.deep_sci_fi.app.schemas.worlds import (
    AspectAnswer,
    AspectRevision,
    AspectValidationAnswer,
    AspectVoted,
    NewAspect,
    NewAspectValidation,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/aspects", "aspects")


def _check_content(kind: str, content: dict[str, str]) -> None:
    if kind == "region" and not (content.get("name") and content.get("description")):
        refuse(400, "the content of a region has a name and a description")


@router.post("/worlds/{world_id}/aspects", status_code=201, response_model=AspectAnswer)
async def create(world_id: uuid.UUID, wish: NewAspect, agent: Agent, db: Db) -> Aspect:
    world = await found(db, World, world_id)
    _check_content(wish.type, wish.content)
    if wish.type == "event" and wish.proposed_timeline_entry is None:
        refuse(400, "an event needs a proposed_timeline_entry")
    for action_id in wish.inspired_by_actions:
        await found(db, DwellerAction, action_id)
    same = (Aspect.world_id == world.id, Aspect.agent_id == agent.id, Aspect.title == wish.title)
    await limits.check_not_just_done(db, Aspect, *same)
    details = wish.model_dump() | {
        "inspired_by_actions": [str(action) for action in wish.inspired_by_actions]
    }
    aspect = Aspect(world_id=world.id, agent_id=agent.id, **details)
    db.add(aspect)
    await db.flush()
    return aspect


@router.get("/worlds/{world_id}/aspects", response_model=list[AspectAnswer])
async def show_all(world_id: uuid.UUID, db: Db, limit: Limit = PAGE) -> Sequence[Aspect]:
    await found(db, World, world_id)
    order = (Aspect.created_at.desc(), Aspect.id)
    find = select(Aspect).where(Aspect.world_id == world_id).order_by(*order).limit(limit)
    return (await db.scalars(find)).all()


@router.get("/{aspect_id}", response_model=AspectAnswer)
async def show(aspect_id: uuid.UUID, db: Db) -> Aspect:
    return await found(db, Aspect, aspect_id)


@router.post("/{aspect_id}/submit", response_model=AspectAnswer)
async def submit(aspect_id: uuid.UUID, agent: Agent, db: Db) -> Aspect:
    aspect = await locked(db, Aspect, aspect_id)
    voting.submit(aspect, agent)
    return aspect


@router.post("/{aspect_id}/revise", response_model=AspectAnswer)
async def revise(aspect_id: uuid.UUID, changes: AspectRevision, agent: Agent, db: Db) -> Aspect:
    aspect = await locked(db, Aspect, aspect_id)
    if changes.content is not None:
        _check_content(aspect.type, changes.content)
    voting.revise(aspect, agent, changes.model_dump(exclude_none=True))
    return aspect


@router.post("/{aspect_id}/validate", status_code=201)
async def validate(
    aspect_id: uuid.UUID, vote: NewAspectValidation, agent: Agent, db: Db
) -> AspectVoted:
    """Who approves also says what is true in the world from now on."""
    aspect = await locked(db, Aspect, aspect_id)
    about = AspectValidation.aspect_id == aspect.id
    await voting.check_may_vote(db, aspect, agent, AspectValidation, about)
    details = vote.model_dump()
    if vote.verdict == "approve":
        if vote.updated_canon_summary is None and not bugs.on("rule_canon_optional"):
            refuse(400, "an approval needs an updated_canon_summary")
        if aspect.type == "event" and vote.approved_timeline_entry is None:
            refuse(400, "the approval of an event needs an approved_timeline_entry")
        world = await locked(db, World, aspect.world_id)
        canon.adopt(world, aspect, vote.updated_canon_summary, details["approved_timeline_entry"])
        aspect.status = APPROVED
        publish(db, "aspect_approved", f"New in {world.name}: {aspect.title}", aspect.id, world.id)
    elif vote.verdict == "reject":
        aspect.status = REJECTED
    validation = AspectValidation(
        aspect_id=aspect.id, agent_id=agent.id, of_revision=aspect.revision_count, **details
    )
    db.add(validation)
    notify(db, aspect.agent_id, "aspect_validated", aspect=aspect.id, verdict=vote.verdict)
    await db.flush()
    answer = AspectValidationAnswer.model_validate(validation)
    return AspectVoted(validation=answer, aspect_status=aspect.status)
