"""How the runs of a search are shared out among its plans.

All plans begin alike. A plan whose runs reach something new gets more of them, up to a point: each
keeps at least half of an equal share, because what is new is a hint and no proof. The same seed and
the same results give the same choice of runs.

A seed belongs to one plan for good (`portfolio.plan_of`), and so does the position of a run in the
search, from which its seed is made. To favour a plan means to take its positions sooner. So a seed
still says by itself how its run is scheduled.
"""

from __future__ import annotations

from collections.abc import Iterable

from foretold.search.planning.portfolio import Plan, run_seed

FLOOR = 0.5
"""What each plan keeps of an equal share, whatever the others find."""
DOUBTED = 0.1
"""What a plan keeps of its share while all runs of its order were one and the same."""
MEMORY = 0.9
"""How much of a plan's merit the next run leaves."""
MERIT_MIN = 1e-4
NEWS_MAX = 4
"""More than so much news in one run counts as so much: the first runs find everything new."""


class Budget:
    """Says which plan and which seed come next."""

    def __init__(self, plans: tuple[Plan, ...], seed: int) -> None:
        self._plans = plans
        self._seed = seed
        count = len(plans)
        self._positions = [(index - seed) % count for index in range(count)]
        """The next position of each plan."""
        self._merits = [1.0] * count
        self._credits = [0.0] * count
        self._idle: set[Plan] = set()
        self._doubted: set[Plan] = set()
        self._shares: list[tuple[int, float]] = []
        """Who takes part, and what each gets of a run; empty if that is to be reckoned."""

    def next(self) -> tuple[Plan, int]:
        """The plan and the seed of the next run."""
        credits, positions = self._credits, self._positions
        chosen, most = -1, -1e9
        for index, share in self._shares or self._reckoned():
            credits[index] = credit = credits[index] + share
            # Of equals, the one with the lowest position: without news they come in turn.
            is_equal = abs(credit - most) < 1e-9
            if credit > most + 1e-9 or (is_equal and positions[index] < positions[chosen]):
                chosen, most = index, credit
        credits[chosen] -= 1
        position, count = positions[chosen], len(self._plans)
        positions[chosen] += count
        return self._plans[chosen], run_seed(self._seed, position, count)

    def _reckoned(self) -> list[tuple[int, float]]:
        active = [i for i, plan in enumerate(self._plans) if plan not in self._idle]
        merits = sum(self._merits[i] for i in active) or 1.0
        equal = FLOOR / len(active)
        shares = {i: equal + (1 - FLOOR) * self._merits[i] / merits for i in active}
        for i in active:
            shares[i] *= DOUBTED if self._plans[i] in self._doubted else 1
        total = sum(shares.values())
        self._shares = [(i, share / total) for i, share in shares.items()]
        return self._shares

    def learn(self, seed: int, news: int) -> None:
        """How much the run with this seed has reached that none before had."""
        index = seed % len(self._plans)
        if not news and self._merits[index] < MERIT_MIN:
            return  # nothing changes any more
        self._shares = []
        self._merits[index] = MEMORY * self._merits[index] + (1 - MEMORY) * min(news, NEWS_MAX)

    def doubt(self, plans: Iterable[Plan], doubted: bool) -> None:
        """Whether these seem to have nothing to vary: then their runs come later."""
        changed = self._doubted | set(plans) if doubted else self._doubted - set(plans)
        if changed != self._doubted:
            self._doubted, self._shares = changed, []

    def drop(self, plans: Iterable[Plan]) -> None:
        """No further run of these."""
        self._idle.update(plans)
        self._shares = []

    @property
    def spent(self) -> bool:
        """Whether no plan is left."""
        return self._idle.issuperset(self._plans)
