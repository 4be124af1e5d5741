"""The search: it finds what it should in few runs, says what it found, and tells no lies.

The bugs are small and known. `lost_update_k` is the classic one: B has to overtake A by k steps
between A's read and A's write, which stock asyncio never does for this code as it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.explore import Progress
from foretold.search.planning.idleness import SAME_RUNS_MIN
from foretold.story.signature import signature_of
from foretold.tape import Tape, TapeFile, dumps, load
from tests.helpers import STRATEGIES
from tests.helpers import again as run_again

ROOT = Path(__file__).parents[2]


async def lost_update(k: int, *, locked: bool = False, noise: int = 0) -> None:
    """Two deposits into one account; bob begins k steps later."""
    account = {"balance": 0}
    lock = asyncio.Lock()

    async def deposit() -> None:
        balance = account["balance"]
        await asyncio.sleep(0)
        account["balance"] = balance + 1

    async def alice() -> None:
        if locked:
            async with lock:
                await deposit()
        else:
            await deposit()

    async def bob() -> None:
        for _ in range(k):
            await asyncio.sleep(0)
        await alice()

    async def chatter() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    await asyncio.gather(*(chatter() for _ in range(noise)), alice(), bob())
    assert account["balance"] == 2, "lost update"


async def lost_update_2() -> None:
    """As below, near."""
    await lost_update(2)


async def lost_update_4() -> None:
    """As above, further."""
    await lost_update(4)


async def lost_update_8() -> None:
    """As above, far."""
    await lost_update(8)


LOST_UPDATES = {2: lost_update_2, 4: lost_update_4, 8: lost_update_8}


async def close_timers() -> None:
    """Two timers half a millisecond apart; the program believes that they never come together."""

    async def chatter() -> None:
        while True:
            await asyncio.sleep(0.0002)

    busy = asyncio.create_task(chatter())
    naps = [asyncio.create_task(asyncio.sleep(seconds)) for seconds in (0.0100, 0.0105)]
    done, _ = await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
    busy.cancel()
    assert len(done) == 1, "both at once"


IN_THE_TEST = False


async def fails_in_the_test_only() -> None:
    """Depends on something that a fresh process does not have."""
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    foretold.between(0, 1, "in the test" if IN_THE_TEST else "elsewhere")
    assert not IN_THE_TEST


def found(main: Callable[..., Any], **how: Any) -> foretold.Failure:
    """The failure that a search finds, quickly: not confirmed elsewhere unless asked for."""
    failure = foretold.explore(main, **{"confirm": False, **how}).failure
    assert failure is not None
    return failure


# --- the lost update -------------------------------------------------------------------------

RUNS_MEAN_MAX = {2: 5, 4: 8, 8: 12}
"""Runs until it is found, mean of 20 searches."""


@pytest.mark.parametrize("k", LOST_UPDATES)
def test_the_lost_update_is_found(k: int) -> None:
    """In few runs, whatever the seed of the search."""
    runs = []
    for seed in range(0, 2_000, 100):
        outcome = foretold.explore(
            LOST_UPDATES[k], runs=400, seed=seed, shrink=False, confirm=False
        )
        assert outcome.failure is not None
        assert outcome.runs == outcome.failure.run
        runs.append(outcome.runs)
    assert sum(runs) / len(runs) < RUNS_MEAN_MAX[k]


@pytest.mark.parametrize("k", LOST_UPDATES)
def test_the_lost_update_is_explained(k: int) -> None:
    """One sentence: alice was held at the line after her read until bob had ended; and it is said
    that stock asyncio does not take this order."""
    failure = found(LOST_UPDATES[k], runs=400, strategy="delays")
    assert type(failure.exception) is AssertionError
    assert str(failure.exception).startswith("lost update")
    [delay] = failure.delays
    assert {delay.actor, delay.hold.until_actor} == {"alice", "bob"}
    assert delay.until == f"{delay.hold.until_actor} had ended"
    assert delay.location is not None
    assert delay.location.file == __file__
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[delay.location.line - 1]
    assert line.strip() == "await asyncio.sleep(0)"
    assert failure.stock_asyncio is False
    assert failure.faults == []
    for word in ("alice", "bob", "test_explore.py", "lost update"):
        assert word in failure.story


def test_the_lost_update_is_confirmed_in_a_fresh_process() -> None:
    """Before it is reported, it is replayed in another interpreter with hash seed 0."""
    failure = found(lost_update_4, runs=400, confirm=True)
    assert failure.reproduced is True
    assert failure.doubt == ""


def test_a_closure_is_confirmed_in_a_forked_child() -> None:
    """What cannot be imported by name can still be run again elsewhere."""
    failure = found(functools.partial(lost_update, 2), runs=400, confirm=True)
    assert failure.reproduced is True
    failure = found(lambda: lost_update(2), runs=400, confirm=True)
    assert failure.reproduced is True


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_alone(strategy: str) -> None:
    """All but the calm one find it; the calm one proves that stock order has no such bug."""
    outcome = foretold.explore(
        lost_update_2, runs=300, strategy=strategy, shrink=False, confirm=False
    )
    assert (outcome.failure is None) == (strategy == "fifo")


def test_stock_order_does_not_fail() -> None:
    """Searching in stock order alone, the lost update is not there."""
    outcome = foretold.explore(lost_update_2, runs=150, order="asyncio", confirm=False)
    assert outcome.failure is None
    assert outcome.failures == []


def test_the_repaired_program_holds() -> None:
    """With a lock, no run of the search fails, and all of them are made."""
    outcome = foretold.explore(functools.partial(lost_update, 2, locked=True), runs=150)
    assert outcome.failure is None
    assert outcome.runs == 150
    assert not outcome.vacuous
    assert outcome.virtual_s > 0


# --- what stock asyncio can do ---------------------------------------------------------------


@pytest.mark.parametrize("order", [None, "asyncio", "any"])
def test_a_race_that_production_has(order: str | None) -> None:
    """Two timers in one batch: in whichever order it was found, stock asyncio can do it."""
    failure = found(close_timers, runs=400, order=order)
    assert failure.stock_asyncio is True
    assert failure.tape.settings["order"] == "asyncio"
    with pytest.raises(AssertionError, match="both at once"):
        foretold.replay(close_timers, failure.tape)


def test_a_bug_without_any_race() -> None:
    """It fails on the first run, needs no delay, and is of course stock asyncio's too."""

    async def main() -> None:
        foretold.between(0, 9)
        raise LookupError("always")

    failure = found(main)
    assert (failure.run, failure.stock_asyncio, failure.delays) == (1, True, [])


