"""Measures campaigns: two workers against one, a Dask cluster against forked processes.

    python benchmarks/campaign.py

The parts of each comparison take turns, and the best of several rounds counts. A machine without
two free processors cannot show what two workers are worth. So two things are measured besides: what
it gives to two processes that merely count, and the processor time for a thousand runs.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import time
from typing import Any

from figures import row

import foretold

TASKS, TURNS = 6, 30
RUNS = 3_000
BAR_WORKERS, BAR_DASK = 1.6, 0.8


async def program() -> None:
    """A run of about a millisecond, as small tests are."""

    async def worker() -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    await foretold.together(*(worker() for _ in range(TASKS)))


def count_up() -> None:
    """Work that shares nothing with anybody."""
    for _ in range(10_000_000):
        pass


def machine(rounds: int) -> dict[str, Any]:
    """How much faster two processes are than one, on this machine and at this time."""
    alone = together = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        count_up()
        count_up()
        alone = min(alone, time.perf_counter() - began)
        began = time.perf_counter()
        processes = [multiprocessing.get_context("fork").Process(target=count_up) for _ in "12"]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        together = min(together, time.perf_counter() - began)
    return row(1_000 / together, 1_000 / alone, None)


def measured(runs: int, **how: Any) -> tuple[float, float]:
    """Runs per second, and seconds of processor time per thousand runs, children included."""
    before, began = os.times(), time.perf_counter()
    outcome = foretold.explore(program, runs=runs, seed=1, **how)
    taken, after = time.perf_counter() - began, os.times()
    assert outcome.runs == runs
    return runs / taken, sum(after[:4]) - sum(before[:4])


def best(rounds: int, runs: int, ways: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The best rate and the least processor time of each way, all taking turns."""
    found = dict.fromkeys(ways, (0.0, float("inf")))
    for _ in range(rounds):
        for name, how in ways.items():
            rate, cpu_s = measured(runs, **how)
            found[name] = max(found[name][0], rate), min(found[name][1], cpu_s / runs * 1_000)
    return found


def measure_campaign(rounds: int, runs: int = RUNS) -> dict[str, Any]:
    """Workers against one process; Dask against workers, if it is installed."""
    ways: dict[str, dict[str, Any]] = {"one": {}, "two": {"workers": 2}}
    found = best(rounds, runs, ways)
    rows = {"machine_2_processes_against_1": machine(rounds)}
    rows |= {"campaign_2_workers_against_1": row(found["two"][0], found["one"][0], BAR_WORKERS)}
    cost = found["two"][1] / found["one"][1]
    rows["campaign_2_workers_processor_time"] = {
        "ours": round(found["two"][1] * 1_000),
        "stock": round(found["one"][1] * 1_000),
        "ratio": round(cost, 3),
        "bar": round(2 / BAR_WORKERS, 2),
        "met": cost <= 2 / BAR_WORKERS,
    }
    try:
        import distributed
    except ImportError:
        return rows
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as all_:
        address = all_.scheduler_address.replace("tcp://", "dask://")
        ways = {"pool": {"workers": 2}, "dask": {"workers": 2, "executor": address}}
        measured(200, **ways["dask"])  # a cluster's workers have to import the program first
        found = best(rounds, 2 * runs, ways)
    rows["campaign_dask_against_processes"] = row(found["dask"][0], found["pool"][0], BAR_DASK)
    return rows


if __name__ == "__main__":
    from campaign import measure_campaign as by_name  # workers elsewhere know no `__main__`

    print(json.dumps(by_name(3), indent=2))
