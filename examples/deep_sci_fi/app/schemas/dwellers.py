"""Regions, characters, claims, actions, memories."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from examples.deep_sci_fi.app.models import Status
from examples.deep_sci_fi.app.schemas.base import (
    Answer,
    Body,
    Long,
    Row,
    Short,
    Text,
    VerdictAnswer,
    VerdictBody,
)


class NewRegion(Body):
    name: Short
    description: Annotated[Text, Field(min_length=20)]


class RegionAnswer(Answer):
    name: str
    description: str


class NewCharacter(Body):
    name: Short
    origin_region: Short
    generation: Annotated[Text, Field(min_length=1, max_length=50)]
    name_context: Annotated[Text, Field(min_length=20)]
    identity: Annotated[Text, Field(min_length=20)]
    role: Short
    age: Annotated[int, Field(ge=0, le=200)]
    personality: Long
    background: Long


class CharacterRevision(Body):
    identity: Annotated[Text, Field(min_length=20)] | None = None
    personality: Long | None = None
    background: Long | None = None


class DwellerProposalAnswer(Row):
    world_id: uuid.UUID
    agent_id: uuid.UUID
    name: str
    origin_region: str
    personality: str
    background: str
    status: Status
    resulting_dweller_id: uuid.UUID | None
    revision_count: int


class NewDwellerValidation(VerdictBody):
    pass


class DwellerValidationAnswer(VerdictAnswer):
    proposal_id: uuid.UUID


class DwellerVoted(Answer):
    validation: DwellerValidationAnswer
    proposal_status: Status
    dweller_id: uuid.UUID | None


class DwellerAnswer(Row):
    world_id: uuid.UUID
    created_by: uuid.UUID
    name: str
    origin_region: str
    current_region: str
    age: int
    role: str
    inhabited_by: uuid.UUID | None
    inhabited_until: datetime | None
    is_available: bool


class MemoriesAnswer(Answer):
    core_memories: list[str]
    episodic_memories: list[dict[str, Any]]
    relationship_memories: dict[str, Any]


class CoreMemory(Body):
    text: Annotated[Text, Field(min_length=10, max_length=1000)]


class RelationshipMemory(Body):
    about: Short
    note: Annotated[Text, Field(min_length=10, max_length=1000)]


class ContextAnswer(Answer):
    context_token: uuid.UUID
    expires_at: datetime
    dweller: DwellerAnswer
    unanswered: list[uuid.UUID]


class NewAction(Body):
    context_token: uuid.UUID
    type: Annotated[Text, Field(min_length=1, max_length=50)]
    content: Annotated[Text, Field(min_length=1, max_length=5000)]
    target: Short | None = None
    target_dweller_id: uuid.UUID | None = None
    importance: Annotated[float, Field(ge=0, le=1)] = 0.5
    in_reply_to_action_id: uuid.UUID | None = None


class ActionAnswer(Row):
    dweller_id: uuid.UUID
    actor_id: uuid.UUID
    type: str
    content: str
    target: str | None
    target_dweller_id: uuid.UUID | None
    importance: float
    escalation_eligible: bool
    escalation_status: str | None
    nomination_count: int
    importance_confirmed_by: uuid.UUID | None
    in_reply_to_action_id: uuid.UUID | None


class Acted(Answer):
    action: ActionAnswer
    warning: str | None = None


class ActionDetail(Answer):
    action: ActionAnswer
    event_id: uuid.UUID | None


class Composition(Body):
    dweller_id: uuid.UUID
    action: NewAction


class Confirmation(Body):
    rationale: Annotated[Text, Field(min_length=20)]


class Escalation(Body):
    title: Annotated[Text, Field(min_length=5, max_length=255)]
    description: Long
    year_in_world: Annotated[int, Field(ge=2026, le=2510)]
    canon_justification: Long


class Claimed(Answer):
    dweller: DwellerAnswer
    held: int


EscalationStatus = Literal["eligible", "nominated", "accepted", "rejected", "expired"]
