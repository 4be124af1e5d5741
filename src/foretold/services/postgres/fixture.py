"""`foretold_postgres`: a fixture is made once per test, a database begins anew in each run."""

from __future__ import annotations

from typing import Any

from foretold.services.postgres.server import Postgres, begin
from foretold.world.current import current_world


class PostgresOfTheRun:
    """Stands for the `Postgres` of whichever run it is used in."""

    __slots__ = ("_schema",)

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def _here(self) -> Postgres:
        world = current_world()
        key = f"fixture {id(self)}"
        found: list[Any] = world.services.setdefault(key, [])
        if not found:
            found.append(begin(world, self._schema))
        return found[0]  # type: ignore[no-any-return]  # just put there

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._here(), name)

    def __repr__(self) -> str:
        return "<the PostgreSQL server of the run>"
