"""Failures between an HTTP client and its server: what proxies, networks and deployments do.

Each waits for no instant but for a request: whether one strikes is drawn with every request that a
client of `world.web` sends, among those kinds that the run has. How each of them looks to both
sides is the affair of `services/web`.
"""

from __future__ import annotations

from typing import Final

from foretold.world.faults.kind import OnOccasion

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

LATE: Final = "response_late"
"""The response comes late. No set has it (a slow client and a slow network are there): it is for
prophecies and `web.fail_next`."""


KINDS: Final = tuple(OnOccasion(name, "web") for name in FAILURES)
