"""One scheduler per file. A scheduler decides which ready task of a host resumes next.

It is used in `order="any"` only. The loop hands it the tasks that are ready (`add`) and asks it to
`pick`. If a plain callback is next in line it is offered too: a scheduler may take it before the
tasks that arrived earlier, but no task that arrived after it is in the pool (transports rely on
that), and it may not be kept waiting for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from foretold.errors import UsageError
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.delays import DelayScheduler
from foretold.kernel.schedulers.fifo import FifoScheduler
from foretold.kernel.schedulers.pct import PctScheduler
from foretold.kernel.schedulers.random_walk import RandomScheduler

SCHEDULERS: dict[str, Callable[[random.Random], Scheduler]] = {
    "fifo": FifoScheduler,
    "random": RandomScheduler,
    "pct": PctScheduler,
    "delays": DelayScheduler,
}


def scheduler_named(name: str, generator: random.Random) -> Scheduler:
    """A new scheduler of the kind `name`, drawing from `generator`."""
    try:
        make = SCHEDULERS[name]
    except KeyError:
        known = ", ".join(SCHEDULERS)
        raise UsageError(f"there is no scheduler {name!r}; known are {known}") from None
    return make(generator)


__all__ = ["SCHEDULERS", "Scheduler", "scheduler_named"]
