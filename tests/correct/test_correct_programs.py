"""No false alarm: programs that are right are silent, whatever order and faults a search chooses.

Each is also shown to be able to fail: with its planted mistake the search finds it. Programs that
need a server take most of the time, so by default they make fewer runs.
"""

from __future__ import annotations

import pytest

import foretold
import tests.correct.disk
import tests.correct.groups
import tests.correct.hosts
import tests.correct.orm
import tests.correct.postgres
import tests.correct.protocols
import tests.correct.tasks
import tests.correct.threads
import tests.correct.web  # noqa: F401  # each adds its programs to the list
from tests.correct.program import PROGRAMS, Program
from tests.helpers import SOAK_FACTOR

RUNS = 25 * SOAK_FACTOR
"""In `make soak`: 500."""
RUNS_SMOKE = 3
SEED_OF_MISTAKES = 11

EACH = pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
QUICK = [each for each in PROGRAMS.values() if not each.slow]
SLOW = [each for each in PROGRAMS.values() if each.slow]


def is_silent(program: Program, runs: int) -> None:
    """No failure in so many runs, which were not all the same one."""
    main = program.target(broken=False)
    outcome = foretold.explore(
        main, runs=runs, order="any", faults=program.faults, shrink=False, confirm=False
    )
    assert outcome.failure is None, outcome.failure.story
    assert outcome.runs == runs
    assert not outcome.is_vacuous
    assert outcome.notes == []


def is_found(program: Program) -> None:
    """The planted mistake fails a run of the search."""
    outcome = foretold.explore(
        program.target(broken=True),
        runs=program.runs_max,
        seed=SEED_OF_MISTAKES,
        order="any",
        faults=program.faults,
        shrink=False,
        confirm=False,
    )
    assert outcome.failure is not None


def test_there_are_forty() -> None:
    """Of each family there are some."""
    assert len(PROGRAMS) >= 40
    families = {each.main.__module__ for each in PROGRAMS.values()}
    assert len(families) == 9


@EACH
def test_a_correct_program_is_silent(program: Program) -> None:
    """In a few runs."""
    is_silent(program, RUNS_SMOKE)


@pytest.mark.soak
@EACH
def test_a_correct_program_is_silent_for_long(program: Program) -> None:
    """In 500 runs of `make soak`, with all faults that apply to it."""
    is_silent(program, RUNS)


@pytest.mark.parametrize("program", QUICK, ids=lambda each: each.name)
def test_its_planted_mistake_is_found(program: Program) -> None:
    """What a search takes fractions of a second for."""
    is_found(program)


@pytest.mark.soak
@pytest.mark.parametrize("program", SLOW, ids=lambda each: each.name)
def test_its_planted_mistake_is_found_in_time(program: Program) -> None:
    """What takes seconds."""
    is_found(program)
