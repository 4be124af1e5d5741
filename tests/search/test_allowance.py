"""How many runs a question is worth follows from the program, not from how busy the machine is."""

from __future__ import annotations

import asyncio
import functools
import itertools
import subprocess
import sys
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.search.planning import allowance
from foretold.search.planning.allowance import Allowance
from foretold.search.workers.isolation import in_fork
from tests.search.test_explore import lost_update

lost_update_of_four = functools.partial(lost_update, 4)


def runs_allowed(monkeypatch: pytest.MonkeyPatch, costs: list[float]) -> int:
    """How many runs of a question are made that has 600 of them and 8 seconds. `costs`: what each
    takes of processor time, the last one again and again."""
    spent_s = 0.0
    monkeypatch.setattr(allowance, "worked_s", lambda: spent_s)
    question = Allowance(600, 8.0)
    each = itertools.chain(costs, itertools.repeat(costs[-1]))
    for made in itertools.count(1):
        spent_s += next(each)
        if not question.spend():
            return made
    raise AssertionError


@pytest.mark.parametrize(
    ("cost_s", "runs"), [(0.0001, 600), (0.013, 600), (0.02, 300), (0.05, 150), (1, 6), (20, 1)]
)
def test_long_runs_get_halves(cost_s: float, runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they fit into the processor time."""
    assert runs_allowed(monkeypatch, [cost_s]) == runs


def test_the_number_is_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though no two runs take equally long, and some are disturbed."""
    first = [0.02, 0.031, 0.022, 0.19, 0.024]
    again = [0.027, 0.021, 0.25, 0.023, 0.0205]
    assert {runs_allowed(monkeypatch, costs) for costs in (first, again)} == {300}


def test_what_gets_longer_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first runs were short, all that follow are long."""
    assert runs_allowed(monkeypatch, [0.001] * 5 + [1.0]) == 5 + 32


def test_a_limit_below_the_samples_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a limit on runs first."""
    monkeypatch.setattr(allowance, "worked_s", lambda: 0.0)
    question = Allowance(3, 8.0)
    assert [question.spend() for _ in range(3)] == [True, True, False]


async def a_large_amount() -> None:
    """Its smallest value takes some runs to find."""
    assert foretold.between(0, 1_000_000, "amount") < 1_234
    await asyncio.sleep(0)


def test_a_number_of_runs_is_kept_however_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """`shrink_runs` counts. Without it, a program whose runs are long is shrunk by fewer."""
    worked = iter(range(1_000_000))
    monkeypatch.setattr(allowance, "worked_s", lambda: 10.0 * next(worked))  # ten seconds a run
    settings: Any = {"seed": 1, "confirm": False}
    few = foretold.explore(a_large_amount, **settings).failure
    many = foretold.explore(a_large_amount, shrink_runs=300, **settings).failure
    assert few is not None
    assert many is not None
    assert few.unfinished
    assert few.shrink_runs < many.shrink_runs <= 310


def test_a_number_of_runs_bounds_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which two steps decide is asked with no more runs than shrinking may take."""
    asked = list[int]()
    usual = Allowance.__init__

    def noted(self: Allowance, runs_max: int, *more: Any, **named: Any) -> None:
        asked.append(runs_max)
        usual(self, runs_max, *more, **named)

    monkeypatch.setattr(Allowance, "__init__", noted)
    settings: Any = {"order": "asyncio", "seed": 1, "confirm": False, "shrink_runs": 40}
    assert foretold.explore(a_large_amount, **settings).failure is not None
    assert len(asked) > 1
    assert max(asked) == 40


def test_a_busy_clock_changes_no_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes with each look at the real clock. The tape is that of an idle machine."""
    settings: Any = {"order": "any", "seed": 1, "confirm": False}
    usual = foretold.explore(lost_update_of_four, **settings).failure
    hours = itertools.count()
    monkeypatch.setattr(real, "monotonic", lambda: 3_600.0 * next(hours))
    late = foretold.explore(lost_update_of_four, **settings).failure
    assert usual is not None
    assert late is not None
    assert not late.unfinished
    assert (late.tape.choices, late.tape.schedule) == (usual.tape.choices, usual.tape.schedule)
    assert late.story == usual.story


def burn() -> None:
    """Work for half a second of processor time."""
    until_s = real.process_time() + 0.5
    while real.process_time() < until_s:
        pass


def test_the_forks_of_runs_count_and_other_children_do_not() -> None:
    """A server that ends meanwhile, and has worked for long, takes nothing away from a question."""
    before_s = allowance.worked_s()
    in_fork(burn)
    with_fork_s = allowance.worked_s()
    assert with_fork_s - before_s >= 0.5
    program = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert allowance.worked_s() - with_fork_s < 0.4
