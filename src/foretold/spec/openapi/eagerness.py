"""Which operations a run is eager for: what has not succeeded yet, and what gives ids that lack.

A long API is a chain: a world needs a proposal, a dweller a world, an action a dweller. Drawn
evenly, most requests repeat its first links. So an operation that gives ids of a kind that nobody
has yet is taken more often; and two of three runs go for new ground: what has succeeded is done
less often, what never has more often, unless it is refused again and again. The third does as it
comes, because races need the same thing twice. All of this guides seeds alone: what a tape says is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from foretold.spec.openapi.resources import Key, Resources

LACKING = 4.0
NEW = 4.0
READING = 2.0
"""What was not read yet may tell of ids that no schema promises."""
PATIENCE = 4
"""So often an operation is refused before one is half as eager."""


class Eagerness:
    def __init__(self, resources: Resources) -> None:
        self.wide = False
        self._succeeded: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._reads = resources.reads
        self._gives: dict[str, list[Key]] = {}
        for key, names in resources.givers.items():
            for name in names:
                self._gives.setdefault(name, []).append(key)

    def note(self, name: str, *, succeeded: bool) -> None:
        counts = self._succeeded if succeeded else self._refused
        counts[name] = counts.get(name, 0) + 1

    def of(self, name: str, has: Callable[[Iterable[Key]], bool]) -> float:
        """How much more often than usual."""
        succeeded, refused = self._succeeded.get(name, 0), self._refused.get(name, 0)
        factor = 1.0
        if not succeeded and any(not has([key]) for key in self._gives.get(name, ())):
            factor = LACKING
        if self.wide:
            factor *= 1 / (1 + succeeded) if succeeded else NEW / (1 + refused / PATIENCE)
            if not succeeded and name in self._reads:
                factor *= READING
        return factor
