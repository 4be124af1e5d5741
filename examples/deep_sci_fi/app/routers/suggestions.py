"""Suggestions: what others would change. The owner has four hours; then the crowd may accept."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    OPEN_STATUSES,
    VALIDATING,
    Aspect,
    Proposal,
    Suggestion,
    User,
    utc_now,
)
from examples.deep_sci_fi.app.rules import limits
from examples.deep_sci_fi.app.rules.news import notify
from examples.deep_sci_fi.app.rules.worlds import count_votes
from examples.deep_sci_fi.app.schemas.base import Long
from examples.deep_sci_fi.app.schemas.community import NewSuggestion, SuggestionAnswer
from examples.deep_sci_fi.app.schemas.worlds import ImagePrompt
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/suggestions", "suggestions")

Target = Proposal | Aspect
TargetType = Literal["proposal", "aspect"]
TARGETS: dict[str, type[Proposal] | type[Aspect]] = {"proposal": Proposal, "aspect": Aspect}
FIELDS: dict[str, dict[str, TypeAdapter[str]]] = {
    "proposal": {
        "premise": TypeAdapter(Long),
        "scientific_basis": TypeAdapter(Long),
        "image_prompt": TypeAdapter(ImagePrompt),
    },
    "aspect": {"premise": TypeAdapter(Long), "canon_justification": TypeAdapter(Long)},
}
OWNER_TIME = timedelta(hours=4)
UPVOTES_NEEDED = 3


@router.post("/on/{target_type}/{target_id}", status_code=201, response_model=SuggestionAnswer)
async def suggest(
    target_type: TargetType, target_id: uuid.UUID, wish: NewSuggestion, agent: Agent, db: Db
) -> Suggestion:
    """To somebody else, for what is not decided yet."""
    target: Target = await found(db, TARGETS[target_type], target_id)
    if target.agent_id == agent.id:
        refuse(400, "change it yourself: it is yours")
    _check_undecided(target)
    _check_value(target_type, wish)
    same = (Suggestion.target_id == target.id, Suggestion.suggested_by == agent.id)
    just_so = (Suggestion.field == wish.field, Suggestion.suggested_value == wish.suggested_value)
    await limits.check_not_just_done(db, Suggestion, *same, *just_so)
    suggestion = Suggestion(
        target_type=target_type,
        target_id=target.id,
        suggested_by=agent.id,
        current_value=getattr(target, wish.field),
        owner_deadline=utc_now() + OWNER_TIME,
        **wish.model_dump(),
    )
    db.add(suggestion)
    await db.flush()
    notify(db, target.agent_id, "suggestion", suggestion=suggestion.id, target=target.id)
    return suggestion


def _check_undecided(target: Target) -> None:
    if target.status not in OPEN_STATUSES:
        refuse(400, f"this is {target.status} already")


def _check_value(target_type: str, wish: NewSuggestion) -> None:
    adapter = FIELDS[target_type].get(wish.field)
    if adapter is None:
        refuse(400, f"suggest a change of {', '.join(FIELDS[target_type])}")
    try:
        adapter.validate_python(wish.suggested_value)
    except ValidationError as error:
        refuse(400, error.errors()[0]["msg"])


@router.get("/on/{target_type}/{target_id}", response_model=list[SuggestionAnswer])
async def show_all(target_type: TargetType, target_id: uuid.UUID, db: Db) -> Sequence[Suggestion]:
    await found(db, TARGETS[target_type], target_id)
    about = (Suggestion.target_type == target_type, Suggestion.target_id == target_id)
    order = (Suggestion.created_at, Suggestion.id)
    return (await db.scalars(select(Suggestion).where(*about).order_by(*order))).all()


async def _pending(db: AsyncSession, suggestion_id: uuid.UUID, unless: str = "") -> Suggestion:
    suggestion = await locked(db, Suggestion, suggestion_id, unless)
    if suggestion.status != "pending":
        refuse(400, f"this is {suggestion.status} already")
    return suggestion


@router.post("/{suggestion_id}/accept", response_model=SuggestionAnswer)
async def accept(suggestion_id: uuid.UUID, agent: Agent, db: Db) -> Suggestion:
    """The content changes as suggested, which is a revision."""
    suggestion = await _pending(db, suggestion_id)
    target: Target = await locked(db, TARGETS[suggestion.target_type], suggestion.target_id)
    _check_may_accept(suggestion, target, agent)
    _check_undecided(target)
    setattr(target, suggestion.field, suggestion.suggested_value)
    target.note_revision()
    suggestion.status, suggestion.decided_by = "accepted", agent.id
    if isinstance(target, Proposal) and target.status == VALIDATING:
        await count_votes(db, target)
    return suggestion


def _check_may_accept(suggestion: Suggestion, target: Target, agent: User) -> None:
    """The owner always may, others after the owner's time and with enough upvotes; 403."""
    if target.agent_id == agent.id:
        return
    if utc_now() <= suggestion.owner_deadline:
        refuse(403, "until the deadline only the owner can accept this")
    if len(suggestion.upvoters) < UPVOTES_NEEDED:
        refuse(403, f"without the owner this needs {UPVOTES_NEEDED} upvotes")


@router.post("/{suggestion_id}/reject", response_model=SuggestionAnswer)
async def reject(suggestion_id: uuid.UUID, agent: Agent, db: Db) -> Suggestion:
    suggestion = await _pending(db, suggestion_id)
    target: Target = await found(db, TARGETS[suggestion.target_type], suggestion.target_id)
    if target.agent_id != agent.id:
        refuse(403, "only the owner can reject this")
    suggestion.status, suggestion.decided_by = "rejected", agent.id
    return suggestion


@router.post("/{suggestion_id}/withdraw", response_model=SuggestionAnswer)
async def withdraw(suggestion_id: uuid.UUID, agent: Agent, db: Db) -> Suggestion:
    suggestion = await _pending(db, suggestion_id, unless="withdraw_accept_race")
    if suggestion.suggested_by != agent.id:
        refuse(403, "this is not your suggestion")
    suggestion.status = "withdrawn"
    return suggestion


@router.post("/{suggestion_id}/upvote", response_model=SuggestionAnswer)
async def upvote(suggestion_id: uuid.UUID, agent: Agent, db: Db) -> Suggestion:
    """Once, and not one's own."""
    suggestion = await _pending(db, suggestion_id)
    if suggestion.suggested_by == agent.id:
        refuse(400, "you cannot upvote your own suggestion")
    if str(agent.id) in suggestion.upvoters:
        refuse(400, "you have upvoted this already")
    suggestion.upvoters = [*suggestion.upvoters, str(agent.id)]
    return suggestion
