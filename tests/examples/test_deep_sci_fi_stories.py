"""What a developer of the platform reads: who raced, by which statements, and where to look."""

from __future__ import annotations

import re
import sys

import pytest

import foretold
from examples.deep_sci_fi.machine import DeepSciFi
from foretold.search.failures import workout

explore = sys.modules["foretold.search.explore"]  # the package has a function of that name

RUNS_MAX = 40
READS = {
    "upvote_read_modify_write": (
        "actor1: POST /api/feedback/feedback_6/upvote, in session 1",
        "actor2: POST /api/feedback/feedback_6/upvote, in session 2",
        "SELECT … FROM feedback WHERE id = feedback_6 → 1 row",
        "lost upvotes (feedback, agent): [('feedback_6', 'actor1.agent')]",
        "should it have locked what it reads (FOR UPDATE)?",
    ),
    "idempotency_runs_twice": (
        "request 2: POST /api/worlds/worlds_1/comments of actor1, in session 2",
        "COMMIT (after this the invariant fails)",
        "request 2 read idempotency_keys (app/idempotency.py:",
        "and then wrote comments (app/routers/worlds.py:",
        "a row that is not there cannot be locked",
    ),
    "release_claim_race": (
        "In the database, the request whose commit has broken the invariant:",
        "UPDATE dwellers SET is_available=true WHERE id = dwellers_8 → 1 row",
        "look at what it has written (app/routers/dwellers.py:",
    ),
}
"""For each switch what its story must tell. Line numbers are the application's."""


QUICK = "release_claim_race"
SLOW = [pytest.param(bug, marks=pytest.mark.soak) for bug in READS if bug != QUICK]


@pytest.mark.parametrize("bug", [QUICK, *SLOW])
def test_a_story_is_clear(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a user gets it, shrunk; and without what nobody on the platform knows: tasks of helpers,
    callbacks, ids of agents, places of the middleware."""
    monkeypatch.setattr(workout, "OTHERS_RUNS", 0)
    outcome = foretold.explore(
        DeepSciFi, runs=RUNS_MAX, seed=0, confirm=False, mutant=bug, shrink_runs=2_000
    )
    assert outcome.failure is not None
    story = re.sub(r"\s+", " ", outcome.failure.story)
    for part in READS[bug]:
        assert part in story, (part, outcome.failure.story)
    told = outcome.failure.story.partition("What happened")[2]
    for word in ("(callback)", "_caught", "middleware.py", "00000001-0000", "$1", "No two steps"):
        assert word not in told, (word, outcome.failure.story)
