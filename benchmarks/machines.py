"""What a machine costs beyond the application's own time, per rule call.

    python benchmarks/machines.py [--runs 200] [--output build/machines.json]

Each machine does nothing in its rules, so that all time is the machine's: choosing who does what,
drawing arguments, tasks, invariants, counting. The bar is a millisecond a call, of processor time,
so that a busy machine does not matter; the last figure is what a task costs without any machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import foretold

BAR_US = 1_000.0
CALLS_WITHOUT = 10_000


class Plain(foretold.Machine):
    """No arguments, one actor, plain functions."""

    steps = 100
    applied = 0

    @foretold.rule()
    def one(self) -> None:
        Plain.applied += 1

    @foretold.rule()
    def two(self) -> None:
        Plain.applied += 1


class Rich(foretold.Machine):
    """Async rules of four actors with arguments, bundles, preconditions, and an invariant."""

    actors = 4
    steps = 100
    applied = 0
    things = foretold.Bundle[int]("things")

    @foretold.rule(target=things, n=st.integers(0, 1_000), text=st.text(max_size=10))
    async def make(self, n: int, text: str) -> int:
        Rich.applied += 1
        await asyncio.sleep(0.01)
        return n

    @foretold.rule(thing=things, flag=st.booleans(), some=st.lists(st.integers(0, 9), max_size=5))
    @foretold.precondition(lambda self: True)
    async def use(self, actor: foretold.Actor, thing: int, flag: bool, some: list[int]) -> None:
        Rich.applied += 1
        await asyncio.sleep(0.001)

    @foretold.rule(thing=foretold.consumes(things))
    async def drop(self, thing: int) -> None:
        Rich.applied += 1

    @foretold.invariant()
    def holds(self) -> int:
        return 1


def measure(machine: Any, runs: int) -> float:
    """Microseconds for each call."""
    foretold.explore(machine, runs=5, confirm=False)  # imports, caches
    machine.applied = 0
    started = time.process_time()
    outcome = foretold.explore(machine, runs=runs, seed=1_000, confirm=False)
    taken_s = time.process_time() - started
    assert outcome.failure is None
    return taken_s / machine.applied * 1e6


def without_a_machine() -> float:
    """Microseconds for a task that sleeps once, as the rules of `Rich` do."""

    async def work() -> None:
        await asyncio.sleep(0.01)

    async def main() -> None:
        for _ in range(CALLS_WITHOUT):
            await asyncio.create_task(work())

    started = time.process_time()
    foretold.run(main)
    return (time.process_time() - started) / CALLS_WITHOUT * 1e6


def main() -> int:
    """Measure, print, and say whether the bar was met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, machine in (("plain rules", Plain), ("async rules, 4 actors, arguments", Rich)):
        us = measure(machine, given.runs)
        figures[name] = {"us_per_call": round(us, 1), "bar_us": BAR_US, "met": us < BAR_US}
        print(f"  {name:34} {us:8.1f} µs a call   (bar {BAR_US:,.0f} µs)", flush=True)
    bare_us = without_a_machine()
    figures["a task without a machine"] = {"us_per_call": round(bare_us, 1)}
    print(f"  {'a task without a machine':34} {bare_us:8.1f} µs a call")
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0 if all(each.get("met", True) for each in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
