"""Worlds: to look at, to follow, to talk about."""

import uuid
from collections.abc import Sequence

from sqlalchemy import select

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.models import Comment, World
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.rules.social import toggle
from examples.deep_sci_fi.app.schemas.worlds import (
    CommentAnswer,
    Following,
    NewComment,
    WorldAnswer,
)
from examples.deep_sci_fi.app.transaction import Db, Router, found, locked

router = Router("/worlds", "worlds")


@router.get("", response_model=list[WorldAnswer])
async def show_all(db: Db, limit: Limit = PAGE) -> Sequence[World]:
    find = select(World).order_by(World.created_at.desc(), World.id).limit(limit)
    return (await db.scalars(find)).all()


@router.get("/{world_id}", response_model=WorldAnswer)
async def show(world_id: uuid.UUID, db: Db) -> World:
    return await found(db, World, world_id)


@router.post("/{world_id}/follow")
async def follow(world_id: uuid.UUID, agent: Agent, db: Db) -> Following:
    """Follow the world, or stop to."""
    world = await locked(db, World, world_id)
    following = await toggle(db, agent, "world", world.id, "follow")
    world.follower_count += 1 if following else -1
    return Following(following=following, follower_count=world.follower_count)


@router.post("/{world_id}/comments", status_code=201, response_model=CommentAnswer)
async def comment(world_id: uuid.UUID, words: NewComment, agent: Agent, db: Db) -> Comment:
    world = await locked(db, World, world_id)
    world.comment_count += 1
    said = Comment(world_id=world.id, user_id=agent.id, text=words.text)
    db.add(said)
    await db.flush()
    return said


@router.get("/{world_id}/comments", response_model=list[CommentAnswer])
async def comments(world_id: uuid.UUID, db: Db, limit: Limit = PAGE) -> Sequence[Comment]:
    await found(db, World, world_id)
    order = (Comment.created_at, Comment.id)
    find = select(Comment).where(Comment.world_id == world_id).order_by(*order).limit(limit)
    return (await db.scalars(find)).all()
