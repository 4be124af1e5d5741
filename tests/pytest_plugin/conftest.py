"""The tests here start pytest inside of pytest: nothing of the outer one may show through."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _same_surroundings_everywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Seeds, colours, widths and habits of continuous integration come from the tests alone."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # it takes PYTEST_ADDOPTS away as it begins
    for name in ("FORETOLD_SEED", "FORETOLD_OBSERVE", "FORETOLD_RECORD", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    # Hypothesis' plugin loads all of it as pytest ends, which takes longer than the rest; that of
    # pytest-asyncio warns of a setting. Who wants it says `-p pytest_asyncio.plugin`.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:asyncio")
