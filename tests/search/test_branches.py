"""`feedback="branches"`: branches that runs take in the user's own code guide the search."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel.branches import BRANCH, Branches
from foretold.kernel.reach import Feature
from foretold.search.planning.feedback import Coverage, Sieve
from foretold.tape import Tape
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from tests.report.programs import environment
from tests.search import campaign_programs as programs

SEARCHES = 20
RUNS = 1_000


def branches_of(main: Any, watcher: Branches, seed: int = 0, **settings: Any) -> set[Feature]:
    """What one run takes."""
    chosen = Settings().with_changes(**settings)
    tape = Tape.seeded(seed, chosen.on_tape())
    done = execute(bind_main(main), tape, chosen, branches=watcher)
    assert done.digest == execute(bind_main(main), tape, chosen).digest, "watching changes nothing"
    return {feature for feature in done.features if feature[0] == BRANCH}


def tools() -> list[Any]:
    """Everything that could be left: tools of sys.monitoring, and the trace function."""
    monitoring = getattr(sys, "monitoring", None)
    named = [] if monitoring is None else [monitoring.get_tool(tool) for tool in range(6)]
    return [*named, sys.gettrace(), threading.gettrace()]


def found_with(feedback: Any, searches: int) -> int:
    """How many of so many searches find the bug behind three nested branches."""
    return sum(
        foretold.explore(
            programs.nested,
            runs=RUNS,
            seed=seed * 10**6,
            shrink=False,
            confirm=False,
            feedback=feedback,
        ).failure
        is not None
        for seed in range(searches)
    )


def test_branches_lead_the_search() -> None:
    """Of five searches for what lies behind three nested branches most find it (15 of 20 do), and
    nothing is left of the watching."""
    before = tools()
    assert found_with("branches", 5) >= 3
    assert tools() == before


@pytest.mark.soak
def test_nested_branches_are_a_ladder() -> None:
    """Behind three values of sixteen each, 4,096 runs away by chance: of 20 searches with 1,000
    runs, 6 find it (chance would have it so in 4 or 5), and 15 with branches."""
    assert found_with(True, SEARCHES) <= 7
    assert found_with("branches", SEARCHES) >= 13


def two_ways() -> None:
    """Goes one way or the other, and round a loop."""
    if foretold.between(0, 1, "way"):
        foretold.sometimes(True, "one")
    else:
        foretold.sometimes(True, "other")
    for _ in range(3):
        pass
    json.loads("[1, 2]")


def test_what_a_run_took_does_not_depend_on_those_before() -> None:
    """Each seed has its branches, in any order of the runs, and both ways are different ones; all
    of them in the user's own code."""
    fresh = [branches_of(two_ways, Branches(), seed) for seed in range(12)]
    assert len(set(map(frozenset, fresh))) == 2
    watcher = Branches()
    again = {seed: branches_of(two_ways, watcher, seed) for seed in reversed(range(12))}
    assert [again[seed] for seed in range(12)] == fresh
    assert all(feature[1].startswith(f"{__file__}:") for each in fresh for feature in each)


@pytest.mark.parametrize("installed_once", [True, False])
def test_what_is_left_out_was_told_often_enough(installed_once: bool) -> None:
    """With a limit, a branch is watched no more at some time. What a sieve lets through, and so
    news and estimates, are the same with and without."""
    runs = [seed % 7 for seed in range(60)]
    plain, limited, sieve = Coverage(), Coverage(), Sieve()
    watcher = Branches(told_max=3)
    left_out = 0

    def look() -> None:
        nonlocal left_out
        for seed in runs:
            full, less = (branches_of(two_ways, each, seed) for each in (Branches(), watcher))
            assert less <= full
            left_out += len(full - less)
            assert plain.add(full) == limited.add(sieve(less))

    if installed_once:
        with watcher.installed():
            look()
        assert left_out or sys.version_info < (3, 12)
    else:
        look()
    assert (plain.unseen, plain.per_run) == (limited.unseen, limited.per_run)


def test_libraries_only_if_asked_for() -> None:
    """Branches of the modules named, and then of those alone; never of foretold itself."""
    files = {feature[1].split(":")[0] for feature in branches_of(two_ways, Branches(["json"]))}
    assert files
    assert all(Path(file).parent.name == "json" for file in files)
    assert not branches_of(two_ways, Branches(["foretold"]))


