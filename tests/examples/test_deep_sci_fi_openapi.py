"""examples/deep_sci_fi/schema_machine.py: what is found with no rule written by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

import foretold
from examples.deep_sci_fi.machine.platform import APP, FAULTS
from examples.deep_sci_fi.schema_machine import AGENTS, DeepSciFiApi, credentials
from tests.examples.storms import OracleAlone
from tests.helpers import SOAK_FACTOR, soak

RUNS_MAX = 60
FOUND = {
    "rule_unauthenticated_writes": "without credentials was answered with 20[01]",
    # The first time it is another's answer that comes back, or only when it is asked for again.
    "idempotency_key_unscoped": "keys of different users are different keys"
    "|was sent twice by actor\\d, and made two things",
    "idempotency_runs_twice": "was sent twice at the same time by .*, and made two things",
    "commit_after_response": "was answered with 201 and .*; GET .* with 404 right after",
}
QUICK = "rule_unauthenticated_writes"
"""For the normal suite: it is found within a few runs."""
OPERATIONS = 85


@pytest.mark.parametrize("bug", [bug if bug == QUICK else soak(bug) for bug in FOUND])
def test_switches_that_break_what_every_api_keeps(bug: str) -> None:
    """Writing without a key, a key that is everybody's or is used twice, an answer before its
    commit: each within 60 runs, by rules and properties that come from the schema alone."""
    found_in(DeepSciFiApi, bug, seed=0)


def found_in(machine: Any, bug: str, seed: int) -> None:
    """The switch is found, and told for what it is."""
    outcome = foretold.explore(
        machine, runs=RUNS_MAX, seed=seed, shrink=False, confirm=False, mutant=bug
    )
    failure = outcome.failure
    assert failure is not None, f"{bug} was not found"
    print(f"{bug}: found in run {failure.run}")  # noqa: T201  # the figure
    assert re.search(FOUND[bug], str(failure.exception))


def test_an_answer_before_its_commit_is_found_at_once() -> None:
    """Three of the operations are enough: one that makes something, and two that ask for it."""
    operations = ("create_api_proposals", "show_api_proposals", "show_all_api_proposals")
    found_in(small(*operations, faults=FAULTS), "commit_after_response", seed=1)


def silent(runs: int, seed: int) -> list[str]:
    """The operations that have succeeded, on a platform without mistakes, which breaks nothing."""
    outcome = foretold.explore(DeepSciFiApi, runs=runs, seed=seed, shrink=False, confirm=False)
    assert outcome.failure is None, outcome.failure.story
    rules = outcome.tally.rules
    assert len(rules) == OPERATIONS
    succeeded = [name for name, rule in rules.items() if rule.succeeded]
    print(f"{len(succeeded)} of {len(rules)} operations succeeded")  # noqa: T201  # the figure
    return succeeded


def test_many_operations_succeed_at_once() -> None:
    """Three runs are enough to see that ids flow, keys are known, and nothing breaks."""
    assert len(silent(3, 500)) >= 0.2 * OPERATIONS


@pytest.mark.soak
def test_most_operations_succeed() -> None:
    """At least four of five operations are answered with success."""
    assert len(silent(5 * max(20, SOAK_FACTOR), 0)) >= 0.8 * OPERATIONS


class Storms(OracleAlone, DeepSciFiApi):
    """The whole platform."""

    def foretold_after_storm(self, calls: Any) -> None:
        """That two requests under one key make one thing is what the oracle has to find."""


def small(*operations: str, **settings: Any) -> type:
    """A few operations of the platform."""
    made: Any = foretold.openapi(
        APP.openapi(), app=APP, actors=AGENTS, credentials=credentials, only=operations, **settings
    )
    return type("Small", (made,), {"serve": DeepSciFiApi.serve})


def small_storms(*operations: str) -> type:
    """A few operations of the platform, of which storms are soon tried."""
    return type("SmallStorms", (OracleAlone, small(*operations)), {})


RACES = (
    "claim_without_lock",
    "upvote_read_modify_write",
    "reactions_without_unique",
    "limits_count_then_insert",
    "idempotency_runs_twice",
    "withdraw_accept_race",
    "escalate_unlocked",
    "release_claim_race",
    "validation_without_lock",
    "graduation_without_lock",
)
"""Switches that need two requests at once."""
STORM_RUNS_MAX = 300
WORLDS = ("show_all_api_worlds", "show_all_worlds_dwellers")


@pytest.mark.parametrize(
    ("bug", "operations"),
    [
        ("claim_without_lock", (*WORLDS, "claim")),
        ("upvote_read_modify_write", ("show_all_api_feedback", "upvote_feedback_upvote")),
    ],
)
def test_a_race_is_found_with_nothing_written_down(bug: str, operations: tuple[str, ...]) -> None:
    """Two agents get one dweller, and an upvote is lost: no invariant says that either is wrong.
    One run, of the operations that it takes; without the mistake the same run holds."""
    settings: Any = {"seed": 1, "steps": 8}
    with pytest.raises(foretold.NotSerial, match="end as no serial order of them ends"):
        foretold.run(small_storms(*operations), mutant=bug, **settings)
    foretold.run(small_storms(*operations), **settings)


@pytest.mark.soak
@pytest.mark.parametrize("bug", RACES)
def test_races_are_found_in_the_whole_platform(bug: str) -> None:
    """Each within 300 runs, with all 85 operations and no invariant at all."""
    outcome = foretold.explore(
        Storms, runs=STORM_RUNS_MAX, seed=0, shrink=False, confirm=False, mutant=bug
    )
    failure = outcome.failure
    assert failure is not None, f"{bug} was not found"
    print(f"{bug}: found in run {failure.run}")  # noqa: T201  # the figure
    assert isinstance(failure.exception, foretold.NotSerial)


@pytest.mark.soak
def test_the_oracle_is_silent_on_a_right_platform() -> None:
    """A thousand rehearsals on a platform without mistakes, dozens of storms in each: random keys,
    limits by the minute and leases, and no accusation."""
    outcome = foretold.explore(Storms, runs=1_000, seed=0, shrink=False, confirm=False)
    assert outcome.failure is None, outcome.failure.story
