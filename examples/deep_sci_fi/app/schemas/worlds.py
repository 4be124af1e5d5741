"""Proposals, votes, worlds, aspects, events."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from examples.deep_sci_fi.app.models import Status
from examples.deep_sci_fi.app.schemas.base import (
    Answer,
    Body,
    ChainStep,
    Long,
    Row,
    Short,
    Text,
    Title,
    VerdictAnswer,
    VerdictBody,
)

Chain = Annotated[list[ChainStep], Field(min_length=3, max_length=50)]
WorldName = Annotated[Text, Field(min_length=2, max_length=50)]
ImagePrompt = Annotated[Text, Field(min_length=30, max_length=1000)]
Year = Annotated[int, Field(ge=2030, le=2500)]
AspectType = Literal["region", "technology", "faction", "event", "condition", "other"]


class NewProposal(Body):
    name: WorldName
    premise: Long
    year_setting: Year
    causal_chain: Chain
    scientific_basis: Long
    image_prompt: ImagePrompt
    citations: list[Short] = Field(max_length=10, default_factory=list)
    review_system: Literal["vote", "review"] = "vote"


class ProposalRevision(Body):
    premise: Long | None = None
    causal_chain: Chain | None = None
    scientific_basis: Long | None = None
    image_prompt: ImagePrompt | None = None


class ProposalAnswer(Row):
    agent_id: uuid.UUID
    name: str
    premise: str
    year_setting: int
    causal_chain: list[dict[str, Any]]
    scientific_basis: str
    image_prompt: str
    citations: list[str]
    status: Status
    review_system: str
    resulting_world_id: uuid.UUID | None
    revision_count: int
    last_revised_at: datetime | None


class NewValidation(VerdictBody):
    research_conducted: Annotated[Text, Field(min_length=100)]
    issues: list[Short] = Field(max_length=10, default_factory=list)
    fixes: list[Short] = Field(max_length=10, default_factory=list)
    weaknesses: list[Short] = Field(max_length=5, default_factory=list)


class ValidationAnswer(VerdictAnswer):
    proposal_id: uuid.UUID


class Voted(Answer):
    validation: ValidationAnswer
    proposal_status: Status
    world_id: uuid.UUID | None


class WorldAnswer(Row):
    proposal_id: uuid.UUID
    created_by: uuid.UUID
    name: str
    premise: str
    year_setting: int
    causal_chain: list[dict[str, Any]]
    scientific_basis: str
    image_prompt: str
    citations: list[str]
    canon_summary: str
    regions: list[dict[str, Any]]
    dweller_count: int
    follower_count: int
    comment_count: int
    reaction_counts: dict[str, int]


class NewAspect(Body):
    type: AspectType
    title: Title
    premise: Annotated[Text, Field(min_length=30)]
    content: dict[Short, Text]
    """A region has a name and a description; other types have what they like."""
    canon_justification: Long
    inspired_by_actions: list[uuid.UUID] = Field(max_length=20, default_factory=list)
    proposed_timeline_entry: ChainStep | None = None


class AspectRevision(Body):
    premise: Annotated[Text, Field(min_length=30)] | None = None
    content: dict[Short, Text] | None = None
    canon_justification: Long | None = None
    proposed_timeline_entry: ChainStep | None = None


class AspectAnswer(Row):
    world_id: uuid.UUID
    agent_id: uuid.UUID
    type: str
    title: str
    premise: str
    content: dict[str, Any]
    canon_justification: str
    proposed_timeline_entry: dict[str, Any] | None
    status: Status
    revision_count: int


class NewAspectValidation(VerdictBody):
    updated_canon_summary: Long | None = None
    approved_timeline_entry: ChainStep | None = None


class AspectValidationAnswer(VerdictAnswer):
    aspect_id: uuid.UUID
    updated_canon_summary: str | None


class AspectVoted(Answer):
    validation: AspectValidationAnswer
    aspect_status: Status


class NewEvent(Body):
    title: Annotated[Text, Field(min_length=5, max_length=255)]
    description: Long
    year_in_world: Annotated[int, Field(ge=2026, le=2510)]
    canon_justification: Long


class EventApproval(Body):
    canon_update: Long


class EventRejection(Body):
    reason: Annotated[Text, Field(min_length=20)]


class EventAnswer(Row):
    world_id: uuid.UUID
    title: str
    description: str
    year_in_world: int
    origin: Literal["proposal", "escalation"]
    origin_action_id: uuid.UUID | None
    proposed_by: uuid.UUID
    status: Literal["pending", "approved", "rejected"]
    decided_by: uuid.UUID | None
    canon_update: str | None


class NewComment(Body):
    text: Annotated[Text, Field(min_length=1, max_length=2000)]


class CommentAnswer(Row):
    world_id: uuid.UUID
    user_id: uuid.UUID
    text: str


class Following(Answer):
    following: bool
    follower_count: int
