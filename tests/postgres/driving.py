"""How tests of drivers are run: on a few tapes, in both orders, and each of them a second time."""

from __future__ import annotations

from typing import Any

import pytest

import foretold

ORDERS = ("any", "asyncio")
SEEDS = range(2)


def for_each(*mains: Any) -> pytest.MarkDecorator:
    """Run a test once for each of these scenarios, named after them."""
    return pytest.mark.parametrize("main", mains, ids=[main.__name__ for main in mains])


def check(main: Any, seeds: range = SEEDS) -> None:
    """What the scenario asserts holds; and the same tape gives the same run."""
    for seed in seeds:
        for order in ORDERS:
            try:
                first = foretold.run(main, seed=seed, order=order)
            except BaseException as error:
                error.add_note(f"{main.__name__}, seed {seed}, order {order!r}")
                raise
            again = foretold.run(main, tape=first.tape, order=order)
            assert again.digest == first.digest, (main.__name__, seed, order)


async def on_host(world: foretold.World, main: Any, *names: str) -> None:
    """Run a plain main on these hosts, and wait for all of them."""
    tasks = [world.host(name).start(main) for name in names or ("app",)]
    for task in tasks:
        await task
