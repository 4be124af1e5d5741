"""What the tests of real libraries share: how often a scenario is run, and where all of them are.

A scenario is an async or plain function of the world that uses a library as its users do and
asserts what comes of it. Each is run on several tapes by its own file; `test_processes.py` runs all
of them in fresh processes, and on many tapes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

import foretold
from foretold.world.world import World

Scenario = Callable[[World], Awaitable[Any] | None]

ORDERS = ("asyncio", "any")
SEEDS = 50
"""For each scenario in `make soak`; in `make test` there are fewer."""
SEEDS_IN_TEST = 6
SCENARIOS: dict[str, Scenario] = {}
"""All scenarios of the modules that were imported so far."""


def scenario(main: Scenario) -> Scenario:
    """Enter a scenario, by the name of its module and its own."""
    module = main.__module__.rpartition(".")[2].removeprefix("test_")
    SCENARIOS[f"{module}.{main.__name__}"] = main
    return main


def for_each(*mains: Scenario) -> pytest.MarkDecorator:
    """Run a test once for each of these scenarios, named after them."""
    return pytest.mark.parametrize("main", mains, ids=[main.__name__ for main in mains])


def check(main: Scenario, seeds: Iterable[int] = range(SEEDS_IN_TEST)) -> None:
    """The scenario's assertions hold on all these tapes, in both orders."""
    for seed in seeds:
        for order in ORDERS:
            try:
                foretold.run(main, seed=seed, order=order)
            except BaseException as error:
                error.add_note(f"{main.__name__}, seed {seed}, order {order!r}")
                raise
