"""One case, in a process of its own that imports the release which is asked for.

    python benchmarks/natural/measure.py CASE search|uniform|soak SEARCHES RUNS

Prints what came of it as JSON.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uniform

import foretold

CASES = Path(__file__).resolve().parent / "cases"


def load(name: str) -> ModuleType:
    """The module of a case."""
    spec = importlib.util.spec_from_file_location(f"natural_{name}", CASES / f"{name}.py")
    assert spec is not None, "cases are files"
    assert spec.loader is not None, "and Python can read them"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def seed_of(name: str, number: int) -> int:
    """Independent of that of any other search."""
    return int.from_bytes(hashlib.sha256(f"{name}/{number}".encode()).digest()[:5], "big")


def search(name: str, main: Callable[[], Any], searches: int, runs: int) -> dict[str, Any]:
    """The runs that each search needed, and what is said about stock asyncio."""
    needed: list[float | None] = []
    label: Any = None
    for number in range(searches):
        outcome = foretold.explore(
            main, runs=runs, seed=seed_of(name, number), shrink=False, confirm=False
        )
        needed.append(outcome.runs if outcome.failure else None)
        if outcome.failure and label is None:
            label = _label(main, seed_of(name, number), runs)
    return {"runs": needed, "stock": label}


def _label(main: Callable[[], Any], seed: int, runs: int) -> str:
    failure = foretold.explore(main, runs=runs, seed=seed, confirm=False).failure
    assert failure is not None, "the same search finds the same"
    seen = {True: "seen", False: "excluded", None: "not seen"}[failure.stock_asyncio]
    return f"{seen}: {str(failure.exception).splitlines()[0][:60] or type(failure.exception)}"


def by_chance(name: str, main: Callable[[], Any], searches: int, runs: int) -> dict[str, Any]:
    """The same with the uniform loop."""
    needed = [uniform.runs_needed(main, seed_of(name, n), runs) for n in range(searches)]
    return {"runs": [None if each == float("inf") else each for each in needed]}


def soak(name: str, main: Callable[[], Any], searches: int, runs: int) -> dict[str, Any]:
    """What a repaired release does wrong in so many runs: nothing, it is hoped."""
    for number in range(searches):
        outcome = foretold.explore(main, runs=runs, seed=seed_of(f"fixed {name}", number))
        if outcome.failure:
            return {"failed": str(outcome.failure.exception), "story": str(outcome.failure.story)}
    return {"failed": None}


def main() -> None:
    """Measure one case."""
    name, what, searches, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    case = load(name)
    program = case.main
    if what == "soak":
        program = getattr(case, "repaired", program)
    how = {"search": search, "uniform": by_chance, "soak": soak}[what]
    print(json.dumps(how(name, program, searches, runs)))


if __name__ == "__main__":
    main()
