"""Whether stock asyncio can do it: seen there, excluded, or not seen; never a guess.

Twelve races within one tick (`programs/same_tick.py`), half of them possible. A label that says
"possible" is backed by a tape, one that says "excluded" by an enumeration, and everything else is
labelled as what it is: not seen.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.report.text import failure_note
from foretold.search.failures import stock, workout
from foretold.search.failures.failure import Failure
from foretold.search.planning import allowance
from tests.search.programs import same_tick
from tests.search.programs.same_tick import IMPOSSIBLE, POSSIBLE, Program
from tests.search.test_explore import close_timers

RUNS = 1_500
SEEDS = (11, 1_000_014, 2_000_017, 3_000_020, 4_000_023)
"""Of independent searches."""


def found(main: Program, seed: int = SEEDS[0], **more: Any) -> Failure:
    """What a search that holds tasks finds."""
    given = {"runs": RUNS, "order": "any", "confirm": False, **more}
    failure = foretold.explore(main, seed=seed, **given).failure
    assert failure is not None, "the search did not find the race at all"
    return failure


QUICK = [same_tick.token_and_cancellation, same_tick.thread_and_time_limit]


@pytest.mark.parametrize("main", [*QUICK, same_tick.notified_and_cancelled])
def test_what_stock_asyncio_can_do_is_seen_there(main: Program) -> None:
    """Found in another order, it is tried in stock order until it is seen; that tape is kept."""
    failure = found(main)
    assert failure.stock_asyncio is True
    tape = failure.stock_tape
    assert tape is not None
    assert tape.settings["order"] == "asyncio"
    with pytest.raises(type(failure.exception)):
        foretold.replay(main, tape)
    assert "Stock asyncio can do this." in note_on(failure)


async def escapes() -> None:
    """Starts a real process."""
    subprocess.run(["true"], check=True)


async def asks_a_real_server() -> None:
    """Nothing listens there: the database of the developer's machine is no part of the world."""
    await asyncio.open_connection("127.0.0.1", 5432)


async def asks_by_name() -> None:
    """The same, and the client of a service says it in its own words."""
    try:
        await asyncio.open_connection("db.example.com", 5432)
    except OSError as error:
        raise RuntimeError("no database") from error


@pytest.mark.parametrize("order", [None, "any"])
@pytest.mark.parametrize("main", [escapes, asks_a_real_server, asks_by_name])
def test_what_has_nothing_to_do_with_order_has_no_label(main: Program, order: str | None) -> None:
    """Escapes and servers that are not there: production has no such failure, in any order. A saved
    tape says nothing of it either."""
    failure = foretold.explore(main, runs=3, order=order, confirm=False).failure
    assert failure is not None
    assert (failure.stock_asyncio, failure.stock, failure.stock_tape) == (None, None, None)
    assert "tock asyncio" not in note_on(failure)


@pytest.mark.parametrize("main", IMPOSSIBLE)
def test_what_stock_asyncio_cannot_do_is_excluded(main: Program) -> None:
    """By construction it has no stock schedule that fails, and the label says why."""
    failure = found(main)
    assert failure.stock_asyncio is False
    assert failure.stock_reason
    assert failure.stock_tape is None
    flat = " ".join(note_on(failure).split())
    assert f"for this code as it stands: {failure.stock_reason}." in flat


def note_on(failure: Failure) -> str:
    """What the report says."""
    return failure_note(failure, runs=RUNS, command="foretold replay x")


def test_the_reasons_say_what_was_run() -> None:
    """One order, all values, all orders of timers: each is claimed only where it is so."""
    assert "they run in one order only" in found(same_tick.lost_update).stock_reason
    assert "all 6 combinations of the values" in found(same_tick.chosen_hops).stock_reason
    reason = found(same_tick.timers_in_line).stock_reason
    assert "orders in which its timers can fire were run" in reason


async def _lost_update_and(other: Any) -> None:
    other()
    await same_tick.lost_update()


def lost_update_with_randomness() -> Any:
    """It draws a number."""
    return _lost_update_and(random.random)


def lost_update_with_a_clock() -> Any:
    """It reads a clock."""
    return _lost_update_and(time.monotonic)


def lost_update_with_a_thread() -> Any:
    """It starts a thread."""
    return _thread_first()


async def _thread_first() -> None:
    await asyncio.to_thread(int)
    await same_tick.lost_update()


async def lost_update_with_a_host(world: foretold.World) -> None:
    """It has another host."""
    world.host("other")
    await same_tick.lost_update()


