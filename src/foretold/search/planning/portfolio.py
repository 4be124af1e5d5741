"""The seeds of a search's runs, and which scheduler and which order a run uses by its seed.

A run's seed says all about the run: `foretold replay TARGET --seed N` needs nothing more.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple, get_args

from foretold.arguments import check_word
from foretold.kernel.kernel import Order
from foretold.kernel.schedulers import SCHEDULERS
from foretold.kernel.threads.preempt import LINES


class Plan(NamedTuple):
    """How one run is scheduled."""

    order: Order
    strategy: str

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What it changes in the settings of a search."""
        return ("order", self.order), ("strategy", self.strategy)


_SURW, _DELAYS = Plan("any", "surw"), Plan("any", "delays")
_STOCK = Plan("asyncio", "fifo")
PORTFOLIO = (
    _SURW, _STOCK, Plan("any", "pos"), _DELAYS, _STOCK, _SURW,
    Plan("any", "pct"), _STOCK, _DELAYS, Plan("any", "random"), _STOCK, _SURW,
)  # fmt: skip
"""Who stands here several times begins with a larger share. `surw` needs the fewest runs where the
order of steps decides (`benchmarks/search.py`). Where it decides what arrives together, which is
what pools and locks of libraries break by, stock order under load needs the fewest, and `delays`,
which keeps most of it (`benchmarks/natural`). Each of the others is the best for some bugs."""


EXHAUSTIVE = "exhaustive"
STRATEGIES = ("portfolio", *SCHEDULERS, EXHAUSTIVE)
"""What a search can be told to use."""


def plans_for(order: str | None, strategy: str) -> tuple[Plan, ...]:
    """The plans among which a search with these settings takes turns."""
    check_word("order", order, get_args(Order), none="for both")
    check_word("strategy", strategy, STRATEGIES)
    if strategy == EXHAUSTIVE:
        return (Plan("any", "fifo"),)
    if strategy == "portfolio":
        return tuple(p for p in PORTFOLIO if order in (None, p.order))
    if order == "asyncio":
        return (Plan("asyncio", strategy),)
    if order == "any":
        return (Plan("any", strategy),)
    return (Plan("any", strategy), Plan("asyncio", strategy))


SEED_BYTES = 6
"""Of a run's seed: at most 15 digits, which a person can copy and a JSON number can hold."""


def run_seed(seed: int, position: int, plans: int = 1) -> int:
    """The seed of the run at this position, counted from 0, of the search with this seed.

    A hash of both, so that searches with different seeds share no run: with `seed + position`,
    searches with neighbouring seeds would make nearly the same runs. The first run has the seed of
    the search itself: to search with the seed of a run is to begin with that run. Plans come in
    turn (`plan_of`).
    """
    if not position:
        return seed
    text = f"{seed}/run {position}".encode()
    mixed = int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "big")
    return mixed - mixed % plans + (seed + position) % plans


def plan_of(seed: int, plans: tuple[Plan, ...]) -> Plan:
    """The plan of the run with this seed."""
    return plans[seed % len(plans)]


def settings_of(
    seed: int, plans: tuple[Plan, ...], *, preempt: str = ""
) -> tuple[tuple[str, str], ...]:
    """What the run with this seed changes in the settings of its search, whose `preempt` it keeps.

    If the search leaves that open, two thirds of the runs interrupt threads between the lines of
    the user's code, as CPython does: a lost update of two threads without a lock needs that. Also
    in stock order, which says nothing about threads. In a program without threads it changes
    nothing and costs nothing.
    """
    plan = plan_of(seed, plans)
    between_lines = not preempt and seed // len(plans) % 3 != 0
    return (*plan.settings, ("preempt", LINES)) if between_lines else plan.settings
