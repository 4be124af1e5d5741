"""The smaller examples of `examples/prophecy`: a bank and a stale client."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import foretold
from examples.prophecy import bank, stale


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """httpx says each request."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def test_stale_clients_are_refused() -> None:
    """The auxiliary client model foresees exactly who is refused, also where calls overlap; a
    server that does not ask for the version is found."""
    assert foretold.explore(stale.Page, runs=60, seed=1).failure is None
    settings: dict[str, Any] = {"mutant": "blind_write"}
    failure = foretold.explore(stale.Page, runs=40, seed=1, confirm=False, **settings).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.PropertyViolated)


def test_the_bank_is_right_with_a_lock_alone() -> None:
    """One statement more (`for update`) makes it serial."""
    with pytest.raises(foretold.NotSerial):
        foretold.run(bank.withdraw_twice, seed=5)
    foretold.run(bank.locked_twice, seed=5)