# --- kinds of failures -----------------------------------------------------------------------


async def deadlocks_sometimes() -> None:
    """Two locks taken in two orders."""
    first, second = asyncio.Lock(), asyncio.Lock()

    async def take(one: asyncio.Lock, other: asyncio.Lock) -> None:
        async with one:
            await asyncio.sleep(0)
            async with other:
                pass

    await asyncio.gather(take(first, second), take(second, first))


async def escapes() -> None:
    """A real process, swallowed."""
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
    try:
        os.fork()
    except foretold.EscapedWorld:
        await asyncio.sleep(0)


async def loses_a_task() -> None:
    """A task that fails if it comes too late, and that nobody looks at."""
    ready: list[bool] = []

    async def user() -> None:
        if not ready:
            raise LookupError("not ready")

    async def maker() -> None:
        ready.append(True)

    tasks = [asyncio.create_task(maker()), asyncio.create_task(user())]
    await asyncio.wait(tasks)


async def violates() -> None:
    """A property that an application swallows."""
    order: list[str] = []

    async def append(name: str) -> None:
        order.append(name)
        with contextlib.suppress(AssertionError):
            foretold.always(order[0] == "a", "a comes first", order=order)

    await asyncio.gather(append("a"), append("b"))


async def exits() -> None:
    """A program that ends its process."""
    foretold.between(0, 1)
    sys.exit(5)


FAILING = {
    deadlocks_sometimes: foretold.Deadlock,
    escapes: foretold.EscapedWorld,
    loses_a_task: LookupError,
    violates: foretold.PropertyViolated,
    exits: SystemExit,
}


@pytest.mark.parametrize("main", FAILING, ids=lambda main: main.__name__)
def test_every_kind_of_failure_is_found(main: Callable[..., Any]) -> None:
    """Whatever makes a run fail is found by a search, saved, and replays."""
    failure = found(main, runs=300)
    assert isinstance(failure.exception, FAILING[main])
    again = run_again(main, failure.tape)
    assert again.error is not None
    assert signature_of(again.error) == failure.signature


