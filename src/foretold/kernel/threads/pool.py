"""Which thread goes on: the same schedulers that choose among tasks, over a pool of threads.

Calm is: whoever runs goes on until it waits, ends, or has used up its slice; then the one that has
waited longest. So a thread that goes on enters the pool at its front, all others at its end. The
numbers of arrival say so: they fall at the front, and rise at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretold.kernel.recorder import HoldRecorder
from foretold.kernel.schedulers import Scheduler, scheduler_named
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.kernel.schedulers.continued import ContinuedScheduler
from foretold.kernel.threads.newborn import PATIENCE, BeginTogether
from foretold.tape.streams import TapeRandom

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel
    from foretold.kernel.threads.strand import Strand

IN_STOCK_ORDER = ("fifo", "delays", "pct", "random")
"""Threads are scheduled by the system: asyncio's order of callbacks says nothing about them. Under
`order="asyncio"` the tape picks how; under "any" it is the strategy of the run."""


def _scheduler_for(kernel: Kernel) -> Scheduler:
    tape = kernel.tape
    if tape.scheduled_by_key:
        holds = {
            (h.actor, h.step): h for h in tape.schedule.holds.values() if h.host == kernel.host
        }
        recorded = tape.origin == "recorded"
        keyed = KeyedScheduler(holds, kernel.register, kernel.callbacks, recorded=recorded)
        if tape.continuation is None:
            return keyed
        return ContinuedScheduler(keyed, tape.continuation, kernel.clock, kernel.host)
    drawn = tape.stream("threads", kernel.host)
    strategy = kernel.strategy if tape.origin == "seeded" else "fifo"
    if tape.origin == "seeded" and kernel.order == "asyncio":
        strategy = drawn.pick(IN_STOCK_ORDER, "scheduler of the threads")
    if strategy == "fifo":
        # Not a queue: who goes on enters at the front.
        return KeyedScheduler({}, kernel.register, kernel.callbacks)
    generator = TapeRandom(drawn.choose(1 << 32, "seed of the threads' scheduler"))
    scheduler = scheduler_named(strategy, generator)
    patience = drawn.pick(PATIENCE, "picks for which new threads wait")
    return BeginTogether(scheduler, patience) if patience else scheduler


class StrandPool:
    """The threads of a host that could run now, besides the one that does."""

    __slots__ = ("_front", "_rear", "picks", "recorder", "rivals", "scheduler")

    def __init__(self, kernel: Kernel) -> None:
        self.scheduler: Any = _scheduler_for(kernel)
        self.recorder = (
            HoldRecorder(kernel.host, kernel.tape.written) if kernel.tape.recording else None
        )
        self.picks = 0
        self._front = 0
        self._rear = 0
        self.rivals = kernel.rivals
        """Not empty if the pool is not: loops look at it between any two callbacks."""

    def add(self, strand: Strand, now_ns: int, *, front: bool = False) -> None:
        """A thread could run."""
        if front:
            self._front = strand.arrival = self._front - 1
        else:
            self._rear = strand.arrival = self._rear + 1
        strand.entered = self.picks
        strand.held_since_ns = now_ns
        self.scheduler.add(strand)
        if not self.rivals:
            self.rivals.append(strand)

    def pick(self) -> Strand:
        """Which one goes on. The pool is not empty."""
        scheduler = self.scheduler
        chosen: Strand | None = scheduler.pick(None)
        while chosen is None:
            scheduler.release_held()  # nobody else can run
            chosen = scheduler.pick(None)
        self.picks += 1
        if not scheduler.size:
            self.rivals.clear()
        return chosen

    def note(self, chosen: Strand) -> None:
        """`chosen` is about to make its step: written down, if the run is recorded."""
        if self.recorder is not None:
            self.recorder.picked(
                chosen.arrival, chosen.actor, can_be_held=True, entered=chosen.entered
            )

    def remove(self, gone: set[Strand]) -> None:
        """These never run again."""
        left = [strand for strand in self.scheduler.drain() if strand not in gone]
        self.rivals.clear()
        for strand in left:
            self.scheduler.add(strand)
            if not self.rivals:
                self.rivals.append(strand)
