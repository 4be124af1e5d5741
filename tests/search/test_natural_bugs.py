"""The benchmark of natural bugs: what it compares with, and that its cases fit together.

How many runs each case needs is measured by `benchmarks/natural/run.py`, which installs releases.
Here are only the cases that need none, because the class with the bug is written out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "natural"
WRITTEN_OUT = ["cpython_condition", "cpython_lock", "cpython_queue", "cpython_wait_for"]


@pytest.fixture
def natural(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmark, which is a program and no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_bug_is_found_and_its_repair_is_silent(natural: Callable[[str], Any], name: str) -> None:
    """In few runs of a pinned search, and in none of the repaired program."""
    case = natural("measure").load(name)
    how: Any = {"seed": 11, "shrink": False, "confirm": False}
    assert foretold.explore(case.main, runs=60, **how).failure
    assert not foretold.explore(case.repaired, runs=40, **how).failure


def test_chance_repeats_itself_and_finds_them_too(natural: Callable[[str], Any]) -> None:
    """The loop that is measured beside ours: the same seed needs the same number of runs."""
    uniform, case = natural("uniform"), natural("measure").load("cpython_lock")
    needed = [uniform.runs_needed(case.main, seed, 100) for seed in (1, 1, 2, 3)]
    assert needed[0] == needed[1]
    assert len(set(needed)) > 1
    assert all(each <= 100 for each in needed)
    assert uniform.runs_needed(case.repaired, 1, 40) == float("inf")


def test_every_case_says_what_it_is(natural: Callable[[str], Any]) -> None:
    """Which set it belongs to; releases with and without the bug, or classes."""
    cases = natural("run").cases()
    assert len([case for case in cases if case.kind == "five"]) == 5
    assert len(cases) >= 25
    for case in cases:
        text = (FOLDER / "cases" / f"{case.name}.py").read_text(encoding="utf-8")
        assert case.title
        assert bool(case.buggy) == bool(case.fixed)
        assert case.buggy or "async def repaired()" in text, case.name
