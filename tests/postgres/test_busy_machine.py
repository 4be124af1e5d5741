"""How long the server takes in real time decides nothing: a machine may be busy with others."""

from __future__ import annotations

from typing import Any

import pytest

import foretold
from foretold.services.postgres import backend
from tests.postgres.scenarios import ALL
from tests.postgres.test_drivers_psycopg import pipeline_that_waits, psycopg_threads

SCENARIOS = {**ALL, "pipeline": pipeline_that_waits, "threads": psycopg_threads}


@pytest.mark.parametrize("name", SCENARIOS)
def test_asking_too_early_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a certain silence the server is asked whether a session is blocked. Here it is asked at
    once, before the process had time to say so itself, or to see a signal: the same runs."""
    main: Any = SCENARIOS[name]
    patient = [foretold.run(main, seed=seed).digest for seed in range(3)]
    monkeypatch.setattr(backend, "LOOKS", 0)
    monkeypatch.setattr(backend, "SILENCE_MS", 0)
    assert [foretold.run(main, seed=seed).digest for seed in range(3)] == patient
