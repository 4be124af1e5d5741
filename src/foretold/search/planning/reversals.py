"""Conflicts that were seen in one order only, and which of them the next run tries the other way.

What a run shows (`kernel/conflicts.py`) is kept by the statements that take part, with the lineage
of the run: a later run takes its tape and lets B's transaction happen between A's two accesses.
Each conflict is tried a few times. A run in which that order came by itself counts as a try: then
nothing is left to find out. Where tries do not bring about the other order (a lock forbids it, or B
waits for A's answer), they soon come seldom: each costs a run that a seed could have had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from foretold.kernel.conflicts import Conflict, Conflicts
from foretold.search.planning.corpus import LINEAGE_MAX, Lineage

EVERY = 6
"""Of so many runs one tries a conflict the other way round, if there is one to try."""
EVERY_MAX = 96
"""The same while tries come to nothing."""
DOUBT = 4
"""How much more seldom the next is, unless this one comes to something."""
TRIES_MAX = 3
OPEN_MAX = 500


class _Open(NamedTuple):
    conflict: Conflict
    lineage: Lineage
    """Of the run that has shown it."""


@dataclass(slots=True)
class Reversals:
    """What there is to try."""

    _open: dict[str, _Open] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)
    _under_way: dict[Lineage, str] = field(default_factory=dict)
    """What is being tried."""
    _every: int = EVERY
    _last: int = 0
    """The number of the last run that was one of these."""

    def is_due(self, number: int) -> bool:
        """Whether run `number` shall be one of these."""
        return number >= self._last + self._every and bool(self._open)

    def note(self, lineage: Lineage, conflicts: Conflicts) -> None:
        """What a run has shown."""
        if self._under_way.pop(lineage, None) in conflicts.met:
            self._every = EVERY
        for key in conflicts.met:
            self._count(key)
        if len(lineage.changes) >= LINEAGE_MAX:
            return
        for each in conflicts.missed:
            known = self._open.get(each.key)
            is_better = known is None or each.rank < known.conflict.rank
            if is_better and self._tries.get(each.key, 0) < TRIES_MAX:
                self._open[each.key] = _Open(each, lineage)
        while len(self._open) > OPEN_MAX:
            del self._open[max(self._open, key=self._order)]

    def _count(self, key: str) -> None:
        self._tries[key] = tries = self._tries.get(key, 0) + 1
        if tries >= TRIES_MAX:
            self._open.pop(key, None)

    def _order(self, key: str) -> tuple[int, tuple[int, ...], str]:
        rank = self._open[key].conflict.rank
        return sum(rank[:2]) + self._tries.get(key, 0), rank, key

    def pick(self, number: int) -> Lineage:
        """For run `number`: the most promising conflict, the other way round."""
        self._last = number
        self._every = min(DOUBT * self._every, EVERY_MAX)
        key = min(self._open, key=self._order)
        conflict, lineage = self._open.pop(key)
        self._count(key)
        child = lineage.child(conflict.edits)
        self._under_way[child] = key
        return child
