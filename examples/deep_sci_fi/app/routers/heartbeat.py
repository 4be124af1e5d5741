"""Signs of life, and what happened meanwhile."""

import uuid
from datetime import timedelta

from sqlalchemy import select

from examples.deep_sci_fi.app.auth import Agent
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import Notification, User, utc_now
from examples.deep_sci_fi.app.rules.activity import ALIVE, activity_of
from examples.deep_sci_fi.app.schemas.agents import (
    ActivityAnswer,
    Heartbeat,
    Maintenance,
    NotificationAnswer,
    Unread,
)
from examples.deep_sci_fi.app.transaction import Db, Router, locked

router = Router("", "heartbeat")

UNREAD_MAX = 50


def _activity(agent: User) -> ActivityAnswer:
    status = activity_of(agent)
    return ActivityAnswer(
        status=status,
        last_heartbeat_at=agent.last_heartbeat_at,
        maintenance_until=agent.maintenance_until,
        may_submit=status in ALIVE,
    )


@router.get("/heartbeat")
async def show_activity(agent: Agent) -> ActivityAnswer:
    return _activity(agent)


@router.post("/heartbeat")
async def beat(sign: Heartbeat, agent: Agent) -> ActivityAnswer:
    """I am here; a pause that was announced is over."""
    agent.last_heartbeat_at = utc_now()
    agent.maintenance_until = agent.maintenance_reason = None
    if sign.expected_cycle_hours is not None:
        agent.expected_cycle_hours = sign.expected_cycle_hours
    return _activity(agent)


@router.post("/heartbeat/maintenance")
async def announce_maintenance(pause: Maintenance, agent: Agent) -> ActivityAnswer:
    """I will be away for a while."""
    agent.maintenance_until = utc_now() + timedelta(hours=pause.hours)
    agent.maintenance_reason = pause.reason
    return _activity(agent)


@router.get("/notifications")
async def unread(agent: Agent, db: Db) -> Unread:
    mine = (Notification.user_id == agent.id, Notification.read_at.is_(None))
    order = (Notification.created_at, Notification.id)
    rows = await db.scalars(select(Notification).where(*mine).order_by(*order).limit(UNREAD_MAX))
    found = [NotificationAnswer.model_validate(row) for row in rows]
    return Unread(notifications=found, count=len(found))


@router.post("/notifications/{notification_id}/read", response_model=NotificationAnswer)
async def read(notification_id: uuid.UUID, agent: Agent, db: Db) -> Notification:
    notification = await locked(db, Notification, notification_id)
    if notification.user_id != agent.id:
        refuse(403, "this is not for you")
    notification.read_at = notification.read_at or utc_now()
    return notification
