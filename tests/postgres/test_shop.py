"""examples/shop: what the two bugs look like, found, and that their repairs hold."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

import foretold
from examples.shop import simulation
from tests.helpers import SOAK_FACTOR


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """uvicorn tells of every request that a fault has hit."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ["overselling", "overselling_with_threads"])
@pytest.mark.parametrize("seed", [0, 1000])
def test_overselling_is_found(name: str, seed: int) -> None:
    """Within 20 runs, asynchronous and with threads, and told as two transactions."""
    main = getattr(simulation, name)
    outcome = foretold.explore(main, runs=20, seed=seed, shrink=False, confirm=False)
    failure = outcome.failure
    assert failure is not None
    assert "no more is sold than there was" in str(failure.exception)
    assert "In the database two transactions overlapped:" in failure.story
    assert "UPDATE item SET stock" in failure.story
    assert re.search(
        r"request \d+ read item.*\n  before request \d+ had (changed|committed its change of) it",
        failure.story,
    )


@pytest.mark.parametrize("name", ["locked", "locked_with_threads"])
def test_a_row_lock_helps(name: str) -> None:
    """With FOR UPDATE nothing is oversold, on any tape."""
    outcome = foretold.explore(getattr(simulation, name), runs=12, seed=7)
    assert outcome.failure is None


def test_a_retry_charges_twice() -> None:
    """After a COMMIT whose answer was lost; found, and told with the fault."""
    outcome = foretold.explore(simulation.charged_twice, runs=20, shrink=False, confirm=False)
    assert outcome.failure is not None
    assert "lost_after_commit" in outcome.failure.story


def test_a_key_helps() -> None:
    """With an idempotency key the basket is charged once."""
    assert foretold.explore(simulation.charged_once, runs=12, seed=3).failure is None


@pytest.mark.soak
@pytest.mark.parametrize("name", ["locked", "locked_with_threads", "charged_once"])
def test_the_repairs_survive(name: str) -> None:
    """500 runs each."""
    main = getattr(simulation, name)
    assert foretold.explore(main, runs=25 * max(20, SOAK_FACTOR), seed=99).failure is None
