"""Campaigns: many workers make the same runs and find the same failures as one; none is lost."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.failures.failure import Outcome
from foretold.search.workers.executors import ForkPool
from tests.search import campaign_programs as programs


def shape(outcome: Outcome) -> Any:
    """All that must not depend on who made the runs."""
    failures = [(f.signature, f.seed, f.run, f.times, f.changes) for f in outcome.failures]
    coverage = outcome.coverage
    reached = (coverage.reached, coverage.growth, coverage.per_run, coverage.unseen)
    return outcome.runs, failures, reached, outcome.virtual_s, outcome.vacuous


@pytest.mark.parametrize("keep_going", [False, True])
def test_the_number_of_workers_changes_nothing(keep_going: bool) -> None:
    """One, two and five workers: the same runs, the same failures, the same coverage."""
    search = partial(
        foretold.explore,
        programs.two_bugs,
        runs=400,
        seed=5,
        keep_going=keep_going,
        shrink=False,
        confirm=False,
    )
    alone = search()
    assert alone.failures
    assert len(alone.failures) == (2 if keep_going else 1)
    for workers in (2, 5):
        assert shape(search(workers=workers)) == shape(alone)


def test_a_failure_of_a_worker_is_worked_out_here() -> None:
    """Shrunk, told and confirmed as if it had been found in this process."""
    outcome = foretold.explore(programs.two_bugs, runs=400, seed=5, workers=2)
    failure = outcome.failure
    assert failure is not None
    assert str(failure.exception).startswith(("seven or eight", "nine"))
    assert failure.reproduced is True
    assert "number" in failure.story


def test_failures_of_one_kind_count_as_one() -> None:
    """With keep_going: one failure for each kind and place, with the number of runs that had it."""
    outcome = foretold.explore(programs.two_bugs, runs=400, seed=5, keep_going=True, confirm=False)
    assert outcome.runs == 400
    said = {str(failure.exception).split("\n")[0]: failure.times for failure in outcome.failures}
    assert set(said) == {"seven or eight", "nine"}
    assert said["seven or eight"] > 2


def test_a_closure_can_be_searched_by_workers() -> None:
    """Forks have the function itself: it needs no name."""
    limit = 3

    async def main() -> None:
        assert foretold.between(0, 9) < limit

    outcome = foretold.explore(main, runs=20, workers=2, confirm=False)
    assert outcome.failure is not None


def test_a_parent_with_threads_has_workers_too() -> None:
    """Another thread of the caller lives on, and no warning is shown (they are errors here)."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert foretold.explore(programs.holds, runs=60, workers=2).runs == 60
    finally:
        stop.set()
        thread.join()


def children() -> set[int]:
    """The children of this process, living or dead."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text("utf-8")
    return set(map(int, listed.split()))


def test_no_process_is_left() -> None:
    """Neither running nor as a zombie, however the campaign ends."""
    before = children()
    foretold.explore(programs.holds, runs=60, workers=3)
    failing = partial(foretold.explore, programs.two_bugs, shrink=False, confirm=False)
    assert failing(runs=400, seed=5, workers=3).failure is not None

    def press_ctrl_c(progress: foretold.Progress) -> None:
        if progress.runs > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        foretold.explore(programs.holds, runs=600, workers=3, on_progress=press_ctrl_c)
    assert children() == before


def test_a_worker_that_is_killed_once_loses_nothing(tmp_path: Path) -> None:
    """Its batch is made again by another; the report says so; the runs are the same."""
    marker = tmp_path / "marker"
    main = partial(programs.kills_once, marker)
    whole = foretold.explore(main, runs=200, workers=2, feedback=False)
    marker.touch()
    outcome = foretold.explore(main, runs=200, workers=2, feedback=False)
    assert not marker.exists()
    assert (outcome.runs, outcome.failures) == (200, [])
    assert outcome.virtual_s == whole.virtual_s
    [note] = outcome.worker_notes
    assert note.startswith("a worker died (killed by SIGKILL) over run ")


def test_a_run_that_kills_its_worker_twice_is_a_failure(tmp_path: Path) -> None:
    """It is named by its seed and its tape is kept; this process does not run it."""
    outcome = foretold.explore(programs.kills_always, runs=300, seed=1, workers=2, save_to=tmp_path)
    failure = outcome.failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.WorkerDied)
    assert "the run ends the process it is made in: killed by SIGKILL" in str(failure.exception)
    assert failure.saved_as is not None
    assert outcome.runs == failure.run


def test_workers_die_with_a_parent_that_is_killed() -> None:
    """Nobody goes on searching for nobody: the pipe that all of them hold is closed."""
    reading, writing = os.pipe()
    code = (
        "import os, signal, foretold\n"
        "from tests.search import campaign_programs as programs\n"
        "def kill(progress):\n"
        "    if progress.runs > 50: os.kill(os.getpid(), signal.SIGKILL)\n"
        "foretold.explore(programs.holds, runs=10**6, workers=2, on_progress=kill)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        pass_fds=[writing],
        capture_output=True,
        check=False,
        timeout=100,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"", "it ends when the last of them is gone"
    assert done.returncode == -9, done.stderr.decode()


class Inline(Executor):
    """The smallest executor there is: makes everything at once, here."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.batches.append(len(args[1]))
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_any_executor_will_do() -> None:
    """The seam is `concurrent.futures.Executor`: what is found there is what is found here."""
    search = partial(foretold.explore, programs.two_bugs, runs=300, seed=7, confirm=False)
    inline = Inline()
    assert shape(search(executor=inline)) == shape(search())
    assert max(inline.batches) > 1


def test_a_pool_is_an_executor() -> None:
    """Results, exceptions (also those that cannot be sent) and futures that are cancelled."""

    class Odd(Exception):
        def __init__(self, one: object, two: object) -> None:
            super().__init__("odd")

    def fail() -> None:
        raise Odd(1, 2)

    with ForkPool(2) as pool:
        assert pool.submit(pow, 2, 10).result() == 1024
        assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]
        assert isinstance(pool.submit(int, "x").exception(), ValueError)
        with pytest.raises(foretold.WorkerDied, match="exit code 3"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(pow, 2, 3).result() == 8
    with pytest.raises((AttributeError, pickle.PicklingError)):  # the latter since 3.14
        pool.submit(fail)  # pickle says so at once: a local function has no name


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "executor": ({"executor": "threads"}, "executor is 'processes', or the address of a Dask"),
    "workers": ({"workers": 0}, "workers is a whole number"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_arguments_are_explained(mistake: str) -> None:
    """Each has an error that says what to write instead."""
    arguments, words = WRONG[mistake]
    with pytest.raises(foretold.UsageError, match=words):
        foretold.explore(programs.holds, runs=3, **arguments)


def test_workers_elsewhere_need_a_name() -> None:
    """A closure cannot be imported by a worker that is no fork of this process."""

    async def main() -> None:
        await programs.holds()

    with pytest.raises(foretold.UsageError, match="at the top of a module"):
        foretold.explore(main, runs=3, executor=Inline())


def test_a_future_of_the_pool_has_a_time_limit() -> None:
    """`result(timeout)` and `exception(timeout)` give up, as those of every executor do; what was
    asked for goes on, and can be waited for again."""
    reading, writing = os.pipe()
    with ForkPool(1) as pool:
        future = pool.submit(os.read, reading, 1)
        for wait in (future.result, future.exception):
            with pytest.raises(TimeoutError):
                wait(timeout=0)
        os.write(writing, b"x")
        assert future.result() == b"x"
    os.close(reading)
    os.close(writing)
