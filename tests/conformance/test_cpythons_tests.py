"""Real code cannot tell the difference: CPython's own asyncio tests pass on our loop.

`test.test_asyncio` of the running Python, one module per child process, `order="asyncio"`; those
that use sockets each in a world of its own, on the simulated network. Only
tests in which our loop really took steps count; every exclusion stands in `exclusions.py` with its
reason. A Python without its `test` package (slim images) skips visibly.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import foretold
from tests.conformance.exclusions import (
    PYTHONS,
    TABLE,
    THIS_PYTHON,
    Exclusion,
    exclusions_here,
    parse,
)
from tests.conformance.judging import Tally, complaints, complaints_unverified, tally
from tests.conformance.redirect import IN_A_WORLD, LEFT_OUT, MODULES, STOCK_LOOPS

ROOT = Path(__file__).parents[2]
CHILD_S_MAX = 240

VERIFIED = ("3.11.7", "3.12.1", "3.13.0", "3.14.2")
"""The Pythons whose tests were looked at one by one. Other patch releases have some tests more or
less: there the counts are not compared, and a few unlisted failures are shown, not judged."""

STEPPED_LEAST = {  # on 3.11, 3.12, 3.13, 3.14: passed, and our loop took steps; 0: no such module
    "test_base_events": (70, 70, 71, 75),
    "test_buffered_proto": (1, 1, 1, 1),
    "test_context": (1, 1, 1, 1),
    "test_eager_task_factory": (0, 38, 39, 47),
    "test_events": (61, 61, 62, 66),
    "test_futures": (45, 45, 45, 45),
    "test_futures2": (3, 7, 7, 7),
    "test_graph": (0, 0, 0, 8),
    "test_locks": (70, 70, 75, 75),
    "test_pep492": (8, 8, 8, 8),
    "test_proactor_events": (22, 22, 22, 22),
    "test_queues": (44, 44, 59, 59),
    "test_runners": (25, 26, 28, 29),
    "test_selector_events": (7, 7, 7, 8),
    "test_sendfile": (19, 19, 19, 20),
    "test_server": (2, 4, 8, 11),
    "test_sock_lowlevel": (13, 13, 13, 13),
    "test_ssl": (21, 21, 21, 21),
    "test_sslproto": (12, 12, 12, 14),
    "test_staggered": (0, 0, 5, 7),
    "test_streams": (66, 66, 72, 73),
    "test_taskgroups": (35, 35, 39, 48),
    "test_tasks": (802, 826, 866, 898),
    "test_threads": (6, 6, 6, 6),
    "test_timeouts": (32, 32, 34, 34),
    "test_unix_events": (29, 29, 29, 39),
    "test_waitfor": (15, 19, 19, 19),
}


def where_cpythons_tests_are() -> Path:
    """The folder of `test.test_asyncio`; skips where there is none."""
    if THIS_PYTHON not in PYTHONS:
        pytest.skip(f"Python {THIS_PYTHON} is none of {', '.join(PYTHONS)}")
    try:
        spec = importlib.util.find_spec("test.test_asyncio")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        pytest.skip("this Python comes without its own tests (the package test.test_asyncio)")
    return Path(spec.origin).parent


def run_in_child(module: str, result: Path, *plant: str) -> list[dict[str, Any]]:
    """Run one module of CPython's tests on our loop, in a process of its own."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    sources = str(Path(foretold.__file__).parents[1])
    noise = result.with_suffix(".txt")
    with noise.open("wb") as output:  # no pipe: what a test leaves behind would hold it open
        done = subprocess.run(
            [sys.executable, "-m", "tests.conformance.child", module, str(result), *plant],
            cwd=result.parent,  # CPython's tests leave files if they are killed
            env={**here, "PYTHONPATH": f"{ROOT}{os.pathsep}{sources}", "PYTHONHASHSEED": "0"},
            stdout=output,
            stderr=output,
            timeout=CHILD_S_MAX,
            check=False,
        )
    said = noise.read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, f"the child failed:\n{said[-4_000:]}"
    rows: list[dict[str, Any]] = json.loads(result.read_text(encoding="utf-8"))
    return rows


def stepped_least(module: str) -> int:
    """The ratchet of one module on this Python."""
    return STEPPED_LEAST[module][PYTHONS.index(THIS_PYTHON)]


@pytest.mark.parametrize("module", MODULES)
def test_cpythons_own_tests_pass_on_our_loop(
    module: str, tmp_path: Path, tallies: list[Tally]
) -> None:
    """Each test that is not excluded passes, each exclusion is needed, and none gets lost."""
    if not (where_cpythons_tests_are() / f"{module}.py").exists():
        pytest.skip(f"Python {THIS_PYTHON} has no {module} yet")
    rows = run_in_child(module, tmp_path / "result.json")
    tallies.append(tally(module, rows, exclusions_here()))
    if platform.python_version() in VERIFIED:
        wrong = complaints(module, rows, exclusions_here(), stepped_least(module))
    else:
        wrong = complaints_unverified(module, rows, exclusions_here())
    assert not wrong, "\n\n".join(wrong)


