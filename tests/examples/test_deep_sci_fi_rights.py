"""examples/deep_sci_fi/machine: a platform that has forgotten a check is found out."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

import foretold
from examples.deep_sci_fi.app import auth
from examples.deep_sci_fi.app.models import ApiKey, Proposal
from examples.deep_sci_fi.app.routers import stories, suggestions
from examples.deep_sci_fi.app.rules import canon, dwellers, limits, reviews, voting
from examples.deep_sci_fi.machine import DeepSciFi, platform, rights

QUICK_RUNS = 60
RUNS_MAX = 500


def forget(patch: pytest.MonkeyPatch, place: Any, name: str, instead: Any) -> None:
    """Something that the platform looks up when it is called."""
    assert hasattr(place, name)
    patch.setattr(place, name, instead)


def nothing(*_: Any) -> None:
    """A check that never refuses."""


def any_key(text: str) -> tuple[Any, ...]:
    """Revoked and expired ones as well."""
    return (ApiKey.key_hash == auth.hashed(text),)


def blind_for_proposals_only(content: Any, reader: Any, given: Any) -> bool:
    """The rule as it was written first."""
    return not isinstance(content, Proposal) or MAY_SEE_ALL(content, reader, given)


MAY_SEE_ALL = reviews.may_see_all
QUICK: dict[str, tuple[Any, str, Any, str]] = {
    "old keys": (auth, "_key_is", any_key, "an old key opens nothing"),
}
SLOW: dict[str, tuple[Any, str, Any, str]] = {
    "contexts": (dwellers, "CONTEXT", timedelta(days=99), "within the hour"),
    "blindness": (reviews, "may_see_all", blind_for_proposals_only, "sees nothing of what others"),
    "owners": (voting, "check_owner", nothing, "not the agent's to do"),
    "authors": (stories, "_check_author", nothing, "not the agent's to do"),
    "deadline": (suggestions, "_check_may_accept", nothing, "suggestion"),
    "years": (canon, "YEARS_AHEAD_MAX", 1000, "ten years after the present"),
    "dwellers": (limits, "DWELLERS_MAX", 6, "five dwellers at most"),
}


def check(mistake: tuple[Any, str, Any, str], runs: int, patch: pytest.MonkeyPatch) -> None:
    """The machine finds the mistake, and says what is wrong."""
    place, name, instead, says = mistake
    forget(patch, place, name, instead)
    outcome = foretold.explore(DeepSciFi, runs=runs, seed=0, shrink=False, confirm=False)
    assert outcome.failure is not None, f"not found in {runs} runs"
    assert says in str(outcome.failure.exception)


@pytest.mark.parametrize("mistake", QUICK)
def test_a_forgotten_check_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must not work any more, or not for everybody, is tried often enough."""
    check(QUICK[mistake], QUICK_RUNS, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("mistake", SLOW)
def test_every_forgotten_check_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these is a switch: the machine was not written for them."""
    check(SLOW[mistake], RUNS_MAX, monkeypatch)


def test_rights_are_about_operations_that_exist() -> None:
    """A path that nobody has would guard nothing: each is one of the platform's, and a path has
    one kind of right."""
    kinds = (rights.OWNERS_DO, rights.OTHERS_DO, rights.ADDRESSEES_DO, rights.INHABITANTS_DO)
    told = [shape for kind in kinds for shape in kind]
    assert len(set(told)) == len(told)
    paths = platform.APP.openapi()["paths"]
    there = {re.sub(r"\{\w+_id\}", "ID", path).removeprefix("/api/") for path in paths}
    kinds_of_content = re.compile(r"\b(proposal|aspect|dweller_proposal|story)/ID")
    for shape in told:
        general = kinds_of_content.sub("{content_type}/ID", shape)
        target = kinds_of_content.sub("{target_type}/ID", shape)
        assert {shape, general, target} & there, shape
