"""`time_s` bounds the whole of a search, and what is not asked for costs no run."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.errors import TimeUp
from foretold.kernel import real
from foretold.report.text import outcome_text
from foretold.search.explore import Interrupted
from foretold.search.planning.deadline import AFTER_S, CONFIRMED_S, Deadline, OutOfTime
from foretold.story.signature import signature_of

made = 0


async def lost_update(slow_s: float = 0.0) -> None:
    """Two tasks read, wait and write. Each run takes real time, if it is told to."""
    global made
    made += 1
    stock = {"left": 2}

    async def sell() -> None:
        left = stock["left"]
        await asyncio.sleep(0)
        stock["left"] = left - 1

    real.sleep(slow_s)
    await foretold.together(sell(), sell())
    assert stock["left"] == 0


def test_a_failure_as_it_was_found_costs_one_run() -> None:
    """Without shrinking and confirming there are two runs besides those of the search: the one that
    warms up, and the one that is told. The story says which tasks were held."""
    global made
    made = 0
    outcome = foretold.explore(lost_update, shrink=False, confirm=False)
    assert outcome.failure is not None
    assert made == 1 + outcome.runs + 1
    assert "sell" in outcome.failure.story
    with pytest.raises(AssertionError):
        foretold.replay(lost_update, outcome.failure.tape)


@pytest.mark.parametrize("how", [{}, {"isolation": "fork"}])
def test_the_whole_is_bounded(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of half a second: shrinking, stock order and the pair would take half a minute. They
    are broken off, and the failure is reported as far as it got."""
    for name in ("RUNS_S", "SMALLER_S", "TOLD_S", "CONFIRMED_S"):
        monkeypatch.setattr(f"foretold.search.planning.deadline.{name}", 1.0)
    monkeypatch.setattr("foretold.search.failures.workout.SMALLER_S", 1.0)
    monkeypatch.setattr("foretold.search.failures.workout.TOLD_S", 2.0)
    began_s = real.monotonic()
    main = functools.partial(lost_update, slow_s=0.4)
    outcome = foretold.explore(main, time_s=0.1, confirm=False, **how)
    assert real.monotonic() - began_s < AFTER_S
    assert outcome.failure is not None
    assert isinstance(outcome.failure.exception, AssertionError | foretold.ForetoldError)


async def never_over() -> None:
    """Takes no step."""
    while True:
        pass


def test_a_run_in_progress_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither counted nor called a failure: nobody knows what would have come of it."""
    monkeypatch.setattr("foretold.search.explore.RUNS_S", 0.2)
    for strategy in ("portfolio", "exhaustive"):
        how: dict[str, Any] = {"strategy": strategy, "wall_s_max": 4, "confirm": False}
        outcome = foretold.explore(never_over, time_s=0.1, **how)
        assert (outcome.runs, outcome.failures) == (0, [])
        assert outcome.is_vacuous
        with pytest.raises(foretold.Vacuous, match="no run was over when the time was up"):
            outcome.raise_failure()


async def in_order() -> bool:
    """Whether three tasks ran in the order in which they were made. Any delay changes that."""
    global made
    made += 1
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    await asyncio.gather(*(work(number) for number in range(3)))
    return done == sorted(done)


async def ends_only_without_a_delay() -> None:
    """Else it takes no step."""
    if not await in_order():
        await never_over()


def test_an_enumeration_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a schedule with a delay. What was run before it counts, and it says so."""
    monkeypatch.setattr("foretold.search.explore.RUNS_S", 0.2)
    how: dict[str, Any] = {"strategy": "exhaustive", "wall_s_max": 4, "confirm": False}
    outcome = foretold.explore(ends_only_without_a_delay, time_s=0.3, **how)
    assert (outcome.runs, outcome.failures) == (1, [])
    assert outcome.covered == "the schedule without any delay"


def test_an_enumeration_begins_no_run_after_its_time() -> None:
    """Nor one of those that are only made to see what can be delayed, and that do not count."""
    global made
    made = 0

    async def main() -> None:
        await in_order()
        if made == 3:
            real.sleep(0.5)

    outcome = foretold.explore(main, time_s=0.5, confirm=False, strategy="exhaustive")
    assert outcome.runs == 1
    assert made == 3  # one warms up, one counts, one is made to see what could be delayed


@pytest.mark.parametrize("pressed_in", ["the next run", "the one that is recorded"])
def test_ctrl_c_keeps_what_an_enumeration_found(pressed_in: str, tmp_path: Path) -> None:
    """The failure, its tape, and what was covered until then."""
    failed, last = 0, {"the next run": 3, "the one that is recorded": 2}[pressed_in]

    async def fails() -> None:
        nonlocal failed
        if failed == last:
            raise KeyboardInterrupt  # as Ctrl-C does
        if not await in_order():
            failed += 1
            raise AssertionError

    how: dict[str, Any] = {"strategy": "exhaustive", "confirm": False, "save_to": tmp_path}
    with pytest.raises(Interrupted) as caught:
        foretold.explore(fails, keep_going=True, **how)
    outcome = caught.value.outcome
    assert outcome.covered == "the schedule without any delay, and 1 of those with 1"
    assert outcome.failure is not None
    assert outcome.failure.saved_as is not None
    failed = -1
    with pytest.raises(AssertionError):
        foretold.replay(fails, outcome.failure.saved_as)


def test_a_deadline_knows_what_is_left() -> None:
    """Without a limit nothing ever ends; a run that was broken off ends all that needs runs."""
    endless, over = Deadline(), Deadline(-CONFIRMED_S - 1)
    endless.check(CONFIRMED_S)
    with pytest.raises(OutOfTime):
        over.check(CONFIRMED_S)
    with pytest.raises(OutOfTime):
        endless.check(CONFIRMED_S, signature_of(TimeUp("broken off")))


def test_a_run_that_was_broken_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that holds says which run did not end before its time was up, and where it stood: it
    may be one that hangs."""
    monkeypatch.setattr("foretold.search.explore.RUNS_S", 0.2)

    async def main() -> None:
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
        while True:  # it stands here
            pass

    outcome = foretold.explore(main, time_s=0.1, seed=1)
    assert outcome.failure is None
    [note] = outcome.notes
    assert note.startswith(
        "run 1 does not count: the time of the search was up in the middle of it"
    )
    assert f"main runs at {__file__}" in note
    text = outcome_text(outcome, runs=100, target="shop:main")
    assert text.startswith("no run of shop:main was over when the time was up")
    assert note in text
