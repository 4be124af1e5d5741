"""Real libraries, one tape, one run: in every fresh process, whatever its hash seed.

Libraries keep sets, module-wide counters, caches and weak references of their own; here it shows
that none of them decides anything. The certificates are the same for all processes. Each process
runs all scenarios, and one that was made to differ: the comparison can fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat import tls
from tests.compat.child import load
from tests.compat.scene import ORDERS, SCENARIOS, SEEDS, check
from tests.helpers import SOAK_FACTOR

ROOT = Path(__file__).parents[2]
PROCESSES = 5
PROCESSES_IN_SHORT = 2

load()


def digests_of_processes(folder: Path, seeds: int, processes: int) -> list[dict[str, str]]:
    """What each of the processes saw; two run at a time."""
    tls.save(folder)
    waiting, seen = list(range(processes)), list[dict[str, str]]()
    while waiting:
        batch = [_start(folder, seeds) for _ in waiting[:2]]
        waiting = waiting[2:]
        outputs = [process.communicate()[0] for process in batch]
        assert [process.returncode for process in batch] == [0] * len(batch)
        seen += map(json.loads, outputs)
    return seen


def _start(folder: Path, seeds: int) -> subprocess.Popen[str]:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    more = {"PYTHONPATH": path, "PYTHONHASHSEED": "random", tls.FOLDER: str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.compat.child", str(seeds)],
        cwd=ROOT,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        text=True,
    )


def differing(seen: list[dict[str, str]]) -> dict[str, int]:
    """The runs that were not the same in all processes, and how many digests each has."""
    counts = {run: len({one[run] for one in seen}) for run in seen[0]}
    return {run: count for run, count in counts.items() if count > 1}


def check_processes(folder: Path, seeds: int, processes: int = PROCESSES) -> None:
    """All runs were the same in all processes, except those of the planted scenario."""
    seen = digests_of_processes(folder, seeds, processes)
    assert len(seen) == processes
    assert len(seen[0]) == len(ORDERS) * seeds * (len(SCENARIOS) + 1)
    found = differing(seen)
    assert {run for run in found if not run.startswith("planted ")} == set()
    assert len(found) == len(ORDERS) * seeds


def test_fresh_processes_agree(tmp_path: Path) -> None:
    """Each scenario, in both orders, has the same digest in two processes."""
    check_processes(tmp_path, seeds=1, processes=PROCESSES_IN_SHORT)


@pytest.mark.soak
def test_five_fresh_processes_agree_on_fifty_seeds(tmp_path: Path) -> None:
    """The count that the project promises: one digest per seed, for every scenario."""
    check_processes(tmp_path, seeds=max(SEEDS, SOAK_FACTOR))


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_on_fifty_seeds(name: str) -> None:
    """The count that the project promises, for all scenarios: 50 seeds, both orders."""
    check(SCENARIOS[name], range(max(SEEDS, SOAK_FACTOR)))


def test_every_library_is_here() -> None:
    """A test file that was renamed or not collected would go unnoticed otherwise."""
    assert {name.partition(".")[0] for name in SCENARIOS} == {
        "aiohttp",
        "aiosmtplib",
        "anyio",
        "executors",
        "external",
        "fastapi",
        "grpclib",
        "http2",
        "nats",
        "postgres",
        "psycopg",
        "psycopg2",
        "redis",
        "requests",
        "threads_fastapi",
        "sqlite",
        "web_django",
        "web_fastapi",
        "web_litestar",
        "websockets",
    }
