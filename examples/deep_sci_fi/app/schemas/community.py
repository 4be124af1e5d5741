"""Stories, suggestions, feedback, critical review, reactions, the feed."""

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from examples.deep_sci_fi.app.models.community import ContentType, StoryStatus
from examples.deep_sci_fi.app.schemas.base import Answer, Body, Row, Short, Text, Title

Perspective = Literal[
    "first_person_agent", "first_person_dweller", "third_person_limited", "third_person_omniscient"
]
Notes = Annotated[Text, Field(min_length=20)]
Category = Literal["bug", "usability", "documentation", "feature", "performance", "other"]
Priority = Literal["low", "medium", "high", "critical"]
FeedbackStatus = Literal["new", "acknowledged", "in_progress", "resolved", "wont_fix"]
Reaction = Literal["fire", "mind", "heart", "thinking"]
ReviewCategory = Literal[
    "causal_gap", "science", "timeline", "consistency", "clarity", "originality"
]


class NewStory(Body):
    world_id: uuid.UUID
    title: Title
    content: Annotated[Text, Field(min_length=100)]
    perspective: Perspective
    dweller_id: uuid.UUID | None = None
    source_action_ids: list[uuid.UUID] = Field(max_length=20, default_factory=list)


class StoryRevision(Body):
    title: Title | None = None
    content: Annotated[Text, Field(min_length=100)] | None = None


class StoryAnswer(Row):
    world_id: uuid.UUID
    author_id: uuid.UUID
    dweller_id: uuid.UUID | None
    title: str
    content: str
    perspective: Perspective
    status: StoryStatus
    reaction_count: int
    revision_count: int


class NewStoryReview(Body):
    recommend_acclaim: bool
    improvements: Annotated[list[Short], Field(min_length=1, max_length=10)]
    canon_notes: Notes
    event_notes: Notes
    style_notes: Notes


class StoryReviewAnswer(Row):
    story_id: uuid.UUID
    reviewer_id: uuid.UUID
    recommend_acclaim: bool
    improvements: list[str]
    author_responded: bool
    author_response: str | None


class Reply(Body):
    text: Notes


class StoryReviewed(Answer):
    review: StoryReviewAnswer
    story_status: StoryStatus


class React(Body):
    kind: Reaction = "fire"


class ReactTo(React):
    target_type: Literal["world", "story"]
    target_id: uuid.UUID


class Reacted(Answer):
    reacted: bool
    count: int


class NewFeedback(Body):
    category: Category
    priority: Priority = "medium"
    title: Title
    description: Notes


class FeedbackAnswer(Row):
    agent_id: uuid.UUID
    category: Category
    priority: Priority
    title: str
    description: str
    status: FeedbackStatus
    resolution_notes: str | None
    upvote_count: int
    upvoters: list[str]


class FeedbackDecision(Body):
    status: FeedbackStatus
    resolution_notes: Notes | None = None


class NewSuggestion(Body):
    field: Annotated[str, Field(max_length=50)]
    suggested_value: Annotated[Text, Field(min_length=1)]
    rationale: Notes


class SuggestionAnswer(Row):
    target_type: Literal["proposal", "aspect"]
    target_id: uuid.UUID
    suggested_by: uuid.UUID
    field: str
    current_value: str
    suggested_value: str
    rationale: str
    status: Literal["pending", "accepted", "rejected", "expired", "withdrawn"]
    upvoters: list[str]
    owner_deadline: datetime


class NewItem(Body):
    category: ReviewCategory
    severity: Literal["critical", "important", "minor"]
    description: Notes


class NewReview(Body):
    items: Annotated[list[NewItem], Field(min_length=1, max_length=20)]


class ItemAnswer(Row):
    review_id: uuid.UUID
    category: ReviewCategory
    severity: str
    description: str
    status: Literal["open", "addressed", "resolved", "disputed"]
    of_revision: int


class ReviewAnswer(Answer):
    id: uuid.UUID
    content_type: ContentType
    content_id: uuid.UUID
    reviewer_id: uuid.UUID
    items: list[ItemAnswer]


class Reviews(Answer):
    reviews: list[ReviewAnswer]
    blind: bool
    """Others' reviews are kept back until the caller has given one."""


class ItemReply(Reply):
    dispute: bool = False


class ItemChanged(Answer):
    item: ItemAnswer
    content_status: str
    world_id: uuid.UUID | None


class ReviewStatus(Answer):
    reviewers: int
    open_items: int
    can_graduate: bool
    content_status: str
    world_id: uuid.UUID | None


class FeedEntry(Row):
    kind: str
    headline: str
    subject_id: uuid.UUID
    world_id: uuid.UUID | None
    data: dict[str, Any]


class FeedPage(Answer):
    entries: list[FeedEntry]
    next: str | None
    """Where the next page is."""
