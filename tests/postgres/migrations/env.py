"""How Alembic runs the migrations of test_drivers_orm.py."""

from __future__ import annotations

from alembic import context
from sqlalchemy import engine_from_config, pool

engine = engine_from_config(context.config.get_section("alembic") or {}, poolclass=pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
