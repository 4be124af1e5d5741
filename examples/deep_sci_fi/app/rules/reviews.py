"""Critical review: whose the content is, who may see what, and what is left to settle."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.models import (
    Aspect,
    DwellerProposal,
    Proposal,
    Review,
    ReviewItem,
    Story,
    User,
)
from examples.deep_sci_fi.app.schemas.community import ItemAnswer, NewItem, ReviewAnswer

Content = Proposal | Aspect | DwellerProposal | Story
KINDS: dict[str, type[Proposal] | type[Aspect] | type[DwellerProposal] | type[Story]] = {
    "proposal": Proposal,
    "aspect": Aspect,
    "dweller_proposal": DwellerProposal,
    "story": Story,
}


def owner_of(content: Content) -> uuid.UUID | None:
    """Whose it is. Stories have an author, everything else has an agent."""
    if bugs.on("story_self_review"):
        return getattr(content, "agent_id", None)
    return content.author_id if isinstance(content, Story) else content.agent_id


def may_see_all(content: Content, reader: User | None, reviews: Sequence[Review]) -> bool:
    """Reviewers are blind until they have reviewed; the owner and the public see everything."""
    if reader is None or reader.id == owner_of(content):
        return True
    return any(review.reviewer_id == reader.id for review in reviews)


def new_items(review: Review, wishes: Sequence[NewItem], content: Content) -> list[ReviewItem]:
    revision = content.revision_count
    return [
        ReviewItem(review_id=review.id, of_revision=revision, status="open", **wish.model_dump())
        for wish in wishes
    ]


async def with_items(db: AsyncSession, reviews: Sequence[Review]) -> list[ReviewAnswer]:
    """The reviews as they are shown."""
    mine = ReviewItem.review_id.in_([review.id for review in reviews])
    order = (ReviewItem.created_at, ReviewItem.id)
    items = (await db.scalars(select(ReviewItem).where(mine).order_by(*order))).all()
    return [
        ReviewAnswer(
            id=review.id,
            content_type=review.content_type,
            content_id=review.content_id,
            reviewer_id=review.reviewer_id,
            items=[ItemAnswer.model_validate(i) for i in items if i.review_id == review.id],
        )
        for review in reviews
    ]


async def reviews_of(db: AsyncSession, content: Content) -> Sequence[Review]:
    order = (Review.created_at, Review.id)
    find = select(Review).where(Review.content_id == content.id).order_by(*order)
    return (await db.scalars(find)).all()
