"""PCT: probabilistic concurrency testing (Burckhardt and others, 2010).

Every actor gets a random priority; the highest that is ready runs. At a few random moments the
one about to run drops below all others. A bug that needs d ordering constraints is found with
probability at least 1/(n·k^(d-1)) for n actors and k steps, whatever else goes on.

Priorities are unfair for ever, programs that spin (`while not ready: await sleep(0)`) would hang:
after the horizon the order turns fair, first come first served.
"""

from __future__ import annotations

import heapq
import random

from foretold.kernel.actors import Actor
from foretold.kernel.handles import AnyHandle
from foretold.kernel.schedulers.base import Scheduler

HORIZONS = (12, 30, 100, 300, 1_000)
CHANGES_MAX = 3
FAIR_AFTER_HORIZONS = 8
CALLBACK_PATIENCE = 24
"""How often in a row a waiting callback may be passed over."""


class PctScheduler(Scheduler):
    """Random priorities with a few random drops, then fair."""

    takes_singles = True

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        horizon = generator.choice(HORIZONS)
        changes = generator.randrange(CHANGES_MAX + 1)
        self._drops = {generator.randrange(1, horizon + 1) for _ in range(changes)}
        self._fair_after = FAIR_AFTER_HORIZONS * horizon + 200
        self._priorities: dict[Actor, float] = {}
        self._callback_priority = generator.random()
        self._heap: list[tuple[float, int, AnyHandle]] = []
        self._picks = 0
        self._passed_over = 0

    def add(self, handle: AnyHandle) -> None:
        heapq.heappush(self._heap, (self._rank(handle), handle.arrival, handle))
        self.size += 1

    def _rank(self, handle: AnyHandle) -> float:
        if self._picks > self._fair_after:
            return handle.arrival
        actor = handle.actor
        priority = self._priorities.get(actor)
        if priority is None:
            priority = self._priorities[actor] = self.generator.random()
        return -priority

    def pick(self, callback: AnyHandle | None) -> AnyHandle | None:
        if not self._heap:
            return callback
        self._count_pick(callback)
        if callback is not None and self._prefers(callback):
            self._passed_over = 0
            return callback
        self.size -= 1
        return heapq.heappop(self._heap)[2]

    def _count_pick(self, callback: AnyHandle | None) -> None:
        # A callback that renews itself counts too: else it would keep a task waiting for ever.
        if self.size + (callback is not None) < 2:
            return
        self.decisions += 1
        self._picks += 1
        if self._picks in self._drops:
            _, arrival, handle = heapq.heappop(self._heap)
            self._priorities[handle.actor] = -float(self._picks)
            heapq.heappush(self._heap, (float(self._picks), arrival, handle))
        elif self._picks == self._fair_after + 1:
            self._heap = [(handle.arrival, arrival, handle) for _, arrival, handle in self._heap]
            heapq.heapify(self._heap)

    def _prefers(self, callback: AnyHandle) -> bool:
        self._passed_over += 1
        if self._passed_over > CALLBACK_PATIENCE:
            return True
        if self._picks > self._fair_after:
            return False  # it arrived after all of the pool
        return self._callback_priority > -self._heap[0][0]
