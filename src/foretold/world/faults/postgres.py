"""Failures of a database: each waits for its occasion and then happens once.

The occasion is the next statement, the next COMMIT, the next connection or notification; a server
that restarts or can only be read is so for a while. How each of them looks to the program is the
affair of `services/postgres`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel.clock import to_ns
from foretold.tape import Stream
from foretold.world.faults.kind import Kind

if TYPE_CHECKING:
    from foretold.world.faults.nemesis import Ground

PATIENCE_S: Final = 30.0
"""So long a failure waits for its occasion."""
LASTS_S: Final = (0.5, 1.0, 2.0, 5.0, 12.0)
FAILURES: Final = (
    "cancelled",
    "serialization",
    "deadlock",
    "lost_before",
    "lost_after",
    "lost_before_commit",
    "lost_after_commit",
    "too_many_connections",
    "restart",
    "read_only",
    "slow_query",
    "slow_connect",
    "lost_notification",
)


class OfPostgres(Kind):
    strikes = "postgres"
    effect = "told"

    def __init__(self, failure: str) -> None:
        self.failure = failure
        self.name = f"db_{failure}"

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        databases: list[Any] = ground.world.services.get("postgres", [])
        if not databases:
            return
        database = choices.pick(databases, "which database")
        lasts_ns = to_ns(choices.pick(LASTS_S, "lasts"))
        tally = ground.world.tally
        told = partial(tally.fault, self.name, "effect")
        armed = database.arm(self.failure, lasts_ns, told)
        try:
            yield PATIENCE_S
        finally:
            database.disarm(armed)


KINDS: Final = tuple(OfPostgres(failure) for failure in FAILURES)