def test_no_module_is_forgotten() -> None:
    """Each module of CPython's tests is either run or left out with a reason, and still exists."""
    named = set(MODULES) | set(LEFT_OUT)
    present = {path.stem for path in where_cpythons_tests_are().glob("test_*.py")}
    assert not set(MODULES) & set(LEFT_OUT)
    assert set(STOCK_LOOPS) | set(IN_A_WORLD) <= set(MODULES) == set(STEPPED_LEAST)
    if platform.python_version() in VERIFIED:
        not_yet = {name for name in MODULES if not stepped_least(name)}
        assert present == named - not_yet


def test_every_exclusion_is_about_a_module_that_is_run() -> None:
    """A line for another module or an unknown Python, or one that stands twice, is never missed."""
    entries = parse(TABLE)
    patterns = [entry.pattern for entry in entries]
    assert len(patterns) == len(set(patterns))
    for entry in entries:
        assert any(entry.is_about(module) for module in MODULES), entry.pattern
        assert set(entry.pythons) <= set(PYTHONS), entry.pattern


def test_a_loop_with_another_order_is_caught(tmp_path: Path) -> None:
    """Planted: a loop that runs the newest callback first. CPython's tests must notice."""
    where_cpythons_tests_are()
    rows = run_in_child("test_locks", tmp_path / "result.json", "last in, first out")
    failed = [row for row in rows if row["outcome"] == "failed"]
    assert len(failed) >= 5
    assert complaints("test_locks", rows, exclusions_here(), stepped_least=0)


def test_a_network_that_mixes_up_bytes_is_caught(tmp_path: Path) -> None:
    """Planted: sockets that give what they received back to front. CPython's tests must notice."""
    where_cpythons_tests_are()
    rows = run_in_child("test_sock_lowlevel", tmp_path / "result.json", "back to front")
    failed = [row for row in rows if row["outcome"] == "failed"]
    assert len(failed) >= 5
    assert complaints("test_sock_lowlevel", rows, exclusions_here(), stepped_least=0)


def row(test_id: str, outcome: str, steps: int = 1) -> dict[str, Any]:
    """What a child would write about one test."""
    return {"id": test_id, "outcome": outcome, "steps": steps, "message": "why"}


def test_wrong_results_are_caught() -> None:
    """Planted: a failure, an exclusion that passes, one that does not exist, and too few tests."""
    rows = [
        row("test_a.X.test_good", "passed"),
        row("test_a.X.test_no_loop", "passed", steps=0),
        row("test_a.X.test_bad", "failed"),
        row("test_a.X.test_needs_socket", "failed"),
        row("test_a.Y.test_needs_socket", "passed"),
    ]
    excluded = [
        Exclusion("test_a.*.test_needs_socket", "reason"),
        Exclusion("test_a.X.test_gone", "reason"),
        Exclusion("test_b.X.test_elsewhere", "reason"),
    ]
    assert complaints("test_a", rows, excluded, stepped_least=2) == [
        "test_a.X.test_bad fails on our loop:\nwhy",
        "test_a.Y.test_needs_socket is excluded, but passes: delete the exclusion",
        "test_a.X.test_gone is excluded, but there is no such test",
        "1 tests passed and stepped our loop, there were 2",
    ]
    assert tally("test_a", rows, excluded) == Tally(
        "test_a", run=5, passed=2, stepped=1, excluded=2, skipped=0, unlisted=1
    )


def test_right_results_pass() -> None:
    """What is excluded fails or is skipped, all else passes: nothing to complain about."""
    rows = [
        row("test_a.X.test_good", "passed"),
        row("test_a.X.test_only_on_windows", "skipped"),
        row("test_a.X.test_needs_socket", "failed"),
        row("test_a.X.test_needs_ipv6", "skipped"),
    ]
    excluded = parse({"reason": "test_a.X.test_needs_socket\n  test_a.*.test_needs_ipv6 3.13"})
    assert excluded[1] == Exclusion("test_a.*.test_needs_ipv6", "reason", ("3.13",))
    assert complaints("test_a", rows, excluded, stepped_least=1) == []


def test_a_python_that_nobody_looked_at_may_have_a_few_new_tests() -> None:
    """On another patch release some failures are shown only; many are still an error."""
    good = [row(f"test_a.X.test_{number}", "passed") for number in range(40)]
    gone = [Exclusion("test_a.X.test_gone", "reason")]
    assert complaints_unverified("test_a", [*good, row("test_a.X.test_new", "failed")], gone) == []
    many = [row(f"test_a.Y.test_{number}", "failed") for number in range(5)]
    assert len(complaints_unverified("test_a", [*good, *many], gone)) > 4
