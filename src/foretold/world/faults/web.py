"""Failures between an HTTP client and its server: what proxies, networks and deployments do.

Each waits for no instant but for a request: whether one strikes is drawn with every request that a
client of `world.web` sends, among those kinds that the run has. How each of them looks to both
sides is the affair of `services/web`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from foretold.tape import Stream
from foretold.world.faults.kind import Kind

if TYPE_CHECKING:
    from foretold.world.faults.nemesis import Ground

FAILURES: Final = (
    "request_lost",
    "response_lost",
    "delivered_twice",
    "late_duplicate",
    "client_gone",
    "server_restart",
    "slow_client",
    "request_inside",
)


class OfWeb(Kind):
    """One kind of failure of requests."""

    strikes = "web"
    on_occasion = True
    effect = "told"

    def __init__(self, name: str) -> None:
        self.name = name

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        return iter(())  # it is requests that it strikes, not instants


KINDS: Final = tuple(OfWeb(name) for name in FAILURES)
