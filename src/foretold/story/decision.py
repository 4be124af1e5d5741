"""What decides a failure, as data: two steps, a value, a delay or the faults.

`pair.py` finds it out by running; a story only tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from foretold.tape import Tape
from foretold.tape.schedule import Key
from foretold.trace import Place
from foretold.trace.events import CalledBack, Ended, Resumed


class DecidingStep(NamedTuple):
    """One of the two."""

    key: Key
    place: Place | None
    stack: tuple[Place, ...]
    to: Resumed | Ended | None
    """What the same actor did next: how far the step went."""
    callback: CalledBack | None = None
    """If it is one."""
    is_last: bool = False
    """It waits for ever after this step: a deadlock."""
    leads: Place | None = None
    """The next line of the user's own to which the same actor comes."""


class Pair(NamedTuple):
    """Two steps in the order in which the run fails."""

    first: DecidingStep
    second: DecidingStep
    swapped: Tape | None = None
    """The tape on which they come the other way round: it was run, and held. None of a saved
    failure: its file names the two steps, and has no other tape."""
    failing: Tape | None = None
    """A tape that fails and differs from it by those two alone, if a hold was to blame."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What decides whether the run fails, as far as a nearest run that holds was found."""

    pair: Pair | None
    values: tuple[str, str] | None = None
    """Instead of a pair: a value that fails, and the next smaller one, on which the run holds."""
    times: tuple[int, int] | None = None
    """The same for a delay, in nanoseconds."""
    expired: CalledBack | None = None
    """With that delay this timeout expires, and with the shorter one none of that task's does."""
    needs_faults: bool = False
    """Without faults the run holds."""
    orders_tried: int = 0
    """The calm run fails: in so many other orders it was tried, and failed as well."""
    runs: int = 0

    @property
    def steps(self) -> frozenset[Key]:
        """The two, if there is a pair."""
        return frozenset(step.key for step in self.pair[:2]) if self.pair else frozenset()

    @property
    def is_unknown(self) -> bool:
        """Nothing was found that decides it."""
        found = self.pair, self.values, self.times
        return all(each is None for each in found) and not self.needs_faults | self.orders_tried
