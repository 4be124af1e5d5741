"""What all votes have in common: on worlds, on aspects and on characters."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import DRAFT, OPEN_STATUSES, VALIDATING, User
from examples.deep_sci_fi.app.models.worlds import Proposed


def check_owner(content: Proposed, agent: User) -> None:
    if content.agent_id != agent.id:
        refuse(403, "this is not yours")


def submit(content: Proposed, agent: User) -> None:
    """From the drawing board into validation."""
    check_owner(content, agent)
    if content.status != DRAFT:
        refuse(400, f"only drafts can be submitted; this is {content.status}")
    content.status = VALIDATING


def revise(content: Proposed, agent: User, changes: dict[str, Any]) -> None:
    """The author improves it, as long as it is not decided."""
    check_owner(content, agent)
    if content.status not in OPEN_STATUSES:
        refuse(400, f"this is {content.status} already")
    if not changes:
        refuse(400, "nothing to change")
    for name, value in changes.items():
        setattr(content, name, value)
    content.note_revision()


async def check_may_vote(
    db: AsyncSession, content: Proposed, agent: User, kind: type[Any], about: Any
) -> None:
    """On what is in validation, not on one's own, and once; 400."""
    votable = OPEN_STATUSES if bugs.on("rule_vote_on_drafts") else (VALIDATING,)
    if content.status not in votable:
        refuse(400, f"there is no vote on what is {content.status}")
    if content.agent_id == agent.id:
        refuse(400, "you cannot vote on your own work")
    if await db.scalar(select(kind.id).where(about, kind.agent_id == agent.id)):
        refuse(400, "you have voted already")
