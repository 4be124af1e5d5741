"""How many runs a search needs, by strategy: the small buggy programs of the tests, lost updates.

    python benchmarks/search.py [--searches 5] [--runs 1000] [--output build/search.json]

For each strategy: how many of the programs it finds in so many runs, and the median of the runs it
needs. Then how the portfolio stands to the best single strategy, program by program; and the mean
number of runs until a lost update is found, beside a plain random search.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import foretold
from tests.search.programs.catalogue import BUGS
from tests.search.programs.lost_updates import lost_update, lost_update_tcp

SINGLE = ("fifo", "random", "pct", "pos", "surw", "delays")
LOST_UPDATES = {2: 5, 4: 8, 8: 12, 16: 20}
"""By how many steps one overtakes the other: the mean number of runs that is promised."""
TCP_BAR = 40
WITHIN = 3
"""The portfolio's median is to be within so many times that of the best single strategy."""
SEED_GAP = 10_007


def runs_needed(main: Callable[..., Any], strategy: str, searches: int, runs: int) -> list[float]:
    """The runs that each search needed; infinity if it found nothing."""
    needed = []
    for number in range(1 if strategy == "fifo" else searches):  # it always makes the same runs
        outcome = foretold.explore(
            main, runs=runs, seed=number * SEED_GAP, strategy=strategy, shrink=False, confirm=False
        )
        needed.append(outcome.runs if outcome.failure else float("inf"))
    return needed


def measure_programs(searches: int, runs: int) -> dict[str, dict[str, float]]:
    """The median number of runs, by program and strategy."""
    medians: dict[str, dict[str, float]] = {}
    for name, program in BUGS.items():
        main = functools.partial(program, False)
        medians[name] = {
            strategy: statistics.median(runs_needed(main, strategy, searches, runs))
            for strategy in ("portfolio", *SINGLE)
        }
        cells = "  ".join(f"{strategy} {median:g}" for strategy, median in medians[name].items())
        print(f"  {name:28} {cells}", flush=True)
    return medians


def summary(medians: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What is promised about the portfolio, and what is."""
    rows: dict[str, Any] = {}
    for strategy in ("portfolio", *SINGLE):
        found = [each[strategy] for each in medians.values() if each[strategy] < float("inf")]
        rows[strategy] = {
            "found": f"{len(found)} of {len(medians)}",
            "median_runs": statistics.median(found) if found else None,
        }
    close = [
        name
        for name, each in medians.items()
        if each["portfolio"] <= WITHIN * min(each[strategy] for strategy in SINGLE)
    ]
    share = len(close) / len(medians)
    rows["portfolio_within_3_of_best"] = {"share": round(share, 3), "bar": 0.9, "met": share >= 0.9}
    return rows


def measure_lost_updates(searches: int) -> dict[str, Any]:
    """Mean runs until found, beside a plain random search."""
    rows: dict[str, Any] = {}
    bugs: list[tuple[str, Callable[..., Any], int]] = [
        (f"lost_update_{k}", functools.partial(lost_update, k), bar)
        for k, bar in LOST_UPDATES.items()
    ]
    for name, main, bar in [*bugs, ("lost_update_tcp", lost_update_tcp, TCP_BAR)]:
        ours = statistics.mean(runs_needed(main, "portfolio", searches, 2_000))
        plain = [min(each, 2_000) for each in runs_needed(main, "random", searches, 2_000)]
        rows[name] = {
            "portfolio": round(ours, 1),
            "random": round(statistics.mean(plain), 1),
            "bar": bar,
            "met": ours <= bar,
        }
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    print("median runs until found, by program:")
    medians = measure_programs(options.searches, options.runs)
    rows = summary(medians) | measure_lost_updates(30)
    for name, row in rows.items():
        print(f"{name:28} {row}")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"medians": medians, **rows}, indent=2))


if __name__ == "__main__":
    main()
