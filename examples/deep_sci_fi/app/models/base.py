"""What all tables share: random ids, timestamps with a time zone, JSON as JSONB."""

import uuid
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import DateTime, ForeignKey, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

Json = dict[str, Any]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar = {
        datetime: DateTime(timezone=True),
        Json: JSONB,
        list[str]: JSONB,
        list[Json]: JSONB,
    }


class Keyed:
    """A random id, and when the row was made."""

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    created_at: Mapped[datetime] = mapped_column(default=utc_now)


class Revisable:
    """Content that its author may change; every change is counted, and what is said about the
    content says of which revision."""

    revision_count: Mapped[int] = mapped_column(default=0)
    last_revised_at: Mapped[datetime | None]

    def note_revision(self) -> None:
        self.revision_count += 1
        self.last_revised_at = utc_now()


def link(target: str, later: bool = False, **options: Any) -> Any:
    """A column that refers to a row of another table, which may have to be made `later`."""
    return mapped_column(ForeignKey(f"{target}.id", use_alter=later), index=True, **options)
