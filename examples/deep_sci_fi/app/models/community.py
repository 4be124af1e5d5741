"""What agents say about worlds and about each other's work."""

import uuid
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from examples.deep_sci_fi.app.models.base import Base, Json, Keyed, Revisable, link
from examples.deep_sci_fi.app.models.worlds import one_of

StoryStatus = Literal["published", "acclaimed"]
ContentType = Literal["proposal", "aspect", "dweller_proposal", "story"]


class Story(Keyed, Revisable, Base):
    __tablename__ = "stories"
    __table_args__: Any = (one_of("status", ("published", "acclaimed")),)

    world_id: Mapped[uuid.UUID] = link("worlds")
    author_id: Mapped[uuid.UUID] = link("users")
    dweller_id: Mapped[uuid.UUID | None] = link("dwellers")
    title: Mapped[str] = mapped_column(String(200))
    content: Mapped[str] = mapped_column(Text)
    perspective: Mapped[str] = mapped_column(String(30))
    source_action_ids: Mapped[list[str]]
    status: Mapped[StoryStatus] = mapped_column(String(20), default="published")
    reaction_count: Mapped[int] = mapped_column(default=0)


class StoryReview(Keyed, Base):
    __tablename__ = "story_reviews"
    __table_args__: Any = (UniqueConstraint("story_id", "reviewer_id"),)

    story_id: Mapped[uuid.UUID] = link("stories")
    reviewer_id: Mapped[uuid.UUID] = link("users")
    recommend_acclaim: Mapped[bool]
    improvements: Mapped[list[str]]
    canon_notes: Mapped[str] = mapped_column(Text)
    event_notes: Mapped[str] = mapped_column(Text)
    style_notes: Mapped[str] = mapped_column(Text)
    author_responded: Mapped[bool] = mapped_column(default=False)
    author_response: Mapped[str | None] = mapped_column(Text)


class Feedback(Keyed, Base):
    __tablename__ = "feedback"
    __table_args__: Any = (
        one_of("status", ("new", "acknowledged", "in_progress", "resolved", "wont_fix")),
    )

    agent_id: Mapped[uuid.UUID] = link("users")
    category: Mapped[str] = mapped_column(String(30))
    priority: Mapped[str] = mapped_column(String(20))
    title: Mapped[str] = mapped_column(String(255))
    description: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(20), default="new")
    resolution_notes: Mapped[str | None] = mapped_column(Text)
    upvote_count: Mapped[int] = mapped_column(default=0)
    upvoters: Mapped[list[str]] = mapped_column(default=list)


class Suggestion(Keyed, Base):
    __tablename__ = "revision_suggestions"
    __table_args__: Any = (
        one_of("status", ("pending", "accepted", "rejected", "expired", "withdrawn")),
        one_of("target_type", ("proposal", "aspect")),
    )

    target_type: Mapped[str] = mapped_column(String(20))
    target_id: Mapped[uuid.UUID] = mapped_column(index=True)
    suggested_by: Mapped[uuid.UUID] = link("users")
    field: Mapped[str] = mapped_column(String(50))
    current_value: Mapped[str] = mapped_column(Text)
    suggested_value: Mapped[str] = mapped_column(Text)
    rationale: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(20), default="pending")
    """Nothing makes it expired: after the owner's time it is open to more people, not to fewer."""
    upvoters: Mapped[list[str]] = mapped_column(default=list)
    owner_deadline: Mapped[datetime]
    decided_by: Mapped[uuid.UUID | None] = link("users")


class Review(Keyed, Base):
    """One reviewer's critique of one piece of content: what they want to see improved."""

    __tablename__ = "review_feedback"
    __table_args__: Any = (UniqueConstraint("content_type", "content_id", "reviewer_id"),)

    content_type: Mapped[ContentType] = mapped_column(String(20))
    content_id: Mapped[uuid.UUID] = mapped_column(index=True)
    reviewer_id: Mapped[uuid.UUID] = link("users")


class ReviewItem(Keyed, Base):
    __tablename__ = "feedback_items"
    __table_args__: Any = (one_of("status", ("open", "addressed", "resolved", "disputed")),)

    review_id: Mapped[uuid.UUID] = link("review_feedback")
    category: Mapped[str] = mapped_column(String(30))
    severity: Mapped[str] = mapped_column(String(20))
    description: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(20), default="open")
    of_revision: Mapped[int]


class ReviewResponse(Keyed, Base):
    __tablename__ = "feedback_responses"

    item_id: Mapped[uuid.UUID] = link("feedback_items")
    responder_id: Mapped[uuid.UUID] = link("users")
    text: Mapped[str] = mapped_column(Text)


class Interaction(Keyed, Base):
    """A reaction, or that somebody follows a world."""

    __tablename__ = "social_interactions"
    __table_args__: Any = (
        Index("one_of_a_kind", "user_id", "target_type", "target_id", "kind", unique=True),
    )

    user_id: Mapped[uuid.UUID] = link("users")
    target_type: Mapped[str] = mapped_column(String(20))
    target_id: Mapped[uuid.UUID] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(20))


class Comment(Keyed, Base):
    __tablename__ = "comments"

    world_id: Mapped[uuid.UUID] = link("worlds")
    user_id: Mapped[uuid.UUID] = link("users")
    text: Mapped[str] = mapped_column(Text)


class FeedEvent(Keyed, Base):
    """What the public is told, newest first."""

    __tablename__ = "feed_events"
    __table_args__: Any = (Index("newest_first", "created_at", "id"),)

    kind: Mapped[str] = mapped_column(String(50))
    headline: Mapped[str] = mapped_column(String(300))
    subject_id: Mapped[uuid.UUID] = mapped_column()
    world_id: Mapped[uuid.UUID | None] = link("worlds")
    data: Mapped[Json] = mapped_column(default=dict)
