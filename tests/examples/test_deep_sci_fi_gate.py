"""The machine of Deep Sci-Fi reaches the whole platform, and its bodies range over all models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

import foretold
from examples.deep_sci_fi.app import routers
from examples.deep_sci_fi.app.schemas import community, worlds
from examples.deep_sci_fi.machine import DeepSciFi, bodies
from examples.deep_sci_fi.machine.gate import Gate
from examples.deep_sci_fi.machine.tries import Repeating
from foretold.search.gate import gate
from foretold.spec.machine.machine import blueprint_of
from tests.cli.command import foretold as command

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).with_name("deep_sci_fi_checks.txt")
RULES_LESS = f"""
import sys

sys.path.insert(0, {str(ROOT)!r})
from examples.deep_sci_fi.machine.gate import Gate, leave_out

class Less(Gate):
    steps = 60
    generates = {{}}

leave_out(Less, "comment", "nominate", "sweep")
"""


def test_all_is_reached_and_nothing_has_drifted() -> None:
    """56 operations by rules, 29 pages, and a strategy for each body that agrees with its model."""
    found = gate(Gate, runs=16, seed=1, batch_runs=2)
    assert found.failure is None, found.failure.story
    assert not found.gaps, found.gaps
    assert (len(found.tally.operations), found.compared) == (85, len(bodies.BODIES))


def test_without_three_rules_the_gate_is_red(tmp_path: Path) -> None:
    """Exit code 4, and a table that names the operations which no rule asks for any more."""
    (tmp_path / "less.py").write_text(RULES_LESS)
    seen = command(tmp_path, "covers", "less:Less", "--seed", "1", "--runs", "1")
    assert seen.code == 4
    for operation in (
        "POST /api/worlds/{world_id}/comments",
        "POST /api/actions/{action_id}/nominate",
        "POST /api/admin/leases/sweep",
    ):
        assert f"- operation {operation} was asked for by no rule" in seen.out


def test_no_check_is_gone() -> None:
    """Nothing else says that there was an invariant, a mirror or a second rule for an operation, if
    somebody deletes it. Their names are listed beside this test."""
    plan = blueprint_of(DeepSciFi)
    names = {rule.name for rule in plan.rules} | {mirror.name for mirror in plan.mirrors}
    names |= {invariant.name for invariant in plan.invariants}
    listed = set(CHECKS.read_text().split())
    assert listed - names == set(), "gone"
    assert names - listed == set(), f"new: list them in {CHECKS.name}"


def test_every_body_has_a_strategy() -> None:
    """A model that is new in the platform is a gap here, before it is one in the tests."""
    wanted = {
        parameter.field_info.annotation
        for router in routers.ALL
        for route in router.routes
        if isinstance(route, APIRoute)
        for parameter in route.dependant.body_params
    }
    assert len(wanted) > 30
    assert wanted <= DeepSciFi.generates.keys()


def test_other_words_keep_the_ids() -> None:
    """What a rule has chosen stays; all else is anything that the model allows."""
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        said = {"world_id": "a world", "title": "Downhill", "perspective": "first_person_agent"}
        for _ in range(60):
            seen.append(bodies.worded(community.NewStory, said))

    foretold.run(main, seed=3)
    assert {each["world_id"] for each in seen} == {"a world"}
    assert len({each["title"] for each in seen}) > 3


class Twice(Repeating):
    """Nothing but the same proposal, twice."""

    faults = None
    steps = 12
    propose = submit = validate = send_again = None  # type: ignore[assignment]  # no rules


def test_one_too_many_is_no_second_one() -> None:
    """An agent whose third proposal it is gets 429 for the same again, not 409: that is fair."""
    outcome = foretold.explore(Twice, runs=3, seed=1, shrink=False, confirm=False)
    assert outcome.failure is None, outcome.failure.story
    assert outcome.tally.rules["propose_twice"].succeeded


@pytest.mark.parametrize("name", ["premise", "critique"])
def test_drift_would_be_noticed(name: str) -> None:
    """A strategy that knows one text only has drifted from the model."""
    model = worlds.NewProposal if name == "premise" else worlds.NewValidation
    narrow = bodies.BODIES[model].map(lambda body: body.model_copy(update={name: "w" * 60}))
    assert any(
        each.startswith(name) for each in foretold.drift(narrow, model, samples=60).unreached
    )
