"""The public feed, newest first, page by page."""

import base64
import binascii
import json
import uuid
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from sqlalchemy import select, tuple_

import foretold
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.app.documents import refusals
from examples.deep_sci_fi.app.failures import refuse
from examples.deep_sci_fi.app.models import FeedEvent
from examples.deep_sci_fi.app.routers.paging import PAGE, Limit
from examples.deep_sci_fi.app.schemas.community import FeedEntry, FeedPage
from examples.deep_sci_fi.app.transaction import Db, Router

router = Router("/feed", "feed")

Cursor = Annotated[str | None, Query(max_length=200)]
"""Ours have less than 120 characters."""


@router.get("", responses=refusals(400))
async def page(db: Db, cursor: Cursor = None, limit: Limit = PAGE) -> FeedPage:
    """Where a page ends the next one begins, whatever was added meanwhile."""
    if foretold.buggify("a short page of the feed"):
        limit = 1
    order = (FeedEvent.created_at.desc(), FeedEvent.id.desc())
    find = select(FeedEvent).order_by(*order).limit(limit + 1)
    if cursor is not None and (after := _place(cursor)) is not None:
        find = find.where(tuple_(FeedEvent.created_at, FeedEvent.id) < after)
    rows = (await db.scalars(find)).all()
    entries = [FeedEntry.model_validate(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return FeedPage(entries=entries, next=None)
    return FeedPage(entries=entries, next=f"/api/feed?limit={limit}&cursor={_cursor(rows[-2])}")


def _cursor(last: FeedEvent) -> str:
    """An entry's place in the feed, as text that survives in a URL."""
    place = [last.created_at.isoformat(), str(last.id)]
    if bugs.on("feed_cursor_separator"):
        return "|".join(place)
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[datetime, uuid.UUID] | None:
    """The reverse; 400 for what is no cursor of ours."""
    try:
        if bugs.on("feed_cursor_separator"):
            at, key = cursor.split("|")
        else:
            padding = "=" * (-len(cursor) % 4)
            at, key = json.loads(base64.urlsafe_b64decode(cursor + padding))
        return _moment(at), uuid.UUID(key)
    except (ValueError, TypeError, AttributeError, OverflowError, binascii.Error):
        if bugs.on("feed_cursor_separator"):
            return None
        refuse(400, "this is no cursor")


def _moment(text: str) -> datetime:
    """With its offset, and in the years that there are in UTC, too."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.astimezone(UTC)
