"""All small buggy programs, after the patterns of GoBench and SCTBench, for asyncio.

Each comes with its repaired twin, and in stock order, undisturbed, the buggy one passes as well: a
plain test would not show the mistake.
"""

from __future__ import annotations

from tests.search.programs import (  # noqa: F401  # they enter their programs
    cancelling,
    locks,
    queues,
    services,
    signals,
    state,
)
from tests.search.programs.registry import BUGS, Program

__all__ = ["BUGS", "Program"]