def test_ctrl_c_ends_the_search() -> None:
    """The person who watches wants to stop: nothing is reported as a failure of the program."""
    runs = 0

    async def main() -> None:
        nonlocal runs
        runs += 1
        foretold.between(0, 9)
        if runs == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        foretold.explore(main)
    assert runs == 3
    assert foretold.run(lambda: "next").value == "next"


# --- counting --------------------------------------------------------------------------------


def test_runs_are_those_of_the_search_alone() -> None:
    """Shrinking and telling run the program again; that is not counted as searching."""
    calls = 0

    async def main() -> None:
        nonlocal calls
        calls += 1
        await lost_update(2)

    outcome = foretold.explore(main, runs=400, confirm=False)
    assert outcome.failure is not None
    assert outcome.runs == outcome.failure.run
    assert outcome.failure.shrink_runs > 0
    assert calls > outcome.runs + outcome.failure.shrink_runs


def test_a_search_is_a_function_of_its_seed() -> None:
    """The same seed finds the same failure in the same run, and shrinks it to the same tape."""

    def once() -> tuple[int, int, str]:
        failure = found(lost_update_4, runs=400, seed=5)
        return failure.run, failure.seed, dumps(TapeFile(failure.tape))

    assert once() == once()


def test_the_seed_of_a_failure_is_a_run() -> None:
    """The run that failed can be made again from its seed and settings, without any search."""
    failures = [found(lost_update_4, runs=400, seed=seed) for seed in range(40, 43)]
    assert max(failure.run for failure in failures) > 1, "vacuous otherwise"
    for failure in failures:
        with pytest.raises(type(failure.exception)):
            foretold.run(lost_update_4, tape=Tape.seeded(failure.seed, failure.tape.settings))


def test_a_search_can_be_limited_in_time() -> None:
    """`time_s` ends it, however many runs were asked for."""
    outcome = foretold.explore(lambda: foretold.between(0, 9), runs=10**9, time_s=0.05)
    assert 0 < outcome.runs < 10**6
    assert outcome.failure is None
    assert outcome.elapsed_s >= 0.05


def test_progress_is_told() -> None:
    """After each run, also while a failure is shrunk, and at each stage: enough for a progress
    bar."""
    seen: list[Progress] = []
    outcome = foretold.explore(lost_update_2, runs=400, on_progress=seen.append)
    searching = [each for each in seen if each.stage == "searching"]
    assert [each.runs for each in searching] == list(range(1, outcome.runs + 1))
    assert {each.runs_max for each in seen} == {400}
    assert [each.stage for each in seen[-2:]] == ["shrinking", "confirming"]
    assert searching[-1].failures == 0
    later = seen[len(searching) :]
    assert {(each.runs, each.failures) for each in later} == {(outcome.runs, 1)}
    assert len(later) > outcome.failures[0].shrink_runs


# --- nothing to explore ----------------------------------------------------------------------


async def one_task() -> None:
    """No choice anywhere."""
    await asyncio.sleep(1)


def test_nothing_to_explore() -> None:
    """A program in which nothing can be chosen is run a few times in each order, with different
    seeds. These runs are the same, and the outcome says so."""
    for order, orders in ((None, 2), ("any", 1), ("asyncio", 1)):
        runs = orders * SAME_RUNS_MIN
        outcome = foretold.explore(one_task, runs=100, order=order)
        assert (outcome.runs, outcome.vacuous) == (runs, True)
        assert str(outcome) == f"nothing was explored in {runs} runs, seed 0"


async def races_with_its_limit() -> None:
    """One task alone, whose steps may take longer than its time limit."""
    async with asyncio.timeout(0.005):
        for _ in range(300):
            await asyncio.sleep(0)


async def leaves_before_its_timer() -> None:
    """One task alone, and a timer that fires only if the task is slow."""
    fired: list[bool] = []
    asyncio.get_running_loop().call_later(0.005, fired.append, True)
    for _ in range(300):
        await asyncio.sleep(0)
    assert not fired, "too slow"


async def rolls_dice() -> None:
    """One task alone that uses plain randomness."""
    assert random.random() < 0.9, "one in ten"


ALONE = (races_with_its_limit, leaves_before_its_timer, rolls_dice)


