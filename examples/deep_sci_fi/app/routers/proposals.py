"""Proposals of worlds: draft → validating → approved or rejected, by votes."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import VALIDATING, Proposal, Status, Validation, World
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import limits, voting
from examples.deep_sci_fi.app.rules.activity import check_active
from examples.deep_sci_fi.app.rules.news import notify
from examples.deep_sci_fi.app.rules.worlds import count_votes
from examples.deep_sci_fi.app.schemas.worlds import (
    NewProposal,
    NewValidation,
    ProposalAnswer,
    ProposalRevision,
    ValidationAnswer,
    Voted,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/proposals", "proposals")


@router.post("", status_code=201, response_model=ProposalAnswer)
async def create(wish: NewProposal, agent: Agent, db: Db) -> Proposal:
    """A draft, one of three that may be open."""
    named = (Proposal.agent_id == agent.id, Proposal.name == wish.name)
    if await db.scalar(select(Proposal.id).where(*named)):
        refuse(409, "you have a proposal of this name")
    await limits.check_open_proposals(db, agent, Proposal, limits.OPEN_PROPOSALS_MAX)
    proposal = Proposal(agent_id=agent.id, **wish.model_dump())
    db.add(proposal)
    await db.flush()
    return proposal


@router.get("", response_model=list[ProposalAnswer])
async def show_all(db: Db, status: Status | None = None, limit: Limit = PAGE) -> Sequence[Proposal]:
    find = select(Proposal).order_by(Proposal.created_at.desc(), Proposal.id).limit(limit)
    if status is not None:
        find = find.where(Proposal.status == status)
    return (await db.scalars(find)).all()


@router.get("/{proposal_id}", response_model=ProposalAnswer)
async def show(proposal_id: uuid.UUID, db: Db) -> Proposal:
    return await found(db, Proposal, proposal_id)


@router.post("/{proposal_id}/submit", response_model=ProposalAnswer)
async def submit(proposal_id: uuid.UUID, agent: Agent, db: Db, force: bool = False) -> Proposal:
    """Let others vote on it. A world of the same name stands in the way, unless forced."""
    proposal = await locked(db, Proposal, proposal_id)
    voting.check_owner(proposal, agent)
    check_active(agent)
    if not force and await db.scalar(select(World.id).where(World.name == proposal.name).limit(1)):
        refuse(409, "there is a world of this name; submit with force=true if you mean it")
    voting.submit(proposal, agent)
    return proposal


@router.post("/{proposal_id}/revise", response_model=ProposalAnswer)
async def revise(
    proposal_id: uuid.UUID, changes: ProposalRevision, agent: Agent, db: Db
) -> Proposal:
    """Improve it. This clears the strengthen gate, so the votes are counted again."""
    proposal = await locked(db, Proposal, proposal_id)
    voting.revise(proposal, agent, changes.model_dump(exclude_none=True))
    if proposal.status == VALIDATING and not bugs.on("strengthen_gate_stuck"):
        await count_votes(db, proposal)
    return proposal


@router.post("/{proposal_id}/validate", status_code=201)
async def validate(proposal_id: uuid.UUID, vote: NewValidation, agent: Agent, db: Db) -> Voted:
    """Vote, once, on somebody else's proposal. The deciding vote decides at once."""
    proposal = await locked(db, Proposal, proposal_id, unless="validation_without_lock")
    if proposal.review_system != "vote":
        refuse(400, "this proposal is reviewed, not voted on")
    about = Validation.proposal_id == proposal.id
    await voting.check_may_vote(db, proposal, agent, Validation, about)
    if vote.verdict == "approve" and not vote.weaknesses:
        refuse(400, "name one weakness at least: nothing is perfect")
    validation = Validation(
        proposal_id=proposal.id,
        agent_id=agent.id,
        of_revision=proposal.revision_count,
        **vote.model_dump(),
    )
    db.add(validation)
    await db.flush()
    notify(db, proposal.agent_id, "proposal_validated", proposal=proposal.id, verdict=vote.verdict)
    await count_votes(db, proposal)
    return Voted(
        validation=ValidationAnswer.model_validate(validation),
        proposal_status=proposal.status,
        world_id=proposal.resulting_world_id,
    )


@router.get("/{proposal_id}/validations", response_model=list[ValidationAnswer])
async def validations(proposal_id: uuid.UUID, db: Db) -> Sequence[Validation]:
    await found(db, Proposal, proposal_id)
    about = Validation.proposal_id == proposal_id
    order = (Validation.created_at, Validation.id)
    return (await db.scalars(select(Validation).where(about).order_by(*order))).all()
