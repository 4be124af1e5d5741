"""The trees of all sources are some million objects. Tests of other folders collect garbage at each
run, so the trees are dropped with the last test of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.style.sources import tree_of


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Called for tests of this folder alone."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        tree_of.cache_clear()
