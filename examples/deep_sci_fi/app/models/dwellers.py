"""Characters, who inhabits them, what they do, and what they remember."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import Float, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from examples.deep_sci_fi.app.models.base import Base, Json, Keyed, link
from examples.deep_sci_fi.app.models.worlds import STATUSES, Proposed, Verdict, one_of


class Character:
    """What is known of a character, as a proposal and as a dweller."""

    name: Mapped[str] = mapped_column(String(100))
    origin_region: Mapped[str] = mapped_column(String(100))
    generation: Mapped[str] = mapped_column(String(50))
    name_context: Mapped[str] = mapped_column(Text)
    identity: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(String(100))
    age: Mapped[int]
    personality: Mapped[str] = mapped_column(Text)
    background: Mapped[str] = mapped_column(Text)


CHARACTER_FIELDS = tuple(Character.__annotations__)


class DwellerProposal(Keyed, Character, Proposed, Base):
    __tablename__ = "dweller_proposals"
    __table_args__: Any = (one_of("status", STATUSES),)

    world_id: Mapped[uuid.UUID] = link("worlds")
    resulting_dweller_id: Mapped[uuid.UUID | None] = link("dwellers")


class DwellerValidation(Keyed, Verdict, Base):
    __tablename__ = "dweller_validations"
    __table_args__: Any = (
        UniqueConstraint("proposal_id", "agent_id"),
        one_of("verdict", ("strengthen", "approve", "reject")),
    )

    proposal_id: Mapped[uuid.UUID] = link("dweller_proposals")


class Dweller(Keyed, Character, Base):
    __tablename__ = "dwellers"

    world_id: Mapped[uuid.UUID] = link("worlds")
    created_by: Mapped[uuid.UUID] = link("users")
    inhabited_by: Mapped[uuid.UUID | None] = link("users")
    inhabited_until: Mapped[datetime | None]
    is_available: Mapped[bool] = mapped_column(default=True)
    current_region: Mapped[str] = mapped_column(String(100))
    core_memories: Mapped[list[str]] = mapped_column(default=list)
    episodic_memories: Mapped[list[Json]] = mapped_column(default=list)
    relationship_memories: Mapped[Json] = mapped_column(default=dict)
    last_context_token: Mapped[uuid.UUID | None]
    last_context_at: Mapped[datetime | None]
    last_action_at: Mapped[datetime | None]


class Tenancy(Keyed, Base):
    """From when to when an agent inhabited a dweller; without an end, it still does."""

    __tablename__ = "tenancies"
    __table_args__: Any = (
        Index(
            "one_inhabitant", "dweller_id", unique=True, postgresql_where=text("ended_at IS NULL")
        ),
    )

    dweller_id: Mapped[uuid.UUID] = link("dwellers")
    agent_id: Mapped[uuid.UUID] = link("users")
    ended_at: Mapped[datetime | None]


class DwellerAction(Keyed, Base):
    __tablename__ = "dweller_actions"
    __table_args__: Any = (
        one_of("escalation_status", ("eligible", "nominated", "accepted", "rejected", "expired")),
    )

    dweller_id: Mapped[uuid.UUID] = link("dwellers")
    actor_id: Mapped[uuid.UUID] = link("users")
    type: Mapped[str] = mapped_column(String(50))
    target_dweller_id: Mapped[uuid.UUID | None] = link("dwellers")
    target: Mapped[str | None] = mapped_column(String(255))
    content: Mapped[str] = mapped_column(Text)
    importance: Mapped[float] = mapped_column(Float)
    escalation_eligible: Mapped[bool]
    escalation_status: Mapped[str | None] = mapped_column(String(20))
    nomination_count: Mapped[int] = mapped_column(default=0)
    importance_confirmed_by: Mapped[uuid.UUID | None] = link("users")
    importance_confirmed_at: Mapped[datetime | None]
    importance_rationale: Mapped[str | None] = mapped_column(Text)
    in_reply_to_action_id: Mapped[uuid.UUID | None] = link("dweller_actions")


class Composition(Base):
    """How often an agent has composed actions for a dweller too soon, and when it may again."""

    __tablename__ = "action_compositions"

    dweller_id: Mapped[uuid.UUID] = link("dwellers", primary_key=True)
    attempts: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime]


class Propagation(Keyed, Base):
    """An event that has become a memory of a dweller."""

    __tablename__ = "world_event_propagations"
    __table_args__: Any = (UniqueConstraint("event_id", "dweller_id"),)

    event_id: Mapped[uuid.UUID] = link("world_events")
    dweller_id: Mapped[uuid.UUID] = link("dwellers")
