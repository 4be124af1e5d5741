"""The tests here start pytest inside of pytest: nothing of the outer one may show through."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _same_surroundings_everywhere(monkeypatch: pytest.MonkeyPatch):
    """Seeds, colours, widths and habits of continuous integration come from the tests alone."""
    for name in ("FORETOLD_SEED", "FORETOLD_OBSERVE", "FORETOLD_RECORD", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    # Its plugin loads all of Hypothesis as pytest ends, which takes longer than the rest.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
