"""One tape, one run: in every process, whatever its hash seed, its memory and its past.

This is the promise that everything else stands on. Fresh processes with random hash seeds run all
programs; what they saw must be equal. A planted leak shows that the comparison can fail.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import foretold
from foretold.kernel.session import session
from foretold.trace import raised
from tests.determinism.child import Seen, observed
from tests.determinism.programs import FREE, PLANTED, PROGRAMS
from tests.helpers import PLANS, SOAK_FACTOR

ROOT = Path(__file__).parents[2]


def fresh_processes(count: int, seeds: int, *words: str) -> list[Seen]:
    """What so many processes saw, two of them at a time."""
    waiting, seen = list(range(count)), []
    while waiting:
        batch = [_start(waiting.pop(0), seeds, *words) for _ in range(min(2, len(waiting)))]
        seen += [_result(process) for process in batch]
    return seen


def _start(number: int, seeds: int, *words: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.determinism.child", str(number), str(seeds), *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "random"},
        stdout=subprocess.PIPE,
        text=True,
    )


def _result(process: subprocess.Popen[str]) -> Seen:
    output, _ = process.communicate()
    assert process.returncode == 0
    return {name: (pair[0], pair[1]) for name, pair in json.loads(output).items()}


def differing(seen: list[Seen]) -> list[str]:
    """The runs that were not the same in all processes."""
    return [name for name in seen[0] if len({one[name] for one in seen}) > 1]


def names_of(runs: list[str]) -> set[str]:
    """The programs among the names of runs."""
    return {run.split()[0] for run in runs}


def check_processes(count: int, seeds: int) -> None:
    """All processes, and this one, saw the same digests and the same results."""
    seen = fresh_processes(count, seeds)
    here = dict(observed(PROGRAMS, seeds))
    assert len(here) == len(PROGRAMS) * len(PLANS) * seeds
    assert differing([*seen, here]) == []


def test_fresh_processes_agree() -> None:
    """Digest and result of each program, on each tape, are those of every other process.

    Verified in two fresh interpreters with random hash seeds, and in this one, which has a long
    past and other modules in memory.
    """
    check_processes(2, seeds=2)


@pytest.mark.soak
def test_twenty_fresh_processes_agree() -> None:
    """The same with the count that the project promises: 20 processes, and many more seeds."""
    check_processes(20, seeds=SOAK_FACTOR)


def test_planted_leaks_are_noticed() -> None:
    """Planted: the order of strings in a set, and of objects by address, differ between processes.

    If this finds nothing, the comparison above proves nothing.
    """
    assert names_of(differing(fresh_processes(4, 1, "planted"))) == set(PLANTED)


def test_a_message_that_names_threads_has_no_numbers_of_theirs() -> None:
    """`sqlite3` says which thread made a connection and which one uses it, by numbers of the
    system. Verified on an error that it raises, so a new wording is noticed."""
    database = sqlite3.connect(":memory:")
    with ThreadPoolExecutor(1) as other:
        error = other.submit(database.execute, "select 1").exception()
    database.close()
    assert isinstance(error, sqlite3.ProgrammingError)
    assert re.search("[0-9]{6}", str(error))
    assert re.search("[0-9]{6}", str(raised(error))) is None


def test_there_are_enough_programs() -> None:
    """Thirty different programs are promised, and most of them leave the order open."""
    assert len(PROGRAMS) >= 30
    assert len(FREE) >= 20


def test_other_seeds_give_other_schedules() -> None:
    """A search that always takes the same schedule finds nothing.

    For programs whose result shows the order of steps: of 24 seeds under random order, several
    results; so the calm order of stock asyncio is not the only one.
    """
    with session():
        for name in FREE:
            results = {repr(foretold.run(PROGRAMS[name], seed=seed).value) for seed in range(24)}
            assert len(results) >= 3, name


def test_the_digest_tells_schedules_apart() -> None:
    """Different results never share a digest: else equal digests would prove nothing."""
    values: dict[str, set[str]] = defaultdict(set)
    with session():
        for _, (digest, value) in observed({name: PROGRAMS[name] for name in FREE}, 12):
            values[digest].add(value)
    assert [digest for digest, found in values.items() if len(found) > 1] == []
    assert max(Counter(len(found) for found in values.values())) == 1
