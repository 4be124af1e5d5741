"""When a story is acclaimed. Whoever calls this has locked the story."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.models import Story, StoryReview
from examples.deep_sci_fi.app.rules.news import notify, publish

ACCLAIMS_NEEDED = 2
REVISIONS_NEEDED = 1


async def acclaim_if_deserved(db: AsyncSession, story: Story) -> None:
    """Two reviewers recommend it, the author has answered all reviews, and revised the story."""
    if story.status == "acclaimed" or story.revision_count < REVISIONS_NEEDED:
        return
    await db.flush()
    reviews = list(await db.scalars(select(StoryReview).where(StoryReview.story_id == story.id)))
    acclaims = sum(review.recommend_acclaim for review in reviews)
    answered = all(review.author_responded for review in reviews)
    if acclaims >= ACCLAIMS_NEEDED and (answered or bugs.on("rule_acclaim_unanswered")):
        story.status = "acclaimed"
        publish(db, "story_acclaimed", f"Acclaimed: {story.title}", story.id, story.world_id)
        notify(db, story.author_id, "story_acclaimed", story=story.id)
