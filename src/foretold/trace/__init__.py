"""The trace of a run: its digest (`record`), and events as data for those who tell it (`events`).

Applications import foretold in production, for `always` and its siblings: so what those need is
imported here, and no more.
"""

from foretold.trace.content import (
    CANCELLED,
    RAISED,
    RETURNED,
    TaskOutcome,
    encode,
    outcome_of,
    raised,
)
from foretold.trace.places import Place

__all__ = [
    "CANCELLED",
    "RAISED",
    "RETURNED",
    "Place",
    "TaskOutcome",
    "encode",
    "outcome_of",
    "raised",
]
