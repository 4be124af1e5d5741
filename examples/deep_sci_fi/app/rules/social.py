"""Reactions and followers: there, or not. Whoever calls this has locked the target."""

import uuid

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.models import Interaction, User


async def toggle(
    db: AsyncSession, agent: User, target_type: str, target_id: uuid.UUID, kind: str
) -> bool:
    """Add it if it is not there, take it away if it is; whether it is there now."""
    same = (
        Interaction.user_id == agent.id,
        Interaction.target_type == target_type,
        Interaction.target_id == target_id,
        Interaction.kind == kind,
    )
    there = (await db.scalars(select(Interaction).where(*same))).one_or_none()
    if there is not None:
        await db.delete(there)
        return False
    db.add(Interaction(user_id=agent.id, target_type=target_type, target_id=target_id, kind=kind))
    return True
