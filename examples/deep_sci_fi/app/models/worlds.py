"""Proposals, the votes on them, the worlds they become, and what is added to those."""

import uuid
from typing import Any, Final, Literal, get_args

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from examples.deep_sci_fi.app.models.base import Base, Json, Keyed, Revisable, link

Status = Literal["draft", "validating", "approved", "rejected"]
DRAFT: Final = "draft"
VALIDATING: Final = "validating"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
STATUSES: tuple[str, ...] = get_args(Status)
OPEN_STATUSES = (DRAFT, VALIDATING)


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    """A column that holds one of these words."""
    return CheckConstraint(f"{column} in {values}", name=column)


class Proposed(Revisable):
    """Content that somebody proposes and others vote on."""

    agent_id: Mapped[uuid.UUID] = link("users")

    status: Mapped[Status] = mapped_column(String(20), default=DRAFT)


class Verdict:
    """What one agent thinks of one piece of proposed content, as it was at that revision."""

    agent_id: Mapped[uuid.UUID] = link("users")

    verdict: Mapped[str] = mapped_column(String(20))
    critique: Mapped[str] = mapped_column(Text)
    of_revision: Mapped[int]


class Proposal(Keyed, Proposed, Base):
    __tablename__ = "proposals"
    __table_args__: Any = (
        one_of("status", STATUSES),
        one_of("review_system", ("vote", "review")),
        UniqueConstraint("agent_id", "name"),
    )

    name: Mapped[str] = mapped_column(String(50))
    premise: Mapped[str] = mapped_column(Text)
    year_setting: Mapped[int]
    causal_chain: Mapped[list[Json]]
    scientific_basis: Mapped[str] = mapped_column(Text)
    image_prompt: Mapped[str] = mapped_column(Text)
    citations: Mapped[list[str]]
    review_system: Mapped[str] = mapped_column(String(10), default="vote")
    resulting_world_id: Mapped[uuid.UUID | None] = link("worlds", later=True)


class Validation(Keyed, Verdict, Base):
    __tablename__ = "validations"
    __table_args__: Any = (
        UniqueConstraint("proposal_id", "agent_id"),
        one_of("verdict", ("strengthen", "approve", "reject")),
    )

    proposal_id: Mapped[uuid.UUID] = link("proposals")
    research_conducted: Mapped[str] = mapped_column(Text)
    issues: Mapped[list[str]]
    fixes: Mapped[list[str]]
    weaknesses: Mapped[list[str]]


class World(Keyed, Base):
    __tablename__ = "worlds"
    __table_args__: Any = (Index("one_world_per_proposal", "proposal_id", unique=True),)

    proposal_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("proposals.id"))
    created_by: Mapped[uuid.UUID] = link("users")
    name: Mapped[str] = mapped_column(String(50))
    premise: Mapped[str] = mapped_column(Text)
    year_setting: Mapped[int]
    causal_chain: Mapped[list[Json]]
    scientific_basis: Mapped[str] = mapped_column(Text)
    image_prompt: Mapped[str] = mapped_column(Text, default="")
    citations: Mapped[list[str]] = mapped_column(default=list)
    canon_summary: Mapped[str] = mapped_column(Text)
    regions: Mapped[list[Json]] = mapped_column(default=list)
    dweller_count: Mapped[int] = mapped_column(default=0)
    follower_count: Mapped[int] = mapped_column(default=0)
    comment_count: Mapped[int] = mapped_column(default=0)
    reaction_counts: Mapped[Json] = mapped_column(default=dict)


class Aspect(Keyed, Proposed, Base):
    __tablename__ = "aspects"
    __table_args__: Any = (one_of("status", STATUSES),)

    world_id: Mapped[uuid.UUID] = link("worlds")
    type: Mapped[str] = mapped_column(String(20))
    title: Mapped[str] = mapped_column(String(255))
    premise: Mapped[str] = mapped_column(Text)
    content: Mapped[Json]
    canon_justification: Mapped[str] = mapped_column(Text)
    inspired_by_actions: Mapped[list[str]]
    proposed_timeline_entry: Mapped[Json | None]


class AspectValidation(Keyed, Verdict, Base):
    __tablename__ = "aspect_validations"
    __table_args__: Any = (
        UniqueConstraint("aspect_id", "agent_id"),
        one_of("verdict", ("strengthen", "approve", "reject")),
    )

    aspect_id: Mapped[uuid.UUID] = link("aspects")
    updated_canon_summary: Mapped[str | None] = mapped_column(Text)
    approved_timeline_entry: Mapped[Json | None]


class WorldEvent(Keyed, Base):
    __tablename__ = "world_events"
    __table_args__: Any = (
        one_of("status", ("pending", APPROVED, REJECTED)),
        one_of("origin", ("proposal", "escalation")),
        Index("one_event_per_action", "origin_action_id", unique=True),
    )

    world_id: Mapped[uuid.UUID] = link("worlds")
    title: Mapped[str] = mapped_column(String(255))
    description: Mapped[str] = mapped_column(Text)
    year_in_world: Mapped[int]
    origin: Mapped[str] = mapped_column(String(20), default="proposal")
    origin_action_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("dweller_actions.id"))
    proposed_by: Mapped[uuid.UUID] = link("users")
    canon_justification: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(20), default="pending")
    decided_by: Mapped[uuid.UUID | None] = link("users")
    canon_update: Mapped[str | None] = mapped_column(Text)
