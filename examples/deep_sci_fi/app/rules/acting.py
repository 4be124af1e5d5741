"""What happens when a dweller does something."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Dweller, DwellerAction, User, World, utc_now
from examples.deep_sci_fi.app.rules import limits
from examples.deep_sci_fi.app.rules.dwellers import (
    LEASE,
    check_context,
    check_inhabits,
    check_region,
    remember_episode,
)
from examples.deep_sci_fi.app.schemas.dwellers import Acted, ActionAnswer, NewAction
from examples.deep_sci_fi.app.transaction import all_locked, found

DEDUP = timedelta(seconds=15)
GRACE = timedelta(minutes=10)
ESCALATION_FROM = 0.8


Cast = dict[uuid.UUID, Dweller]


async def lock_cast(
    db: AsyncSession, dweller_id: uuid.UUID, deed: NewAction
) -> tuple[Cast, Dweller]:
    """Everybody whose memory the deed may change, and the one who acts."""
    others = {deed.target_dweller_id} - {None}
    cast = await all_locked(db, Dweller, Dweller.id.in_(sorted({dweller_id, *others}, key=str)))
    return cast, cast.get(dweller_id) or refuse(404, f"there is no dweller {dweller_id}")


async def act(db: AsyncSession, agent: User, dweller_id: uuid.UUID, deed: NewAction) -> Acted:
    """Check all that can be wrong with it, then write it into history and memories."""
    dwellers, dweller = await lock_cast(db, dweller_id, deed)
    check_inhabits(dweller, agent)
    check_context(dweller, deed.context_token)
    target = _target(dwellers, dweller, deed)
    await _check_not_repeated(db, dweller, deed)
    warning = await _check_thread(db, dweller, deed)
    if deed.type == "move":
        check_region(await found(db, World, dweller.world_id), deed.target or "")
        dweller.current_region = deed.target or dweller.current_region
    action = _record(db, agent, dweller, deed)
    await db.flush()
    remember_episode(dweller, deed.type, deed.content, action.id)
    if target is not None:
        remember_episode(target, f"heard {deed.type}", deed.content, action.id)
    dweller.last_action_at = utc_now()
    dweller.inhabited_until = utc_now() + LEASE
    return Acted(action=ActionAnswer.model_validate(action), warning=warning)


def _target(dwellers: Cast, dweller: Dweller, deed: NewAction) -> Dweller | None:
    """Whom it is done to: somebody else in the same world. Who speaks, speaks to somebody."""
    if deed.target_dweller_id is None:
        if deed.type == "speak":
            refuse(400, "speak to somebody: target_dweller_id is missing")
        return None
    target = dwellers.get(deed.target_dweller_id)
    if target is None or target.world_id != dweller.world_id or target is dweller:
        refuse(400, "the target is nobody else in this world")
    return target


async def _check_not_repeated(db: AsyncSession, dweller: Dweller, deed: NewAction) -> None:
    same = (
        DwellerAction.dweller_id == dweller.id,
        DwellerAction.type == deed.type,
        DwellerAction.content == deed.content,
    )
    await limits.check_not_just_done(db, DwellerAction, *same, window=DEDUP)


async def unanswered(db: AsyncSession, dweller: Dweller) -> Sequence[DwellerAction]:
    """What others have said to the dweller, and it has not replied to; oldest first."""
    reply = aliased(DwellerAction)
    replied = select(reply.id).where(
        reply.in_reply_to_action_id == DwellerAction.id, reply.dweller_id == dweller.id
    )
    find = select(DwellerAction).where(
        DwellerAction.target_dweller_id == dweller.id,
        DwellerAction.type == "speak",
        ~replied.exists(),
    )
    order = (DwellerAction.created_at, DwellerAction.id)
    return (await db.scalars(find.order_by(*order).limit(20))).all()


async def _check_thread(db: AsyncSession, dweller: Dweller, deed: NewAction) -> str | None:
    """Who is spoken to answers before talking to others: a warning at first, then 403."""
    if deed.in_reply_to_action_id is not None:
        message = await found(db, DwellerAction, deed.in_reply_to_action_id)
        if message.target_dweller_id != dweller.id:
            refuse(400, "that was not said to this dweller")
        return None
    waiting = await unanswered(db, dweller) if deed.type == "speak" else ()
    if not waiting:
        return None
    if waiting[0].created_at + GRACE <= utc_now():
        refuse(403, f"answer {waiting[0].id} first")
    return f"{len(waiting)} messages wait for an answer, {waiting[0].id} first"


def _record(db: AsyncSession, agent: User, dweller: Dweller, deed: NewAction) -> DwellerAction:
    eligible = deed.importance >= ESCALATION_FROM
    action = DwellerAction(
        dweller_id=dweller.id,
        actor_id=agent.id,
        escalation_eligible=eligible,
        escalation_status="eligible" if eligible else None,
        **deed.model_dump(exclude={"context_token"}),
    )
    db.add(action)
    return action