@pytest.mark.parametrize(("isolation", "runs"), [(None, 150), ("fork", 40)])
def test_workers_change_nothing(isolation: str | None, runs: int) -> None:
    """The same runs, the same things reached, with one worker and with two, in forks or not."""
    outcomes = [
        foretold.explore(
            programs.nested, runs=runs, seed=3, feedback="branches", workers=n, isolation=isolation
        )
        for n in (1, 2)
    ]
    one, two = (outcome.coverage for outcome in outcomes)
    assert outcomes[0].failure is None
    assert one.reached == two.reached > 2
    assert (one.growth, one.unseen, one.per_run) == (two.growth, two.unseen, two.per_run)


def racing() -> None:
    """Two threads lose an update between two lines, but only behind a branch."""
    total = 0

    def add() -> None:
        nonlocal total
        if foretold.between(0, 1, "twice"):
            seen = total
            total = seen + 1

    threads = [threading.Thread(target=add, name=f"adder {n}") for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_beside_preempted_lines() -> None:
    """Both watch at once, in all threads: lines are points, branches are told, nothing is left."""
    before = tools()
    told: set[Feature] = set()
    for seed in range(8):
        first = branches_of(racing, Branches(), seed, preempt="lines")
        assert first == branches_of(racing, Branches(), seed, preempt="lines")
        told |= first
    assert {"add" in feature[1] for feature in told} == {True, False}
    assert tools() == before
    outcome = foretold.explore(racing, runs=20, preempt="lines", feedback="branches")
    assert outcome.failure is None
    assert tools() == before


COVERED = '''\
"""Is measured while it is explored."""

import coverage

measure = coverage.Coverage(data_file=None, branch=True, include=["*/measured.py"])
measure.start()
import foretold
import measured

outcome = foretold.explore(measured.main, runs=40, seed=1, feedback="branches", workers=1)
measure.stop()
_, lines, _, missing, _ = measure.analysis2(measured)
print(outcome.coverage.kinds, "|", outcome.notes, "|", missing)
'''
MEASURED = '''\
"""Two ways."""

import foretold


def main():
    if foretold.between(0, 1, "way"):
        foretold.sometimes(True, "one")
    else:
        foretold.sometimes(True, "other")
    if foretold.between(0, 1, "way") == 2:
        raise AssertionError
'''


@pytest.mark.parametrize("core", ["ctrace", "sysmon"])
def test_beside_a_measure_of_coverage(tmp_path: Path, core: str) -> None:
    """coverage.py sees every line that was run and none else, and so do we; on Python 3.11, where
    there is one trace function, it is left to coverage.py and that is said."""
    old = sys.version_info < (3, 12)
    if old and core == "sysmon":
        pytest.skip("there is none on Python 3.11")
    (tmp_path / "measured.py").write_text(MEASURED)
    (tmp_path / "cover.py").write_text(COVERED)
    done = subprocess.run(
        [sys.executable, "cover.py"],
        cwd=tmp_path,
        env=environment(COVERAGE_CORE=core, PYTHONWARNINGS="ignore", PYTHONHASHSEED="0"),
        capture_output=True,
        text=True,
        check=True,
    )
    kinds, notes, missing = done.stdout.strip().split(" | ")
    assert missing == "[12]"
    assert kinds.endswith("branches") is not old
    assert ("one trace function" in notes) is old


@pytest.mark.parametrize("wrong", ["branch", "branches:", "branches: a b", 1, None, ["shop"]])
def test_wrong_feedback_is_refused(wrong: Any) -> None:
    """With a sentence that shows the right way, by explore and by simulate."""
    with pytest.raises(foretold.UsageError, match="feedback is True, False,"):
        foretold.explore(two_ways, runs=1, feedback=wrong)
    with pytest.raises(foretold.UsageError, match="feedback is True, False,"):
        foretold.simulate(feedback=wrong)(two_ways)


def test_all_tools_in_use() -> None:
    """A sentence; and nothing is left half done."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        pytest.skip("there is none on Python 3.11")
    taken = [tool for tool in (2, 3, 4, 5) if monitoring.get_tool(tool) is None]
    for tool in taken:
        monitoring.use_tool_id(tool, "others")
    try:
        with pytest.raises(foretold.UsageError, match="all are in use"):
            foretold.explore(two_ways, runs=2, feedback="branches")
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)
    assert foretold.explore(two_ways, runs=2, feedback="branches").runs == 2
