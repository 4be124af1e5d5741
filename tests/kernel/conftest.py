"""The kernel's tests collect garbage often; in the whole suite the heap is full of other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.fake_computer import others_out_of_sight


@pytest.fixture
def _others_out_of_sight() -> Iterator[None]:
    """A collection looks only at what the test itself has made. Half a million objects of libraries
    and of pytest would take a quarter of a second each time. It is not for tests of what foretold
    looks for on the whole heap."""
    with others_out_of_sight():
        yield
