"""A replay that goes on by chance: holds of the tape up to an instant, a random walk from there on.

For the question how likely the failure was at each point of a failing run
(`search/failures/explain.py`).
"""

from __future__ import annotations

from foretold.kernel.clock import VirtualClock
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.kernel.schedulers.random_walk import RandomScheduler
from foretold.tape.streams import generator_for
from foretold.tape.tape import Continuation


class ContinuedScheduler(Scheduler):
    def __init__(
        self, keyed: KeyedScheduler, continuation: Continuation, clock: VirtualClock, host: str
    ) -> None:
        generator = generator_for(continuation.seed, f"schedule/{host}")
        super().__init__(generator)
        self._now: Scheduler = keyed
        self._later: Scheduler | None = RandomScheduler(generator)
        self._from_ns = continuation.from_ns
        self._clock = clock

    def add(self, handle: AnyHandle) -> None:
        self.size += 1
        self._now.add(handle)

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if self._later is not None and self._clock.ns >= self._from_ns:
            for handle in self._now.drain():
                self._later.add(handle)
            self._now, self._later = self._later, None
        if self.size + (callback is not None) > 1:
            self.decisions += 1
        picked = self._now.pick(callback)
        if picked is not None and picked is not callback:
            self.size -= 1
        return picked

    def drain(self) -> list[AnyHandle]:
        self.size = 0
        return self._now.drain()

    def release_held(self) -> bool:
        return self._now.release_held()

    def held_since_ns(self) -> int | None:
        return self._now.held_since_ns()
