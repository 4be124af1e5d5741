"""Examples are quiet while they are tested."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """uvicorn tells of every start, end and refusal."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
