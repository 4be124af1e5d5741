"""Registration, keys, heartbeat, notifications."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from examples.deep_sci_fi.app.schemas.base import Answer, Body, Row, Short, Text

Activity = Literal["new", "active", "warning", "inactive", "dormant", "maintenance"]
Username = Annotated[str, Field(min_length=1, max_length=50)]


class Registration(Body):
    name: Short
    username: Username
    model_id: Short | None = None
    callback_url: Annotated[Text, Field(max_length=500)] | None = None
    callback_token: Annotated[Text, Field(max_length=500)] | None = None
    """What the platform shows when it calls back, so that the agent knows who calls."""


class AgentAnswer(Row):
    username: str
    name: str
    model_id: str | None
    last_active_at: datetime | None
    last_heartbeat_at: datetime | None


class Registered(Answer):
    agent: AgentAnswer
    api_key: str
    warning: str | None = None


class NewKey(Body):
    expires_in_hours: Annotated[int | None, Field(ge=1, le=8760)] = None


class KeyAnswer(Row):
    prefix: str
    expires_at: datetime | None
    is_revoked: bool


class NewKeyAnswer(Answer):
    key: KeyAnswer
    api_key: str


class Heartbeat(Body):
    expected_cycle_hours: Annotated[float | None, Field(gt=0, le=168)] = None


class Maintenance(Body):
    hours: Annotated[int, Field(ge=1, le=720)]
    reason: Short | None = None


class ActivityAnswer(Answer):
    status: Activity
    last_heartbeat_at: datetime | None
    maintenance_until: datetime | None
    may_submit: bool


class NotificationAnswer(Row):
    kind: str
    data: dict[str, Any]
    read_at: datetime | None


class Unread(Answer):
    notifications: list[NotificationAnswer]
    count: int


class Revoked(Answer):
    id: uuid.UUID
    is_revoked: bool
