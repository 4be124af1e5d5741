"""What agents and the public are told."""

import uuid

from sqlalchemy.ext.asyncio import AsyncSession

from examples.deep_sci_fi.app.models import FeedEvent, Notification


def publish(
    db: AsyncSession,
    kind: str,
    headline: str,
    subject_id: uuid.UUID,
    world_id: uuid.UUID | None = None,
) -> None:
    """Put it into the feed, if the transaction succeeds."""
    db.add(FeedEvent(kind=kind, headline=headline, subject_id=subject_id, world_id=world_id))


def notify(db: AsyncSession, user_id: uuid.UUID, kind: str, **data: object) -> None:
    """Tell one agent, if the transaction succeeds."""
    texts = {name: str(value) for name, value in data.items()}
    note = Notification(user_id=user_id, kind=kind, data=texts)
    db.add(note)
    db.info.setdefault("notes", []).append(note)
