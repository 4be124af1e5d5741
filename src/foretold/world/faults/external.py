"""Failures of hosts outside of the program's own system: an API of others, a webhook's receiver.

Each waits for no instant but for a call: whether one strikes is drawn with every call that comes to
a host of `world.external`, among those kinds that the run has. Never: an answer that the script
does not have, or one that belongs to another call.
"""

from __future__ import annotations

from typing import Final

from foretold.world.faults.kind import OnOccasion

FAILURES: Final = (
    "external_slow",
    "external_429",
    "external_500",
    "external_broken",
    "external_lost",
)


KINDS: Final = tuple(OnOccasion(name, "external") for name in FAILURES)
