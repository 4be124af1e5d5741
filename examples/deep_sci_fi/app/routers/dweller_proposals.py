"""Proposals of characters: as with worlds, two votes make a dweller."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.models import (
    APPROVED,
    CHARACTER_FIELDS,
    REJECTED,
    VALIDATING,
    DwellerProposal,
    DwellerValidation,
    World,
)
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules import limits, voting
from examples.deep_sci_fi.app.rules.activity import check_active
from examples.deep_sci_fi.app.rules.dwellers import check_region, settle
from examples.deep_sci_fi.app.rules.news import notify
from examples.deep_sci_fi.app.rules.worlds import tally
from examples.deep_sci_fi.app.schemas.dwellers import (
    CharacterRevision,
    DwellerProposalAnswer,
    DwellerValidationAnswer,
    DwellerVoted,
    NewCharacter,
    NewDwellerValidation,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/dweller-proposals", "dweller proposals")


@router.post("/worlds/{world_id}", status_code=201, response_model=DwellerProposalAnswer)
async def create(world_id: uuid.UUID, wish: NewCharacter, agent: Agent, db: Db) -> DwellerProposal:
    """A draft, one of five that may be open."""
    check_region(await found(db, World, world_id), wish.origin_region)
    most = limits.OPEN_DWELLER_PROPOSALS_MAX
    await limits.check_open_proposals(db, agent, DwellerProposal, most)
    same = (DwellerProposal.agent_id == agent.id, DwellerProposal.name == wish.name)
    await limits.check_not_just_done(db, DwellerProposal, *same)
    proposal = DwellerProposal(world_id=world_id, agent_id=agent.id, **wish.model_dump())
    db.add(proposal)
    await db.flush()
    return proposal


@router.get("/worlds/{world_id}", response_model=list[DwellerProposalAnswer])
async def show_all(world_id: uuid.UUID, db: Db, limit: Limit = PAGE) -> Sequence[DwellerProposal]:
    await found(db, World, world_id)
    order = (DwellerProposal.created_at.desc(), DwellerProposal.id)
    find = select(DwellerProposal).where(DwellerProposal.world_id == world_id)
    return (await db.scalars(find.order_by(*order).limit(limit))).all()


@router.get("/{proposal_id}", response_model=DwellerProposalAnswer)
async def show(proposal_id: uuid.UUID, db: Db) -> DwellerProposal:
    return await found(db, DwellerProposal, proposal_id)


@router.post("/{proposal_id}/submit", response_model=DwellerProposalAnswer)
async def submit(proposal_id: uuid.UUID, agent: Agent, db: Db) -> DwellerProposal:
    proposal = await locked(db, DwellerProposal, proposal_id)
    voting.check_owner(proposal, agent)
    check_active(agent)
    voting.submit(proposal, agent)
    return proposal


@router.post("/{proposal_id}/revise", response_model=DwellerProposalAnswer)
async def revise(
    proposal_id: uuid.UUID, changes: CharacterRevision, agent: Agent, db: Db
) -> DwellerProposal:
    proposal = await locked(db, DwellerProposal, proposal_id)
    voting.revise(proposal, agent, changes.model_dump(exclude_none=True))
    if proposal.status == VALIDATING:
        await _count_votes(db, proposal)
    return proposal


@router.post("/{proposal_id}/validate", status_code=201)
async def validate(
    proposal_id: uuid.UUID, vote: NewDwellerValidation, agent: Agent, db: Db
) -> DwellerVoted:
    proposal = await locked(db, DwellerProposal, proposal_id)
    about = DwellerValidation.proposal_id == proposal.id
    await voting.check_may_vote(db, proposal, agent, DwellerValidation, about)
    revision = proposal.revision_count
    validation = DwellerValidation(
        proposal_id=proposal.id, agent_id=agent.id, of_revision=revision, **vote.model_dump()
    )
    db.add(validation)
    await db.flush()
    await _count_votes(db, proposal)
    return DwellerVoted(
        validation=DwellerValidationAnswer.model_validate(validation),
        proposal_status=proposal.status,
        dweller_id=proposal.resulting_dweller_id,
    )


async def _count_votes(db: AsyncSession, proposal: DwellerProposal) -> None:
    """The character moves in, or is turned away, if the votes are enough."""
    about = DwellerValidation.proposal_id == proposal.id
    decided = await tally(db, DwellerValidation, proposal, about)
    if decided == APPROVED:
        world = await locked(db, World, proposal.world_id)
        character = {name: getattr(proposal, name) for name in CHARACTER_FIELDS}
        dweller = await settle(db, world, NewCharacter(**character), proposal.agent_id)
        proposal.resulting_dweller_id = dweller.id
    if decided in (APPROVED, REJECTED):
        proposal.status = decided
        notify(db, proposal.agent_id, f"dweller_proposal_{decided}", proposal=proposal.id)
