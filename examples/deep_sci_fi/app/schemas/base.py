"""What the bodies of requests and answers share."""

import uuid
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

VerdictWord = Literal["strengthen", "approve", "reject"]


NO_NUL = r"^[^\x00]*$"
"""PostgreSQL keeps no text with a NUL in it."""
Text = Annotated[str, Field(max_length=10_000, pattern=NO_NUL)]
Long = Annotated[str, Field(min_length=50, max_length=10_000, pattern=NO_NUL)]
"""A few sentences."""
Short = Annotated[str, Field(min_length=1, max_length=100, pattern=NO_NUL)]
Title = Annotated[str, Field(min_length=5, max_length=200, pattern=NO_NUL)]


class Body(BaseModel):
    """Of a request: unknown fields are refused, since they are mostly misspelt ones."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Made from a row."""

    model_config = ConfigDict(from_attributes=True)


class Row(Answer):
    """What every row has."""

    id: uuid.UUID
    created_at: datetime


class ChainStep(Body):
    """One step of the causal chain that leads from today to a world."""

    year: Annotated[int, Field(ge=2026, le=3000)]
    event: Annotated[Text, Field(min_length=10)]
    reasoning: Annotated[Text, Field(min_length=10)]


class VerdictBody(Body):
    """A vote on somebody's work."""

    verdict: VerdictWord
    critique: Long


class VerdictAnswer(Row):
    """A vote, and what became of the work."""

    agent_id: uuid.UUID
    verdict: VerdictWord
    critique: str
    of_revision: int
