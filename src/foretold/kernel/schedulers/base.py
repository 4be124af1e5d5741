"""What every scheduler has in common."""

from __future__ import annotations

import random

from foretold.kernel.clock import VirtualClock
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.profile import UNKNOWN, Profile

NEVER = 1 << 62
CALLBACKS_MAX = 100
"""So many plain callbacks in a row may run while a task is ready. One that renews itself until the
task has gone on (anyio delivers cancellations like that) would else make time pass, and a time
limit expire, only because the task is held: on stock asyncio it goes on at once."""
SPUN_PICKS, SPUN_NS = 8, 10_000_000
"""The same for tasks that spin (`while not ready: await sleep(0)`): after so many steps of others
that took so long together, no task waits any more. A thread may: Linux lets others run for longer
than that."""
LOOK_EVERY = 8


class Scheduler:
    """A pool of ready tasks and a way to pick from it."""

    takes_singles = False
    """True if the loop need not ask when there is one candidate alone."""

    def __init__(self, generator: random.Random, profile: Profile = UNKNOWN) -> None:
        self.generator = generator
        self.profile = profile
        """What earlier runs have shown about the program."""
        self.fair_after = NEVER
        """After so many picks it is first come first served, for those that were not before."""
        self.turned_fair = False
        """It came to that: the run is longer than it need be, and nothing to learn from."""
        self.size = 0
        """How many tasks are in the pool, held ones included."""
        self.decisions = 0
        """How often there was more than one candidate."""
        self.broken_holds = 0
        """Holds that had to be ended before what they waited for had happened."""
        self._callbacks_alone = 0
        """So many callbacks in a row were picked while a task was ready."""
        self.clock: VirtualClock | None = None
        """Of the loop, where tasks are scheduled and no threads."""

    def add(self, handle: AnyHandle) -> None:
        """A task has become ready."""
        raise NotImplementedError

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        """The next to run: one of the pool, or `callback`; None if all in the pool are held."""
        raise NotImplementedError

    def has_waited(self, handle: AnyHandle, picks: int) -> bool:
        """Whether a task was ready for so many steps of others, and so long, that they spin."""
        clock = self.clock
        return (
            picks > SPUN_PICKS and clock is not None and clock.ns - handle.held_since_ns > SPUN_NS
        )

    def drain(self) -> list[AnyHandle]:
        """Give up the whole pool, in the order of arrival."""
        taken = []
        while self.size and (handle := self.pick(None)) is not None:
            taken.append(handle)
        return sorted(taken, key=lambda handle: handle.arrival)

    def release_held(self) -> bool:
        """Nothing else can run: let the longest held go. False if none was held."""
        return False

    def held_since_ns(self) -> int | None:
        """When the longest held began to wait, or None."""
        return None
