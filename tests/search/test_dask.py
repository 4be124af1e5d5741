"""A Dask cluster makes the same runs as this process, and finds the same failures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.workers import executors
from tests.search import campaign_programs as programs

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # what Dask warns about is not ours


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster of two processes on this machine."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=2,  # two threads want the process's one world: they take turns
        dashboard_address=None,
        env={"PYTHONPATH": str(Path(foretold.__file__).parents[1])},
    ) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def shape(outcome: Any) -> Any:
    """What must not depend on who made the runs."""
    failures = [(f.signature, f.seed, f.run, f.times) for f in outcome.failures]
    return outcome.runs, failures, outcome.coverage.reached, outcome.coverage.growth


def test_the_same_runs_and_the_same_failures(address: str) -> None:
    """Only verdicts, digests and what was reached come back; the failure is worked out here."""
    search = partial(
        foretold.explore, programs.two_bugs, runs=300, seed=5, keep_going=True, confirm=False
    )
    there = search(executor=address, workers=2)
    assert shape(there) == shape(search())
    assert len(there.failures) == 2
    said = {str(failure.exception).split("\n")[0] for failure in there.failures}
    assert said == {"seven or eight", "nine"}
    assert there.failures[0].story


def test_no_scheduler_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nobody answers is an error of usage."""
    monkeypatch.setattr(executors, "CONNECT_S_MAX", 0.1)
    with pytest.raises(foretold.UsageError, match="there is no Dask scheduler at"):
        foretold.explore(programs.holds, runs=3, executor="dask://nowhere.invalid:1")
