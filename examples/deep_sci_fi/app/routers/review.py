"""Critical review: instead of votes, a list of what has to be better, and a world when it is.

An item goes open → addressed (or disputed) → resolved; whoever raised it may reopen it.
"""

import uuid

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import OR_WITHOUT_KEY, Agent, AgentOrPublic
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    VALIDATING,
    Proposal,
    Review,
    ReviewItem,
    ReviewResponse,
    Story,
    User,
)
from examples.deep_sci_fi.app.models.community import ContentType
from examples.deep_sci_fi.app.ratelimit import ReviewAgent
from examples.deep_sci_fi.app.rules import reviews as rules
from examples.deep_sci_fi.app.rules.news import notify
from examples.deep_sci_fi.app.rules.reviews import Content
from examples.deep_sci_fi.app.rules.worlds import (
    REVIEWERS_NEEDED,
    count_reviewers,
    graduate_if_ready,
    open_items,
)
from examples.deep_sci_fi.app.schemas.community import (
    ItemAnswer,
    ItemChanged,
    ItemReply,
    NewReview,
    Reply,
    ReviewAnswer,
    Reviews,
    ReviewStatus,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/review", "critical review")


@router.post("/{content_type}/{content_id}/feedback", status_code=201)
async def review(
    content_type: ContentType, content_id: uuid.UUID, words: NewReview, agent: ReviewAgent, db: Db
) -> ReviewAnswer:
    """What has to be better. Once, and not for one's own work."""
    content: Content = await locked(db, rules.KINDS[content_type], content_id)
    if rules.owner_of(content) == agent.id:
        refuse(400, "you cannot review your own work")
    _check_reviewable(content)
    if await _review_by(db, content, agent) is not None:
        refuse(409, "you have reviewed this already; use add-feedback")
    given = Review(content_type=content_type, content_id=content.id, reviewer_id=agent.id)
    db.add(given)
    await db.flush()
    db.add_all(rules.new_items(given, words.items, content))
    if (owner := rules.owner_of(content)) is not None:
        notify(db, owner, "reviewed", content=content.id, review=given.id)
    await db.flush()
    return (await rules.with_items(db, [given]))[0]


def _check_reviewable(content: Content) -> None:
    if not isinstance(content, Story) and content.status != VALIDATING:
        refuse(400, f"there is no review of what is {content.status}")


async def _review_by(db: AsyncSession, content: Content, agent: User) -> Review | None:
    mine = (Review.content_id == content.id, Review.reviewer_id == agent.id)
    return (await db.scalars(select(Review).where(*mine))).one_or_none()


@router.post("/{content_type}/{content_id}/add-feedback", status_code=201)
async def add(
    content_type: ContentType, content_id: uuid.UUID, words: NewReview, agent: ReviewAgent, db: Db
) -> ReviewAnswer:
    """More items for one's own review."""
    content: Content = await locked(db, rules.KINDS[content_type], content_id)
    _check_reviewable(content)
    given = await _review_by(db, content, agent)
    if given is None:
        refuse(400, "you have not reviewed this yet")
    db.add_all(rules.new_items(given, words.items, content))
    await db.flush()
    return (await rules.with_items(db, [given]))[0]


@router.get("/{content_type}/{content_id}/feedback", openapi_extra=OR_WITHOUT_KEY)
async def show(
    content_type: ContentType, content_id: uuid.UUID, reader: AgentOrPublic, db: Db
) -> Reviews:
    """All reviews; to those who might still write one, nothing."""
    content: Content = await found(db, rules.KINDS[content_type], content_id)
    given = await rules.reviews_of(db, content)
    if not rules.may_see_all(content, reader, given):
        return Reviews(reviews=[], blind=True)
    return Reviews(reviews=await rules.with_items(db, given), blind=False)


@router.get("/{content_type}/{content_id}/status")
async def status(content_type: ContentType, content_id: uuid.UUID, db: Db) -> ReviewStatus:
    content: Content = await found(db, rules.KINDS[content_type], content_id)
    reviewers = await count_reviewers(db, content.id)
    unsettled = await open_items(db, content.id)
    return ReviewStatus(
        reviewers=reviewers,
        open_items=unsettled,
        can_graduate=reviewers >= REVIEWERS_NEEDED and not unsettled,
        content_status=content.status,
        world_id=content.resulting_world_id if isinstance(content, Proposal) else None,
    )


async def _locked_item(
    db: AsyncSession, item_id: uuid.UUID, unless: str = ""
) -> tuple[ReviewItem, Review, Content]:
    """An item is guarded by the row of the content that it is about."""
    review_id = (await found(db, ReviewItem, item_id)).review_id
    given = await found(db, Review, review_id)
    kind = rules.KINDS[given.content_type]
    content: Content = await locked(db, kind, given.content_id, unless)
    return await locked(db, ReviewItem, item_id), given, content


async def _changed(db: AsyncSession, item: ReviewItem, content: Content) -> ItemChanged:
    await db.flush()
    answer = ItemAnswer.model_validate(item)
    world_id = None
    if isinstance(content, Proposal):
        await graduate_if_ready(db, content)
        world_id = content.resulting_world_id
    return ItemChanged(item=answer, content_status=content.status, world_id=world_id)


@router.post("/feedback-item/{item_id}/respond")
async def respond(item_id: uuid.UUID, words: ItemReply, agent: Agent, db: Db) -> ItemChanged:
    """The owner says what was done about it, or why nothing will be."""
    item, _, content = await _locked_item(db, item_id)
    if rules.owner_of(content) != agent.id:
        refuse(403, "only the owner can answer this")
    if item.status != "open":
        refuse(409, f"this is {item.status} already")
    item.status = "disputed" if words.dispute else "addressed"
    db.add(ReviewResponse(item_id=item.id, responder_id=agent.id, text=words.text))
    return await _changed(db, item, content)


@router.post("/feedback-item/{item_id}/resolve")
async def resolve(item_id: uuid.UUID, agent: Agent, db: Db) -> ItemChanged:
    """Whoever raised it is content, after a revision."""
    item, given, content = await _locked_item(db, item_id, unless="graduation_without_lock")
    _check_raiser(given, agent)
    if item.status not in ("open", "addressed"):
        refuse(400, f"this is {item.status} already")
    if content.revision_count <= item.of_revision:
        refuse(400, "nothing was revised since")
    item.status = "resolved"
    return await _changed(db, item, content)


@router.post("/feedback-item/{item_id}/reopen")
async def reopen(item_id: uuid.UUID, words: Reply, agent: Agent, db: Db) -> ItemChanged:
    """Whoever raised it is not content after all."""
    item, given, content = await _locked_item(db, item_id)
    _check_raiser(given, agent)
    _check_reviewable(content)
    if item.status == "open":
        refuse(400, "this is open already")
    item.status = "open"
    db.add(ReviewResponse(item_id=item.id, responder_id=agent.id, text=words.text))
    return await _changed(db, item, content)


def _check_raiser(given: Review, agent: User) -> None:
    if given.reviewer_id != agent.id:
        refuse(403, "only who has raised it can say so")
