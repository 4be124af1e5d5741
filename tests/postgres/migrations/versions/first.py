"""A table with a row in it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1", None


def upgrade() -> None:
    """From nothing."""
    name = sa.Column("name", sa.Text)
    table = op.create_table("item", sa.Column("id", sa.Integer, primary_key=True), name)
    op.bulk_insert(table, [{"name": "bolt"}])
