"""Who may act for a dweller, and for how long.

Whoever calls these has locked the dweller.
"""

import uuid
from datetime import timedelta

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Dweller, Tenancy, User, World, utc_now
from examples.deep_sci_fi.app.schemas.dwellers import NewCharacter

LEASE = timedelta(hours=24)
CONTEXT = timedelta(hours=1)
EPISODES_MAX = 200


def is_free(dweller: Dweller) -> bool:
    """Nobody inhabits it, or somebody whose lease is over."""
    if dweller.is_available:
        return True
    if bugs.on("lease_not_released"):
        return False
    return dweller.inhabited_until is not None and dweller.inhabited_until <= utc_now()


async def free(db: AsyncSession, dweller: Dweller) -> None:
    """Take the inhabitant out."""
    dweller.is_available = True
    dweller.inhabited_by = dweller.inhabited_until = None
    dweller.last_context_token = dweller.last_context_at = None
    mine = (Tenancy.dweller_id == dweller.id, Tenancy.ended_at.is_(None))
    await db.execute(update(Tenancy).where(*mine).values(ended_at=utc_now()))


async def move_in(db: AsyncSession, dweller: Dweller, agent: User) -> None:
    """The agent inhabits the dweller for a day, or as long as it keeps acting."""
    if dweller.inhabited_by is not None and not bugs.on("rule_claim_inhabited"):
        await free(db, dweller)
    dweller.is_available = False
    dweller.inhabited_by = agent.id
    dweller.inhabited_until = utc_now() + LEASE
    db.add(Tenancy(dweller_id=dweller.id, agent_id=agent.id))


def check_inhabits(dweller: Dweller, agent: User) -> None:
    """403 for everybody but the one who inhabits it now."""
    if dweller.inhabited_by != agent.id:
        refuse(403, "you do not inhabit this dweller")
    if is_free(dweller):
        refuse(403, "your lease is over: claim the dweller again")


def check_context(dweller: Dweller, token: uuid.UUID) -> None:
    """Who acts must have read what the dweller knows, within the last hour; 428."""
    read_at = dweller.last_context_at
    if token != dweller.last_context_token or read_at is None or read_at + CONTEXT <= utc_now():
        refuse(428, "ask for the dweller's context first")


def remember_episode(dweller: Dweller, kind: str, text: str, of: uuid.UUID) -> None:
    """Add to what the dweller has lived through. A new list: SQLAlchemy compares, it does not look
    inside."""
    episode = {"kind": kind, "text": text, "action": str(of), "at": utc_now().isoformat()}
    dweller.episodic_memories = [*dweller.episodic_memories, episode][-EPISODES_MAX:]


def check_region(world: World, name: str) -> None:
    """400 if the world has no such region."""
    if name not in {region["name"] for region in world.regions}:
        refuse(400, f"{world.name} has no region {name!r}")


async def settle(db: AsyncSession, world: World, who: NewCharacter, by: uuid.UUID) -> Dweller:
    """A new dweller of a world that the caller has locked."""
    check_region(world, who.origin_region)
    dweller = Dweller(
        world_id=world.id, created_by=by, current_region=who.origin_region, **who.model_dump()
    )
    db.add(dweller)
    world.dweller_count += 1
    await db.flush()
    return dweller
