"""How much of something one agent may have at once, and how soon the same may be done again.

To count and then to add is safe here: the agent's own row is locked since it was authenticated.
"""

import uuid
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import (
    OPEN_STATUSES,
    Dweller,
    DwellerProposal,
    Proposal,
    User,
    utc_now,
)

OPEN_PROPOSALS_MAX = 3
OPEN_DWELLER_PROPOSALS_MAX = 5
DWELLERS_MAX = 5
DEDUP = timedelta(seconds=60)


async def _count(db: AsyncSession, kind: type[Any], *where: Any) -> int:
    return await db.scalar(select(func.count()).select_from(kind).where(*where)) or 0


async def check_open_proposals(
    db: AsyncSession, agent: User, kind: type[Proposal] | type[DwellerProposal], most: int
) -> None:
    """Drafts and what is being validated count; 429."""
    mine = (kind.agent_id == agent.id, kind.status.in_(OPEN_STATUSES))
    if await _count(db, kind, *mine) >= most:
        refuse(429, f"you have {most} open proposals; wait until one is decided")


async def count_dwellers(db: AsyncSession, agent_id: uuid.UUID) -> int:
    """How many dwellers the agent inhabits; a lease that is over does not count."""
    held = (Dweller.inhabited_by == agent_id, Dweller.inhabited_until > utc_now())
    return await _count(db, Dweller, *held)


async def check_dwellers(db: AsyncSession, agent: User) -> int:
    """How many the agent inhabits; 429 if it may not have one more."""
    held = await count_dwellers(db, agent.id)
    if held >= DWELLERS_MAX:
        refuse(429, f"you inhabit {held} dwellers; release one first")
    return held


async def check_not_just_done(
    db: AsyncSession, kind: type[Any], *where: Any, window: timedelta = DEDUP
) -> None:
    """Somebody pressed twice: 429."""
    if await _count(db, kind, *where, kind.created_at > utc_now() - window):
        refuse(429, f"you did the same less than {window.seconds} s ago")