@pytest.mark.parametrize("main", ALONE, ids=lambda main: main.__name__)
def test_something_to_explore_after_all(main: Callable[..., Any]) -> None:
    """No two tasks, and yet runs differ: by time, by randomness. The search finds that."""
    for seed in range(8):
        outcome = foretold.explore(main, runs=300, seed=seed, confirm=False)
        assert not outcome.vacuous
        assert outcome.failure is not None


def test_points_of_a_campaign() -> None:
    """A point that some run hit is not missed; one that was passed and never hit is."""

    async def main() -> None:
        number = foretold.between(0, 20)
        foretold.sometimes(number == 7, "seven")
        foretold.sometimes(number > 20, "too large")
        foretold.reachable("the end")

    outcome = foretold.explore(main, runs=200)
    assert outcome.missed == ["too large"]
    assert outcome.reached["the end"] == 200
    assert 0 < outcome.reached["seven"] < 50


# --- keeping what was found ------------------------------------------------------------------


def test_a_failure_is_saved_before_it_is_shrunk(tmp_path: Path) -> None:
    """A kill in the middle of shrinking loses nothing: the file is there when that begins."""
    kept: list[TapeFile] = []

    def look(progress: Progress) -> None:
        if progress.stage == "shrinking":
            [path] = (tmp_path / "new").glob("*.tape")
            kept.append(load(path))

    failure = found(lost_update_4, runs=400, save_to=tmp_path / "new", on_progress=look)
    early = kept[0]
    assert early.failure is not None
    assert early.failure.type_name == "AssertionError"
    with pytest.raises(AssertionError, match="lost update"):
        foretold.replay(lost_update_4, early.tape)
    assert failure.saved_as is not None
    late = load(failure.saved_as)
    assert dumps(late) != dumps(early)
    assert list(late.tape.schedule) == list(failure.tape.schedule)


def replay_in_a_fresh_process(name: str, path: Path) -> subprocess.CompletedProcess[str]:
    """`foretold.replay(main, path)` in a new interpreter, as somebody else would."""
    program = (
        f"import foretold, tests.search.test_explore as t; foretold.replay(t.{name}, {str(path)!r})"
    )
    search_path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": search_path, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_saved_failure_replays_in_a_fresh_process(tmp_path: Path) -> None:
    """`Failure.save`, handed to a colleague: the same assertion fails there."""
    path = found(lost_update_8, runs=400).save(tmp_path / "kept.tape")
    done = replay_in_a_fresh_process("lost_update_8", path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("AssertionError: lost update")


def test_a_failure_that_is_not_reproduced_is_doubted() -> None:
    """It is reported all the same, and the doubt names the first event that differs."""
    global IN_THE_TEST
    IN_THE_TEST = True
    try:
        failure = found(fails_in_the_test_only, confirm=True)
    finally:
        IN_THE_TEST = False
    assert failure.reproduced is False
    assert "there it held" in failure.doubt
    assert "in the test" in failure.doubt
    assert "elsewhere" in failure.doubt


# --- calls that cannot work ------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no runs": ({"runs": 0}, "runs is a whole number, 1 or more"),
    "seed": ({"seed": "7"}, "a seed is a whole number"),
    "order": ({"order": "random"}, "'asyncio', 'any' or None"),
    "strategy": ({"strategy": "best"}, "strategy is 'portfolio', 'fifo'"),
    "workers": ({"workers": 0}, "workers is a whole number, 1 or more"),
    "faults": ({"faults": "all"}, "there is no fault"),
    "setting": ({"speed": 3}, "speed"),
    "limit": ({"steps_max": -1}, "steps_max is a whole number, 1 or more"),
    "isolation": ({"isolation": "thread"}, "'fork' or None"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_are_explained(mistake: str) -> None:
    """Each mistake has an error that names it, before anything is run."""
    arguments, words = WRONG[mistake]
    with pytest.raises(foretold.UsageError, match=words):
        foretold.explore(lambda: pytest.fail("it was run"), **arguments)


def test_a_coroutine_instead_of_a_function() -> None:
    """It could be run only once: the error shows the line to write."""
    with pytest.raises(foretold.UsageError, match=r"right: foretold\.run\(main\)"):
        foretold.explore(one_task())  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(foretold.UsageError, match="needs a function"):
        foretold.replay("main", foretold.Tape.calm())  # type: ignore[call-overload]  # that is the mistake
