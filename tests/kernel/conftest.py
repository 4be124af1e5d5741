"""The kernel's tests collect garbage often; in the whole suite the heap is full of other tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def _others_out_of_sight() -> Iterator[None]:
    """A collection looks only at what the test itself has made. Half a million objects of libraries
    and of pytest would take a quarter of a second each time. It is not for tests of what foretold
    looks for on the whole heap."""
    gc.freeze()
    yield
    gc.unfreeze()
