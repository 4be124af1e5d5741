"""examples/deep_sci_fi/machine: one machine finds every switch, and is silent where none is on."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

import foretold
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.machine import DeepSciFi, platform
from tests.helpers import SOAK_FACTOR

RUNS_MAX = 500
QUICK = ("release_claim_race", "feed_cursor_separator", "rule_unauthenticated_writes")
"""For the normal suite: found within a few runs. Others have tapes (`test_kept_tapes.py`)."""
QUICK_RUNS = 60


def found(bug: str, runs: int, seed: int) -> foretold.Failure:
    """What the machine finds with this switch on: a property or an invariant that it names."""
    settings: dict[str, Any] = {"shrink": False, "confirm": False, "mutant": bug}
    outcome = foretold.explore(DeepSciFi, runs=runs, seed=seed, **settings)
    assert outcome.failure is not None, f"{bug} was not found in {runs} runs"
    print(f"{bug}: found in run {outcome.failure.run}")  # noqa: T201  # the figures
    assert isinstance(outcome.failure.exception, AssertionError), outcome.failure.story
    return outcome.failure


@pytest.mark.parametrize("bug", QUICK)
def test_a_few_switches_are_found(bug: str) -> None:
    """A race, a page, a rule of the game; told as a program of the rules."""
    failure = found(bug, QUICK_RUNS, 0)
    assert re.search(r"^The program, \d+ calls? of DeepSciFi's rules:\n  ", failure.story, re.M)


@pytest.mark.soak
@pytest.mark.parametrize("bug", bugs.KNOWN)
def test_every_switch_is_found(bug: str) -> None:
    """32 mistakes, one machine, no test written for any of them: each within 500 runs."""
    found(bug, RUNS_MAX, 0)


def silent(runs: int, seed: int) -> foretold.Outcome:
    """A platform without mistakes holds, whatever happens to it."""
    outcome = foretold.explore(DeepSciFi, runs=runs, seed=seed, confirm=False, shrink=False)
    assert outcome.failure is None, getattr(outcome.failure, "story", "")
    return outcome


def test_silent_where_there_is_no_mistake() -> None:
    """All rules, all faults, no switch: nothing is found."""
    outcome = silent(10, 900)
    assert sum(rule.succeeded for rule in outcome.tally.rules.values()) > 0


@pytest.mark.soak
def test_silent_for_long() -> None:
    """2,000 runs without a word; and none of it was vacuous: every rule has succeeded, every
    invariant ranged over something, all that should happen sometimes has, at 20 points or more."""
    outcome = silent(100 * max(20, SOAK_FACTOR), 20_000)
    assert not outcome.is_vacuous, outcome.hollow
    assert not outcome.missed
    assert len(outcome.reached) >= 20


def test_few_actors_are_no_mistake() -> None:
    """Also one actor alone, or two that are one agent, can do without the others: what is claimed
    at the end is a dweller that somebody else holds, and if there is none, none is claimed."""
    for actors in (1, 2):
        settings: dict[str, Any] = {"confirm": False, "shrink": False, "actors": actors}
        outcome = foretold.explore(DeepSciFi, runs=6, seed=123_456, **settings)
        assert outcome.failure is None, outcome.failure.story
        assert outcome.tally.invariants["leases_end"].ranged


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 4_711, 20_261, 777_777])
def test_what_continuous_integration_runs_is_not_vacuous(seed: int) -> None:
    """200 runs, as in `ci/foretold.yml`, from any seed: no rule, invariant or point is missed. The
    rarest come to pass in three runs of a hundred or more."""
    outcome = silent(200, seed)
    assert not outcome.is_vacuous, outcome.hollow


# --- every endpoint ------------------------------------------------------------------------------


def operations(*, reading: bool) -> dict[tuple[str, str], re.Pattern[str]]:
    """The pages of the platform, or the operations that change something, and how their paths
    look."""
    paths: dict[str, Any] = platform.APP.openapi()["paths"]
    return {
        (method.upper(), path): re.compile(re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(path)) + "$")
        for path, methods in paths.items()
        for method in methods
        if (method == "get") is reading
    }


def reached(runs: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """The operations that have succeeded in these runs."""
    seen: set[tuple[str, str]] = set()
    send = platform.Platform.send

    async def note(
        self: Any, actor: Any, method: str, path: str, *more: Any, **headers: Any
    ) -> Any:
        answer: httpx.Response = await send(self, actor, method, path, *more, **headers)
        if answer.is_success:
            seen.add((method, answer.url.path))
        return answer

    monkeypatch.setattr(platform.Platform, "send", note)
    silent(runs, seed)
    patterns = operations(reading=True) | operations(reading=False)
    return {op for op, path in patterns.items() for m, p in seen if m == op[0] and path.match(p)}


def test_rules_reach_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """56 change something, and 29 are pages. Ten runs, most of them in one area each, reach a good
    part of them; the soak test demands all."""
    changing, pages = operations(reading=False).keys(), operations(reading=True).keys()
    assert (len(changing), len(pages)) == (56, 29)
    seen = reached(10, 40, monkeypatch)
    assert len(seen & changing) >= 20
    assert len(seen & pages) >= 15


@pytest.mark.soak
def test_rules_reach_every_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the text of a URL: each of them was answered with success."""
    everything = operations(reading=True) | operations(reading=False)
    missing = everything.keys() - reached(400, 40, monkeypatch)
    assert not missing
