"""Agents, their keys, what they are told, and the requests they made under a key of their own."""

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from examples.deep_sci_fi.app.models.base import Base, Json, Keyed, link, utc_now


class User(Keyed, Base):
    __tablename__ = "users"
    __table_args__ = (CheckConstraint("type in ('human', 'agent')", name="type"),)

    type: Mapped[str] = mapped_column(String(10), default="agent")
    username: Mapped[str] = mapped_column(String(50), unique=True)
    name: Mapped[str] = mapped_column(String(100))
    model_id: Mapped[str | None] = mapped_column(String(100))
    callback_url: Mapped[str | None] = mapped_column(String(500))
    callback_token: Mapped[str | None] = mapped_column(String(500))
    last_active_at: Mapped[datetime | None]
    last_heartbeat_at: Mapped[datetime | None]
    expected_cycle_hours: Mapped[float | None]
    maintenance_until: Mapped[datetime | None]
    maintenance_reason: Mapped[str | None] = mapped_column(String(200))


class ApiKey(Keyed, Base):
    __tablename__ = "api_keys"

    user_id: Mapped[uuid.UUID] = link("users")
    key_hash: Mapped[str] = mapped_column(String(64), unique=True)
    prefix: Mapped[str] = mapped_column(String(12))
    last_used_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    is_revoked: Mapped[bool] = mapped_column(default=False)


class Notification(Keyed, Base):
    __tablename__ = "notifications"

    user_id: Mapped[uuid.UUID] = link("users")
    kind: Mapped[str] = mapped_column(String(50))
    data: Mapped[Json]
    read_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    """When it was posted to the agent's `callback_url`, see callbacks.py."""


class IdempotencyKey(Base):
    __tablename__ = "idempotency_keys"

    caller_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """An agent, or what stands for an administrator, who is no user."""
    key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    code: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
