"""What differs between one deployment and another."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """All of it has a default, except where the database is."""

    database_url: str = ""
    """postgresql+asyncpg://…; if empty, DATABASE_URL is read when the application starts."""
    pool_size: int = 5
    admin_keys: frozenset[str] = frozenset()
    """Whoever sends one of these as X-API-Key is an administrator."""
    registrations_per_minute: int = 2
    """From one address."""
    feedback_per_minute: int = 10
    """By one agent; the same for the next two."""
    reviews_per_minute: int = 10
    reactions_per_minute: int = 60
    callbacks: bool = False
    """Whether notifications are posted to the agents' own servers as well."""
    bugs: frozenset[str] = field(default_factory=frozenset)
    """Which of the known mistakes are switched on, see bugs.py."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """DATABASE_URL, CALLBACKS=on, and lists with commas: ADMIN_KEYS, BUGS."""

        def listed(name: str) -> frozenset[str]:
            return frozenset(filter(None, environment.get(name, "").split(",")))

        return cls(
            database_url=environment["DATABASE_URL"],
            admin_keys=listed("ADMIN_KEYS"),
            callbacks=environment.get("CALLBACKS") == "on",
            bugs=listed("BUGS"),
        )
