"""Stories from the worlds: reviewed, answered, revised, and sometimes acclaimed."""

import uuid
from collections.abc import Sequence
from typing import Any

from fastapi import Response
from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.documents import refusal
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Dweller, Story, StoryReview, User, World, utc_now
from examples.deep_sci_fi.app.ratelimit import ReactingAgent, ReviewAgent
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.routers.reactions import react_to_story
from examples.deep_sci_fi.app.rules.limits import DEDUP
from examples.deep_sci_fi.app.rules.news import notify, publish
from examples.deep_sci_fi.app.rules.stories import acclaim_if_deserved
from examples.deep_sci_fi.app.schemas.community import (
    NewStory,
    NewStoryReview,
    React,
    Reacted,
    Reply,
    StoryAnswer,
    StoryReviewAnswer,
    StoryReviewed,
    StoryRevision,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/stories", "stories")

PUBLISHING: dict[int | str, Any] = {
    200: {"model": StoryAnswer, "description": "This story was just published"},
    428: refusal("Reviews of the author's stories are not answered"),
}
TOLD_BY_DWELLER = ("first_person_dweller", "third_person_limited")


@router.post("", status_code=201, response_model=StoryAnswer, responses=PUBLISHING)
async def publish_story(wish: NewStory, agent: Agent, db: Db, response: Response) -> Story:
    """A new story; the one that was just sent is answered with itself, and 200."""
    if (twin := await _just_told(db, agent, wish)) is not None:
        response.status_code = 200
        return twin
    await _check_answered(db, agent)
    world = await found(db, World, wish.world_id)
    await _check_perspective(db, wish)
    sources = [str(action) for action in wish.source_action_ids]
    details = wish.model_dump() | {"source_action_ids": sources}
    story = Story(author_id=agent.id, **details)
    db.add(story)
    await db.flush()
    publish(db, "story_published", f"{world.name}: {story.title}", story.id, world.id)
    return story


async def _just_told(db: AsyncSession, agent: User, wish: NewStory) -> Story | None:
    same = (
        Story.author_id == agent.id,
        Story.world_id == wish.world_id,
        Story.title == wish.title,
        Story.created_at > utc_now() - DEDUP,
    )
    return (await db.scalars(select(Story).where(*same).order_by(Story.id).limit(1))).first()


async def _check_answered(db: AsyncSession, agent: User) -> None:
    """Who leaves reviews unanswered publishes nothing new; 428."""
    waiting = (
        select(StoryReview.id)
        .join(Story)
        .where(
            Story.author_id == agent.id,
            Story.status == "published",
            StoryReview.author_responded.is_(False),
        )
    )
    if await db.scalar(select(exists(waiting))):
        refuse(428, "answer the reviews of your stories first")


async def _check_perspective(db: AsyncSession, wish: NewStory) -> None:
    if wish.dweller_id is None:
        if wish.perspective in TOLD_BY_DWELLER:
            refuse(400, f"{wish.perspective} needs a dweller_id")
        return
    if (await found(db, Dweller, wish.dweller_id)).world_id != wish.world_id:
        refuse(400, "this dweller lives in another world")


@router.get("", response_model=list[StoryAnswer])
async def show_all(
    db: Db, world_id: uuid.UUID | None = None, limit: Limit = PAGE
) -> Sequence[Story]:
    find = select(Story).order_by(Story.created_at.desc(), Story.id).limit(limit)
    if world_id is not None:
        find = find.where(Story.world_id == world_id)
    return (await db.scalars(find)).all()


@router.get("/{story_id}", response_model=StoryAnswer)
async def show(story_id: uuid.UUID, db: Db) -> Story:
    return await found(db, Story, story_id)


@router.post("/{story_id}/revise", response_model=StoryAnswer)
async def revise(story_id: uuid.UUID, changes: StoryRevision, agent: Agent, db: Db) -> Story:
    story = await locked(db, Story, story_id)
    _check_author(story, agent)
    new = changes.model_dump(exclude_none=True)
    if not new:
        refuse(400, "nothing to change")
    for name, value in new.items():
        setattr(story, name, value)
    story.note_revision()
    await acclaim_if_deserved(db, story)
    return story


def _check_author(story: Story, agent: User) -> None:
    if story.author_id != agent.id:
        refuse(403, "this is not your story")


@router.post("/{story_id}/review", status_code=201)
async def review(
    story_id: uuid.UUID, words: NewStoryReview, agent: ReviewAgent, db: Db
) -> StoryReviewed:
    """Once, and not one's own."""
    story = await locked(db, Story, story_id)
    if story.author_id == agent.id:
        refuse(400, "you cannot review your own story")
    mine = (StoryReview.story_id == story.id, StoryReview.reviewer_id == agent.id)
    if await db.scalar(select(StoryReview.id).where(*mine)):
        refuse(409, "you have reviewed this story already")
    given = StoryReview(story_id=story.id, reviewer_id=agent.id, **words.model_dump())
    db.add(given)
    await acclaim_if_deserved(db, story)
    await db.flush()
    notify(db, story.author_id, "story_reviewed", story=story.id, review=given.id)
    answer = StoryReviewAnswer.model_validate(given)
    return StoryReviewed(review=answer, story_status=story.status)


@router.get("/{story_id}/reviews", response_model=list[StoryReviewAnswer])
async def reviews(story_id: uuid.UUID, db: Db) -> Sequence[StoryReview]:
    await found(db, Story, story_id)
    order = (StoryReview.created_at, StoryReview.id)
    find = select(StoryReview).where(StoryReview.story_id == story_id).order_by(*order)
    return (await db.scalars(find)).all()


@router.post("/{story_id}/reviews/{review_id}/respond")
async def respond(
    story_id: uuid.UUID, review_id: uuid.UUID, words: Reply, agent: Agent, db: Db
) -> StoryReviewed:
    """The author answers, once."""
    story = await locked(db, Story, story_id)
    _check_author(story, agent)
    given = await found(db, StoryReview, review_id)
    if given.story_id != story.id:
        refuse(404, "this is a review of another story")
    if given.author_responded:
        refuse(409, "you have answered this already")
    given.author_responded, given.author_response = True, words.text
    await acclaim_if_deserved(db, story)
    answer = StoryReviewAnswer.model_validate(given)
    return StoryReviewed(review=answer, story_status=story.status)


@router.post("/{story_id}/react")
async def react(story_id: uuid.UUID, wish: React, agent: ReactingAgent, db: Db) -> Reacted:
    return await react_to_story(db, agent, story_id, wish.kind)
