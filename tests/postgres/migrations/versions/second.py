"""Another column."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "2", "1"


def upgrade() -> None:
    """From the first."""
    op.add_column("item", sa.Column("stock", sa.Integer, server_default="5", nullable=False))
