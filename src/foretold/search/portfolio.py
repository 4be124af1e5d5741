"""Which scheduler and which order a run uses, as a function of its seed.

So that a seed alone says all about a run: `foretold replay TARGET --seed N` needs nothing more.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

from foretold.arguments import check_word
from foretold.kernel.kernel import Order
from foretold.kernel.schedulers import SCHEDULERS


class Plan(NamedTuple):
    """How one run is scheduled."""

    order: Order
    strategy: str

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What it changes in the settings of a search."""
        return ("order", self.order), ("strategy", self.strategy)


PORTFOLIO = (
    Plan("any", "surw"),
    Plan("any", "pos"),
    Plan("any", "delays"),
    Plan("any", "surw"),
    Plan("any", "pct"),
    Plan("any", "random"),
    Plan("any", "surw"),
    Plan("asyncio", "fifo"),
)
"""Who stands here several times begins with a larger share: `surw` needs the fewest runs by itself
(`benchmarks/search.py`), and each of the others is the best for some bugs."""


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


def plan_of(seed: int, plans: tuple[Plan, ...]) -> Plan:
    """The plan of the run with this seed."""
    return plans[seed % len(plans)]
