"""What a run has to do with time and with what is outside of its loop, for who asks whether stock
asyncio can do something.

An `Audit` lies on a tape, as a `ScheduleLog` does, and is empty again with each run. It notes the
instant of each step, on a tape with choices. On an enumerated tape the order of timers is a choice
as well (`any_timers.py`); if nothing else could have changed the order of the program, which
`conclude` says, all tapes of the enumeration together are all its stock schedules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from foretold.kernel.numbers import numbers

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel

_NOT_COUNTED = ("entropy/", "pace/", "sets/")
LATE = "late"
"""The stream of the timers' order."""


class StepAt(NamedTuple):
    """One step of a run, and the time on its host's clock when it was over."""

    host: str
    actor: str
    step: int
    ns: int


@dataclass(slots=True)
class Audit:
    """What one run had to do with time and with what is outside of its loop."""

    steps: list[StepAt] = field(default_factory=list)
    outside: str = ""
    """What besides the program itself could have changed its order; empty if nothing could."""
    timers: int = 0
    """How many were set."""
    reads: int = 0
    """How often asyncio itself, not the program, read the clock."""
    jumped_ns: int = 0
    """How much time passed because a timer fired."""
    drawn: int = 0
    """How many choices an enumeration goes through."""
    values: bool = False
    """Whether the program's own are among them."""

    def begin(self) -> None:
        self.steps.clear()
        self.outside, self.timers, self.reads, self.jumped_ns = "", 0, 0, 0
        self.drawn, self.values = 0, False

    def conclude(self, kernels: list[Kernel], *, random: bool) -> None:
        """The run is over, and its hosts are still there."""
        self.outside = self._what_is_outside(kernels) or ("randomness" if random else "")
        draws = kernels[0].tape.draws
        counted = {name: n for name, n in draws.items() if not name.startswith(_NOT_COUNTED)}
        self.drawn = sum(counted.values())
        self.values = any(n for name, n in counted.items() if name.split("/")[0] != LATE)

    def _what_is_outside(self, kernels: list[Kernel]) -> str:
        kernel = kernels[0]
        if len(kernels) > 1:
            return "another host"
        if kernel.outside is not None:
            return "a socket"
        if kernel.crew is not None and kernel.crew.threaded:
            return "a thread"
        if numbers.are_asked:
            return "a set of tasks"
        clock, steps = kernel.clock, kernel.steps_so_far(kernel.grant)
        told_ns = steps * clock.step_ns + self.reads * clock.read_ns + self.jumped_ns
        looked = clock.exact or clock.read_in_c or clock.elapsed_ns != told_ns
        return "a clock" if looked else ""
