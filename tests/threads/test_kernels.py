"""Programs with threads: every mistake is found, every correction survives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import foretold
from foretold.kernel.session import session
from foretold.search.planning.portfolio import plan_of, plans_for, settings_of
from tests.helpers import SOAK_FACTOR, again, run_of, soak
from tests.threads.kernels import KERNELS, Kernel, in_threads
from tests.threads.systems import SYSTEMS

EVERY = (*KERNELS, *SYSTEMS)
FOUND_RUNS_MAX = 500
BASE_SEEDS = (10_000, soak(0), soak(20_000), soak(30_000))
SURVIVED_RUNS = 2_000
"""In `make soak`; in `make test` a twentieth."""
HERE = "tests/threads/test_kernels.py"
PLANS = plans_for(None, "portfolio")

every_kernel = pytest.mark.parametrize("kernel", EVERY, ids=lambda kernel: kernel.name)


def search(main: Any, kernel: Kernel, runs: int, seed: int = 0, **how: Any) -> foretold.Outcome:
    """A search that says whether, and in which run."""
    return foretold.explore(main, runs=runs, seed=seed, confirm=False, **kernel.settings, **how)


@every_kernel
@pytest.mark.parametrize("seed", BASE_SEEDS)
def test_a_mistake_is_found(kernel: Kernel, seed: int) -> None:
    """Within 500 runs, from wherever the search begins; and told as what it is."""
    outcome = search(kernel.buggy, kernel, FOUND_RUNS_MAX, seed, shrink=False)
    assert outcome.failures, f"not found from seed {seed}"
    deadlocks = kernel.name.startswith(("philosophers", "lost wake-up", "several locks"))
    assert isinstance(outcome.failures[0].exception, foretold.Deadlock) == deadlocks


@every_kernel
def test_the_correction_survives(kernel: Kernel) -> None:
    """The search accuses nobody: no run of the correct twin fails, and its runs are not all one."""
    outcome = search(kernel.fixed, kernel, SURVIVED_RUNS // 20)
    assert not outcome.failures
    assert not outcome.vacuous


@pytest.mark.soak
@every_kernel
def test_the_correction_survives_long(kernel: Kernel) -> None:
    """As above, for long."""
    assert not search(kernel.fixed, kernel, SURVIVED_RUNS // 20 * SOAK_FACTOR).failures


@every_kernel
def test_a_seed_says_all(kernel: Kernel) -> None:
    """A failing run fails again, on its seed and on its recording, with the same digest."""
    seed = search(kernel.buggy, kernel, FOUND_RUNS_MAX, shrink=False).failures[0].seed
    how = {**dict(settings_of(seed, PLANS)), **kernel.settings}
    first = run_of(kernel.buggy, seed, recording=True, **how)
    assert first.error is not None
    second = run_of(kernel.buggy, seed, **how)
    third = again(kernel.buggy, first.tape.recorded())
    for other in (second, third):
        assert (other.digest, repr(other.error)) == (first.digest, repr(first.error))
    assert third.broken_holds == 0


# --- how often ---------------------------------------------------------------------------------


def racy_counter() -> None:
    """The least there is: a read and a write on two lines, in two threads."""
    shared = SimpleNamespace(count=0)

    def add() -> None:
        seen = shared.count
        shared.count = seen + 1

    in_threads(add, add)
    assert shared.count == 2


def test_two_lines_race_in_one_run_of_ten() -> None:
    """More than every tenth run of the portfolio loses an update, though the threads are short:
    they begin together, and their first lines are all looked at."""
    runs = 400
    lost = 0
    with session():
        for seed in range(runs):
            plan = plan_of(seed, PLANS)
            how: dict[str, Any] = {"order": plan.order, "strategy": plan.strategy}
            lost += run_of(racy_counter, seed, preempt="lines", **how).error is not None
    assert lost > runs / 10


# --- what is told ------------------------------------------------------------------------------


def test_a_race_is_told_as_one_delay() -> None:
    """Shrunk to one hold that is true: which thread, at which line, with its text, until when."""
    (failure,) = foretold.explore(racy_counter, runs=500, preempt="lines").failures
    (delay,) = failure.delays
    assert delay.actor == "Thread-1 (add)"
    place = "`shared.count = seen + 1`, until Thread-2 (add) had ended"
    assert f"held before its 3rd step, at {HERE}:" in failure.story
    assert place in failure.story
    (last,) = (line for line in failure.story.splitlines() if "fails: AssertionError" in line)
    assert "MainThread" in last
    assert "These two steps decide it." in failure.story
    assert "waits forever" not in failure.story
    assert failure.reproduced


@pytest.mark.parametrize(
    ("name", "holds_max"),
    [("account", 1), ("check then act", 1), ("lazy init", 1), ("wrong lock", 3), ("token ring", 1)],
)
def test_few_holds_are_left(name: str, holds_max: int) -> None:
    """What a failure shrinks to can be read."""
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    (failure,) = search(kernel.buggy, kernel, FOUND_RUNS_MAX).failures
    assert len(failure.tape.schedule.holds) <= holds_max
    assert "MainThread had ended" not in failure.story  # it has not: that would be untrue


def test_philosophers_are_stuck_at_once() -> None:
    """No time passes until the deadlock is seen; each is named with the fork it waits for."""
    main = KERNELS[[kernel.name for kernel in KERNELS].index("philosophers 3")].buggy
    done = next(d for seed in range(FOUND_RUNS_MAX) if (d := run_of(main, seed)).error is not None)
    assert isinstance(done.error, foretold.Deadlock)
    assert done.virtual_s < 0.001
    for number in (1, 2, 3):
        assert f"Thread-{number} waits at" in str(done.error)
        assert f"for a lock that is held by Thread-{number}" in str(done.error)
