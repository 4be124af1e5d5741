"""The kitchen: its scenarios hold on all wirings, and playing them finds each planted mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretold
from examples.kitchen.harness import kitchen
from foretold.harness import load_scenario
from foretold.harness.program import ScenarioProgram
from foretold.scenario.model import read_scenario
from foretold.search.checking.plays import plays_of
from foretold.search.workers.targets import find_scenario
from foretold.world.run import settings_for

FOLDER = Path("examples/kitchen/scenarios")
FILES = sorted(path.name for path in FOLDER.glob("*.scenario.*"))
LEVELS = [name for name in FILES if name.startswith("L")]
RUNS_MAX = 200
MISTAKES = {
    "runner_swallows": "closed_stays_closed.scenario.yaml",
    "ticket_reopens": "closed_stays_closed.scenario.yaml",
    "unstarted_completes": "completed_before_started.scenario.yaml",
    "empty_course": "empty_course.scenario.yaml",
    "equal_names_together": "equal_names.scenario.yaml",
    "settle_jumps": "L4_expo.scenario.yaml",
    "no_optimistic_lock": "one_ticket_many_hands.scenario.yaml",
    "mail_not_retried": "ports_fail.scenario.yaml",
}
"""Each planted mistake, with the scenario that finds it."""


def explored(name, *, runs, wiring, seed=1, **settings):
    """The outcome of playing a file."""
    program = find_scenario(str(FOLDER / name))
    [play] = [p for p in plays_of(program, seed=seed, wirings=[wiring]) if p.load == max_load(p)]
    return foretold.explore(
        program, runs=runs, seed=seed, confirm=False, shrink=False, **play.options, **settings
    )


def max_load(play):
    """The largest load of a scenario."""
    return max(play.program.scenario.loads)


def test_there_are_five_levels_and_ten_more():
    """The suite below would be vacuous without files."""
    assert [name[:2] for name in LEVELS] == ["L1", "L2", "L3", "L4", "L5"]
    assert len(FILES) >= 15


PLAYS = [(name, each) for name in FILES for each in load_scenario(FOLDER / name).wirings]
IN_MEMORY = [(name, wiring) for name, wiring in PLAYS if wiring in ("memory", "fakes")]
REAL = [(name, wiring) for name, wiring in PLAYS if wiring in ("real", "web")]


@pytest.mark.parametrize(("name", "wiring"), IN_MEMORY)
def test_scenarios_hold_in_memory(name, wiring):
    """Under search, in both orders, with the largest load that the file names."""
    explored(name, runs=10, wiring=wiring).raise_failure()


@pytest.mark.parametrize(("name", "wiring"), [each for each in REAL if each[1] == "real"])
def test_scenarios_hold_on_real_servers(name, wiring):
    """The same files on PostgreSQL and SMTP: one run each on a seed of its own."""
    explored(name, runs=1, wiring=wiring, seed=FILES.index(name)).raise_failure()


@pytest.mark.parametrize("name", [*LEVELS, "ports_fail.scenario.yaml"])
def test_levels_hold_behind_a_web_server(name):
    """With FastAPI before all that, on a host of its own. Faults of ports strike neither queries
    nor observers there, although these are requests like any other."""
    explored(name, runs=1, wiring="web").raise_failure()


@pytest.mark.soak
@pytest.mark.parametrize(("name", "wiring"), REAL)
def test_scenarios_hold_on_real_servers_under_search(name, wiring):
    """Many runs of each."""
    explored(name, runs=60, wiring=wiring).raise_failure()


def test_fifty_hands_on_one_ticket():
    """Fifty requests on one aggregate, each after some thought: the optimistic lock lets all in,
    one after the other, and without it some are lost. Checked by the observers alone."""
    finish = {
        "kind": "act",
        "actor": "chef",
        "intent": "FinishItem",
        "payload": {"ticket": "$ticket", "item": "steak"},
    }
    think = {"kind": "wait", "ms": {"$between": [0, 3]}}
    steps = [
        {"kind": "act", "actor": "waiter", "intent": "PlaceOrder",
         "payload": {"items": ["steak"] * 50}, "save": "ticket"},
        {"kind": "act", "actor": "chef", "intent": "StartCooking",
         "payload": {"ticket": "$ticket"}},
        {"kind": "parallel", "branches": [[think, finish]] * 50},
        {"kind": "assert", "query": "GetTicketStatus", "args": {"ticket": "$ticket"},
         "expect": "CLOSED"},
    ]  # fmt: skip
    given = {"name": "fifty hands", "actors": ["waiter", "chef"], "steps": steps}
    program = ScenarioProgram(read_scenario(json.dumps(given), "x.scenario.json"), kitchen)
    foretold.explore(program, runs=3, confirm=False).raise_failure()
    broken = foretold.explore(
        program, runs=3, mutant="no_optimistic_lock", confirm=False, shrink=False
    )
    assert broken.failure is not None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake):
    """By the same scenarios, within 200 runs; without the mistake that scenario holds."""
    name = MISTAKES[mistake]
    outcome = explored(name, runs=RUNS_MAX, wiring="memory", mutant=mistake)
    assert outcome.failure is not None, f"{mistake} was not found in {outcome.runs} runs"


ELSEWHERE = [
    (mistake, wiring)
    for mistake, name in MISTAKES.items()
    for wiring in load_scenario(FOLDER / name).wirings
    if wiring != "memory"
]


@pytest.mark.soak
@pytest.mark.parametrize(("mistake", "wiring"), ELSEWHERE)
def test_planted_mistakes_are_found_on_every_wiring(mistake, wiring):
    """The same scenario on fakes, on PostgreSQL and SMTP, and behind FastAPI; without the mistake
    it holds there."""
    name = MISTAKES[mistake]
    explored(name, runs=20, wiring=wiring).raise_failure()
    outcome = explored(name, runs=RUNS_MAX, wiring=wiring, mutant=mistake)
    assert outcome.failure is not None, f"{mistake} was not found in {outcome.runs} runs"
    print(f"{mistake} on {wiring}: run {outcome.failure.run}")  # noqa: T201  # the figures


@pytest.mark.parametrize("name", [n for n in LEVELS if not n.startswith("L2")])
def test_golden_logs(name):
    """The calm run's log, with its exact virtual minutes, is that of the stored file."""
    program = find_scenario(str(FOLDER / name))
    played = [play for play in plays_of(program, wirings=["memory"]) if play.has_golden]
    assert len(played) == 1
    played[0].compare_golden()


