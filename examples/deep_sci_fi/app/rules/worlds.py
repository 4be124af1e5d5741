"""How a proposal becomes a world: by votes, or by surviving a critical review.

Whoever calls these has locked the proposal.
"""

from collections import Counter
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.models import (
    APPROVED,
    REJECTED,
    VALIDATING,
    DwellerValidation,
    Proposal,
    Review,
    ReviewItem,
    Status,
    Validation,
    World,
)
from examples.deep_sci_fi.app.models.worlds import Proposed
from examples.deep_sci_fi.app.rules.news import notify, publish
from examples.deep_sci_fi.app.transaction import pause

APPROVALS_NEEDED = 2
REJECTIONS_NEEDED = 2
REVIEWERS_NEEDED = 2
UNSETTLED = ("open", "addressed")


def outcome(votes: Counter[str], asked_to_strengthen: bool) -> Status:
    """Two rejections reject; two approvals without any rejection approve, unless somebody has asked
    for improvements and there has been no revision since."""
    if votes["reject"] >= REJECTIONS_NEEDED:
        return REJECTED
    needed = 1 if bugs.on("rule_one_approval") else APPROVALS_NEEDED
    if votes["approve"] >= needed and not votes["reject"] and not asked_to_strengthen:
        return APPROVED
    return VALIDATING


async def tally(
    db: AsyncSession,
    kind: type[Validation] | type[DwellerValidation],
    content: Proposed,
    about: Any,
) -> Status:
    """What the votes so far make of the content, as it is now."""
    columns = (kind.verdict, kind.of_revision)
    find = select(*columns, func.count()).where(about).group_by(*columns)
    votes, asked = Counter[str](), False
    for verdict, revision, count in await db.execute(find):
        votes[verdict] += count
        asked |= verdict == "strengthen" and revision == content.revision_count
    return outcome(votes, asked)


async def count_votes(db: AsyncSession, proposal: Proposal) -> None:
    """Decide, if the votes are enough: after each vote, and after each revision."""
    await pause("before the votes are counted")
    about = Validation.proposal_id == proposal.id
    decided = await tally(db, Validation, proposal, about)
    if decided == APPROVED:
        await make_world(db, proposal)
    elif decided == REJECTED:
        proposal.status = REJECTED
        notify(db, proposal.agent_id, "proposal_rejected", proposal=proposal.id)


async def open_items(db: AsyncSession, proposal_id: Any) -> int:
    """How many wishes of its reviewers are not settled yet."""
    find = (
        select(func.count())
        .select_from(ReviewItem)
        .join(Review)
        .where(Review.content_id == proposal_id, ReviewItem.status.in_(UNSETTLED))
    )
    return await db.scalar(find) or 0


async def count_reviewers(db: AsyncSession, content_id: Any) -> int:
    find = select(func.count()).select_from(Review).where(Review.content_id == content_id)
    return await db.scalar(find) or 0


async def graduate_if_ready(db: AsyncSession, proposal: Proposal) -> None:
    """Two reviewers, and nothing of what they wanted is left: a world."""
    if proposal.review_system != "review" or proposal.status != VALIDATING:
        return
    if bugs.on("graduation_without_lock"):
        await db.commit()
    await pause("before a proposal graduates")
    reviewers = await count_reviewers(db, proposal.id)
    if reviewers >= REVIEWERS_NEEDED and not await open_items(db, proposal.id):
        await make_world(db, proposal)


async def make_world(db: AsyncSession, proposal: Proposal) -> World:
    """Approve the proposal and make its world, both or neither."""
    proposal.status = APPROVED
    if bugs.on("approve_in_two_transactions"):
        await db.commit()
    world = World(
        proposal_id=proposal.id,
        created_by=proposal.agent_id,
        name=proposal.name,
        premise=proposal.premise,
        year_setting=proposal.year_setting,
        causal_chain=sorted(proposal.causal_chain, key=lambda step: step["year"]),
        scientific_basis=proposal.scientific_basis,
        image_prompt=proposal.image_prompt,
        citations=proposal.citations,
        canon_summary=proposal.premise,
    )
    db.add(world)
    if not bugs.on("world_id_before_flush"):
        await db.flush()
    proposal.resulting_world_id = world.id
    await db.flush()
    publish(db, "world_created", f"A new world: {world.name}", world.id, world.id)
    notify(db, proposal.agent_id, "proposal_approved", proposal=proposal.id, world=world.id)
    return world
