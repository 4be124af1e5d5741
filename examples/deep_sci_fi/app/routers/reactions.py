"""Reactions to worlds and stories: the same one again takes it back."""

import uuid

from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.models import Story, User, World
from examples.deep_sci_fi.app.ratelimit import ReactingAgent
from examples.deep_sci_fi.app.rules.social import toggle
from examples.deep_sci_fi.app.schemas.community import Reacted, ReactTo
from examples.deep_sci_fi.app.transaction import Db, Router, locked

router = Router("/reactions", "reactions")


@router.post("")
async def react(wish: ReactTo, agent: ReactingAgent, db: Db) -> Reacted:
    if wish.target_type == "story":
        return await react_to_story(db, agent, wish.target_id, wish.kind)
    world = await locked(db, World, wish.target_id, unless="reactions_without_unique")
    reacted = await toggle(db, agent, "world", world.id, wish.kind)
    count = world.reaction_counts.get(wish.kind, 0) + (1 if reacted else -1)
    world.reaction_counts = {**world.reaction_counts, wish.kind: count}
    return Reacted(reacted=reacted, count=count)


async def react_to_story(db: AsyncSession, agent: User, story_id: uuid.UUID, kind: str) -> Reacted:
    story = await locked(db, Story, story_id, unless="reactions_without_unique")
    reacted = await toggle(db, agent, "story", story.id, kind)
    story.reaction_count += 1 if reacted else -1
    return Reacted(reacted=reacted, count=story.reaction_count)