def test_the_scenario_of_the_documentation():
    """What docs/scenarios.md shows first is played, on each of its wirings in memory."""
    text = Path("docs/scenarios.md").read_text("utf-8")
    shown = text.partition("```yaml\n")[2].partition("```")[0]
    program = ScenarioProgram(read_scenario(shown, "docs.scenario.yaml"), kitchen)
    for wiring in ("memory", "fakes"):
        foretold.explore(program, runs=5, wiring=wiring, confirm=False).raise_failure()


def minutes(name, *events):
    """When these events happen in the calm run of a level."""
    program = find_scenario(str(FOLDER / name))
    settings = settings_for(program, {"wiring": "memory", "order": "asyncio"}, foretold.run)
    done = foretold.run(program, tape=foretold.Tape.calm(), **settings)
    log = [json.loads(line) for line in done.value]
    return [(e["t_ms"] / 60_000, e["event"]) for e in log if e["event"] in events]


def test_the_table_of_levels():
    """What the specification says about the log, minute by minute."""
    assert minutes("L1_atomic.scenario.yaml", "TicketCreated", "ItemStarted", "ItemCompleted") == [
        (1, "TicketCreated"),
        (2, "ItemStarted"),
        (3, "ItemCompleted"),
    ]
    assert minutes("L3_duration.scenario.yaml", "ItemStarted", "ItemCompleted") == [
        (0, "ItemStarted"),
        (20, "ItemCompleted"),
    ]
    assert minutes("L4_expo.scenario.yaml", "ItemCompleted", "TicketClosed") == [
        (10, "ItemCompleted"),
        (20, "ItemCompleted"),
        (20, "TicketClosed"),
    ]
    assert minutes("L5_pacing.scenario.yaml", "CourseFired", "CourseDone")[:3] == [
        (10, "CourseFired"),
        (30, "CourseDone"),
        (30, "CourseFired"),
    ]
