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
from foretold.kernel.schedulers.pos import PosScheduler
from foretold.kernel.schedulers.profile import UNKNOWN, Profile
from foretold.kernel.schedulers.random_walk import RandomScheduler
from foretold.kernel.schedulers.surw import SurwScheduler

SCHEDULERS: dict[str, Callable[[random.Random, Profile], Scheduler]] = {
    "fifo": FifoScheduler,
    "random": RandomScheduler,
    "pct": PctScheduler,
    "delays": DelayScheduler,
    "pos": PosScheduler,
    "surw": SurwScheduler,
}


def scheduler_named(name: str, generator: random.Random, profile: Profile = UNKNOWN) -> Scheduler:
    """A new scheduler of the kind `name`, drawing from `generator`."""
    try:
        make = SCHEDULERS[name]
    except KeyError:
        known = ", ".join(SCHEDULERS)
        raise UsageError(f"there is no scheduler {name!r}; known are {known}") from None
    return make(generator, profile)


__all__ = ["SCHEDULERS", "Scheduler", "scheduler_named"]
