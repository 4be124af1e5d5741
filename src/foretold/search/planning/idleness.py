"""Is there anything to explore? A search may stop only on evidence that there is not.

A run is *idle* if nothing in it was drawn and nothing happened that another tape could change
(`World.choices`). One idle run proves little: another seed, or the other order, may lead elsewhere,
and the count of choices may have a gap. So an order is given up only after several runs of it, each
with a seed of its own, all of them idle and all with the same steps and contents. After one run
that is not idle, or that differs, the order is never given up.
"""

from __future__ import annotations

SAME_RUNS_MIN = 4
"""So many equal runs of one order are enough evidence."""


class Idleness:
    """What the runs of one order have shown."""

    def __init__(self) -> None:
        self._path = ""
        self._same = 0
        self._differs = False

    def note(self, idle: bool, path: str) -> None:
        """A run has ended. `path` is its digest without times; empty if nobody kept it."""
        if not idle or (self._path and path and path != self._path):
            self._differs = True
        elif path:
            self._path = path
            self._same += 1

    @property
    def is_possible(self) -> bool:
        """No run has shown otherwise."""
        return not self._differs

    @property
    def is_established(self) -> bool:
        """Further runs of this order would be this run again."""
        return self.is_possible and self._same >= SAME_RUNS_MIN
