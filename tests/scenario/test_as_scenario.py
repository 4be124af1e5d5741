"""A failing tape, written as a scenario: it fails in the same way, and can be read and edited."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import foretold
from foretold.errors import UsageError
from foretold.harness.program import ScenarioProgram
from foretold.scenario.model import read_scenario
from foretold.search.checking.plays import run_replay
from foretold.search.failures.as_scenario import scenario_of
from foretold.search.workers.targets import find_scenario
from foretold.story.signature import text_of
from foretold.tape import Tape, TapeFile, load
from tests.examples.test_kept_tapes import SHELVES

MACHINES = [
    (shelf, bug)
    for shelf in SHELVES
    if shelf.name != "scenes"
    for bug in sorted(shelf.bugs)
    if shelf.path(bug).exists()
]
SMOKE = ("shared_key", "limits_count_then_insert", "double_charge")
KITCHEN = "examples/kitchen/scenarios/"


def written(file, target, played_on=None):
    """The text for a tape, and the error of the run that it makes when it is played."""
    text = scenario_of(file, target)
    program = ScenarioProgram(read_scenario(text, "x.scenario.yaml"), played_on or target)
    done = run_replay(program)
    assert done is not None
    return text, done.error


def check_kept(shelf, bug):
    """A kept tape of an example's machine, written out and played."""
    main, file = shelf.program(bug), shelf.stored(bug)
    named = replace(file, target=f"{main.__module__}:{main.__qualname__}")
    text, error = written(named, main)
    expected = shelf.run(bug, file.tape, mutant=bug).error
    assert (type(error), text_of(error)) == (type(expected), text_of(expected))
    return text


@pytest.mark.parametrize("bug", SMOKE)
def test_failures_of_machines(bug):
    """Three of the planted mistakes below, each in a file that can be read at a glance."""
    [(shelf, _)] = [each for each in MACHINES if each[1] == bug]
    text = check_kept(shelf, bug)
    assert "kind: act" in text
    assert len(text.splitlines()) < 100


@pytest.mark.soak
@pytest.mark.parametrize(("shelf", "bug"), MACHINES, ids=[bug for _, bug in MACHINES])
def test_failures_of_all_examples(shelf, bug):
    """All tapes that are kept of the machines of the shop and of Deep Sci-Fi."""
    check_kept(shelf, bug)


def test_there_are_twenty_failures_to_write():
    """The soak above would be vacuous without tapes."""
    assert len(MACHINES) >= 20


def test_a_failure_of_a_scenario():
    """What was drawn becomes values, and nothing of it is left to draw."""
    program = find_scenario(f"{KITCHEN}completed_before_started.scenario.yaml")
    found = foretold.explore(program, runs=20, mutant="unstarted_completes", confirm=False).failure
    assert found is not None
    file = TapeFile(found.tape, target=program.foretold_name)
    text, error = written(file, program, program.target)
    assert "has succeeded, expected Refused" in text_of(error)
    assert "items: [burger]" in text
    assert "$draw" not in text
    assert "[stream workload]" not in text


def test_a_failure_of_a_scenario_with_load():
    """What several copies have drawn cannot be one value: it stays on the tape."""
    program = find_scenario(f"{KITCHEN}completed_before_started.scenario.yaml")
    found = foretold.explore(
        program, runs=40, load=3, mutant="unstarted_completes", confirm=False, shrink=False
    ).failure
    assert found is not None
    text, error = written(
        TapeFile(found.tape, target=program.foretold_name), program, program.target
    )
    assert "load: 3" in text
    assert text_of(error).partition(": ")[2] == text_of(found.exception).partition(": ")[2]


def check_function(main, target, **settings):
    """It has no steps; the file is its choices."""
    found = foretold.explore(main, runs=2000, seed=1, confirm=False, **settings).failure
    assert found is not None
    text, error = written(TapeFile(found.tape, target=target), main)
    assert text_of(error) == text_of(found.exception)
    assert "steps: []" in text


async def two_increments():
    """A lost update."""
    total = 0

    async def increment():
        nonlocal total
        known = total
        await asyncio.sleep(foretold.between(0, 3) / 1_000)
        total = known + 1

    await foretold.together(increment(), increment())
    assert total == 2


def test_a_failure_of_a_function():
    """A race of two tasks."""
    check_function(two_increments, "tests.scenario.test_as_scenario:two_increments")


@pytest.mark.soak
def test_a_failure_of_hosts_and_their_network():
    """The lease service, whose workers lose each other."""
    from examples.lease import simulation

    target = "examples.lease.simulation:split_brain"
    check_function(simulation.split_brain, target, faults=foretold.faults.network)


def test_an_edited_scenario_is_another_program():
    """Without the third registration the limiter is not bypassed, and the file holds."""
    [(shelf, bug)] = [each for each in MACHINES if each[1] == "limiter_bypassed"]
    text = check_kept(shelf, bug)
    head, _, tail = text.partition("  - kind: act\n")
    shorter = head + tail[tail.index("replay:") :]
    done = run_replay(
        ScenarioProgram(read_scenario(shorter, "x.scenario.yaml"), shelf.program(bug))
    )
    assert done is not None
    assert done.error is None


def test_a_tape_that_holds_is_not_written():
    """A regression test that never failed would prove nothing."""
    program = find_scenario(f"{KITCHEN}L2_router.scenario.yaml")
    with pytest.raises(UsageError, match="this tape holds here"):
        scenario_of(TapeFile(Tape.calm(), target=program.foretold_name), program)


def test_kept_tapes_are_readable():
    """All that is written here comes from files of the suite."""
    assert all(load(shelf.path(bug)).failure for shelf, bug in MACHINES)