@pytest.mark.parametrize(
    "main",
    [
        lost_update_with_randomness,
        lost_update_with_a_clock,
        lost_update_with_a_thread,
        lost_update_with_a_host,
    ],
)
def test_nothing_is_excluded_where_something_else_could_decide(
    main: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the program sees of clocks, randomness, threads and hosts is not enumerated: not seen in
    so many tries is all that can be said."""
    monkeypatch.setattr(stock, "TRIES_MAX", 20)
    failure = found(main)
    assert (failure.stock_asyncio, failure.stock_tries, failure.stock_reason) == (None, 20, "")
    assert failure.stock_tape is None
    flat = " ".join(note_on(failure).split())
    assert "is not known: it was not seen to in 20 runs in its order" in flat


def test_a_failure_by_a_value_alone_takes_one_run_in_stock_order() -> None:
    """Which value it is decides, in any order. Its tape is run in stock order before the values are
    gone through, which ends after 2,000 runs and says nothing."""
    runs = itertools.count()

    async def main() -> None:
        next(runs)
        assert foretold.between(0, 1_000_000) < 5

    failure = found(main, shrink_runs=20)
    assert failure.stock_asyncio is True
    assert next(runs) < 100


def test_values_that_are_too_many_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a choice among more values than an enumeration may have runs, nothing can be excluded.
    That is clear after one run."""
    monkeypatch.setattr(stock, "TRIES_MAX", 20)
    runs = itertools.count()

    async def main() -> None:
        next(runs)
        foretold.choose("ab")
        foretold.between(0, stock.SCHEDULES_MAX)
        await same_tick.lost_update()

    failure = found(main)
    assert (failure.stock_asyncio, failure.stock_tries) == (None, 20)
    assert next(runs) < 500


def test_a_failure_that_is_reported_as_it_was_found_was_not_tried() -> None:
    """Without shrinking there are no tries either, and no word about them."""
    failure = found(same_tick.lost_update, shrink=False)
    assert (failure.stock_asyncio, failure.stock_tries) == (None, 0)
    assert "tock asyncio" not in note_on(failure)


def test_a_busy_machine_changes_no_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock finds that ten seconds have passed: others had the processor. The
    number of tries stays as it was, and so does what is excluded."""
    monkeypatch.setattr(stock, "TRIES_MAX", 20)
    clock = itertools.count(0, 10)
    busy = SimpleNamespace(monotonic=lambda: float(next(clock)), process_time=real.process_time)
    monkeypatch.setattr(allowance, "real", busy)
    failure = found(lost_update_with_randomness)
    assert (failure.stock_asyncio, failure.stock_tries) == (None, 20)
    assert found(same_tick.timers_in_line).stock_asyncio is False


def test_each_run_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the runs of forks found out about time comes back to the search."""
    monkeypatch.setattr(stock, "TRIES_MAX", 5)
    failure = found(same_tick.lost_update, isolation="fork")
    assert failure.stock_asyncio is False
    failure = found(same_tick.timers_in_line, isolation="fork")
    assert failure.stock_asyncio is None, "the choices of a fork cannot be gone through here"
    assert failure.stock_tries


# --- the whole table ---------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("main", POSSIBLE)
def test_the_possible_ones_are_found_in_stock_order(main: Program) -> None:
    """The labels are compared with what a search in stock order alone finds."""
    how: Any = {"runs": 4_000, "order": "asyncio", "shrink": False, "confirm": False}
    failures = [foretold.explore(main, seed=seed, **how).failure for seed in SEEDS[:2]]
    assert any(failures)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_eleven_of_twelve_labels_are_right(seed: int) -> None:
    """In each of five independent searches."""
    labels = {main.__name__: found(main, seed).stock_asyncio for main in (*POSSIBLE, *IMPOSSIBLE)}
    expected = {main.__name__: main in POSSIBLE for main in (*POSSIBLE, *IMPOSSIBLE)}
    wrong = {name: label for name, label in labels.items() if label is not expected[name]}
    assert len(wrong) <= 1, wrong


def test_the_tape_in_stock_order_has_runs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking has used up its runs before. With a number that the caller has set there are none
    left: then the tape that was shrunk is told, and not the other as it was found."""
    monkeypatch.setattr(workout, "SHRINK_RUNS_MAX", 4)
    settings: dict[str, Any] = {"runs": 300, "seed": 1, "order": "any", "confirm": False}
    own = foretold.explore(close_timers, **settings).failure
    kept = foretold.explore(close_timers, **settings, shrink_runs=4).failure
    assert own is not None
    assert kept is not None
    assert own.tape.settings["order"] == "asyncio"
    assert 4 < own.shrink_runs <= 4 + workout.STOCK_RUNS_MIN
    assert not own.unfinished
    assert (kept.tape.settings["order"], kept.shrink_runs) == ("any", 4)
    assert own.stock_asyncio
    assert kept.stock_asyncio
