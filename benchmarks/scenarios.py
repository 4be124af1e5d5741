"""What a scenario costs at a load of 1, 10 and 100 copies: steps a second, and memory.

    PYTHONPATH=. python benchmarks/scenarios.py [--runs 20] [--output build/scenarios.json]

The kitchen's rush hour in memory: each copy plays six steps, its assertions and reactions included.
A step should cost the same whatever the load is, and so should a run's memory for each copy. The
bar is the share that is left of the steps a second at load 1, in processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import foretold
from foretold.search.workers.targets import find_scenario

LOADS = (1, 10, 100)
STEPS_OF_A_COPY = 6
LEFT_MIN = 0.5
FILE = "examples/kitchen/scenarios/rush_hour.scenario.yaml"


def steps_a_second(load: int, runs: int) -> float:
    """Of a search."""
    program = find_scenario(FILE)
    settings: dict[str, Any] = {"load": load, "wiring": "memory", "confirm": False}
    foretold.explore(program, runs=2, **settings)  # imports, caches
    started = time.process_time()
    outcome = foretold.explore(program, runs=runs, seed=1, **settings)
    taken_s = time.process_time() - started
    assert outcome.failure is None
    return outcome.runs * load * STEPS_OF_A_COPY / taken_s


def memory_of_a_copy(load: int) -> float:
    """The most that a run has allocated at once, in KiB, divided by its copies."""
    program = find_scenario(FILE)
    foretold.run(program, load=load, wiring="memory")
    tracemalloc.start()
    foretold.run(program, load=load, wiring="memory")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024 / load


def main() -> int:
    """Measure, print, and say whether the bar was met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    alone = 0.0
    for load in LOADS:
        rate = steps_a_second(load, max(3, given.runs * 10 // load))
        alone = alone or rate
        memory = memory_of_a_copy(load)
        met = rate >= alone * LEFT_MIN
        figures[f"load {load}"] = {
            "steps_per_s": round(rate), "kib_per_copy": round(memory, 1), "met": met,
        }  # fmt: skip
        print(
            f"  load {load:4}   {rate:8,.0f} steps a second   {memory:8.1f} KiB a copy", flush=True
        )
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0 if all(each["met"] for each in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
