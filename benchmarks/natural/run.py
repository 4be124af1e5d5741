"""Bugs that libraries really had: how many runs a search needs, beside chance.

    python benchmarks/natural/run.py [NAME …] [--searches 30] [--output build/natural.json]

Each file of `cases/` is a program as users write it, on a release with the bug; its docstring says
which. The release is installed from the index into a folder of its own under build/, and nothing of
it is part of this repository. A case whose release cannot be installed is skipped, and said to be.

The releases were compared on Python 3.12, where the repaired ones are silent. On 3.11 some of them
fail as well; `asyncio.wait_for` of 3.11 is known to lose cancellations (bpo-37658).

`five` are the ones that the promise is about. `training` are those that the search was tuned with,
`test` those that were measured only afterwards. With `--soak` the repaired releases run as well.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "natural"
BAR_RUNS = 20
SOAK_RUNS = 500
RUNS_MAX = 500
CASE_S_MAX = 300


class Case(NamedTuple):
    """A bug of a library."""

    name: str
    kind: str
    """five, training or test"""
    title: str
    buggy: tuple[str, ...]
    fixed: tuple[str, ...]
    chance: bool
    """Whether the uniform loop can run it: no threads, no network."""


def cases() -> list[Case]:
    """All there are, from their files: these are not imported here."""
    found = [_case(path) for path in sorted((HERE / "cases").glob("*.py"))]
    order = ("five", "training", "test")
    return sorted(found, key=lambda case: (order.index(case.kind), case.name))


def _case(path: Path) -> Case:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("KIND", "BUGGY", "FIXED", "CHANCE")
    }
    title = (ast.get_docstring(tree) or "").partition("\n")[0]
    return Case(
        path.stem,
        constants["KIND"],
        title,
        constants.get("BUGGY", ()),
        constants.get("FIXED", ()),
        constants.get("CHANCE", True),
    )


def installed(requirements: tuple[str, ...]) -> Path | None:
    """The folder of these releases, and of nothing else; None if they cannot be had."""
    digest = hashlib.sha256(" ".join((sys.version, *requirements)).encode()).hexdigest()[:12]
    folder = BUILD / digest
    if (folder / ".ready").exists():
        return folder
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-deps", "--upgrade", "--target", str(folder), *requirements],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return None
    (folder / ".ready").write_text(" ".join(requirements))
    return folder


def measured(case: Case, what: str, searches: int, runs: int) -> dict[str, Any] | None:
    """What `measure.py` finds, in a process that sees the release; None if there is none."""
    requirements = case.fixed if what == "soak" else case.buggy
    folder = installed(requirements) if requirements else HERE
    if folder is None:
        return None
    command = [sys.executable, str(HERE / "measure.py"), case.name, what, str(searches), str(runs)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=CASE_S_MAX
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {CASE_S_MAX} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr else "?"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def row_of(case: Case, searches: int, soak: bool) -> dict[str, Any]:
    """One line of the table."""
    row: dict[str, Any] = {"kind": case.kind, "release": " ".join(case.buggy) or "written out"}
    seen = measured(case, "search", searches, RUNS_MAX)
    if seen is None or "error" in seen:
        return row | {"skipped": "cannot be installed" if seen is None else seen["error"]}
    row |= _medians(seen["runs"])
    row["stock"] = seen["stock"]
    chance = measured(case, "uniform", searches, RUNS_MAX) if case.chance else None
    if chance is not None and "runs" in chance:
        row["chance"] = _medians(chance["runs"])["median"]
        row["as_good"] = row["median"] <= row["chance"]
    if soak:
        row["fixed"] = (measured(case, "soak", 1, SOAK_RUNS) or {}).get("failed", "not run")
    return row


def _medians(runs: list[float | None]) -> dict[str, Any]:
    known = [float("inf") if each is None else each for each in runs]
    median = statistics.median(known)
    found = sum(each is not None for each in runs)
    return {"found": f"{found}/{len(runs)}", "median": median, "met": median <= BAR_RUNS}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--searches", type=int, default=30)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    print(f"{'case':28} {'set':9} {'found':>6} {'runs':>6} {'chance':>7}  stock asyncio")
    for case in cases():
        if options.names and case.name not in options.names and case.kind not in options.names:
            continue
        row = rows[case.name] = row_of(case, options.searches, options.soak)
        if "skipped" in row:
            print(f"{case.name:28} {case.kind:9} skipped: {row['skipped']}", flush=True)
            continue
        chance = f"{row['chance']:g}" if "chance" in row else "-"
        more = f"  fixed: {row['fixed'] or 'silent'}" if options.soak else ""
        cells = f"{row['found']:>6} {row['median']:6g} {chance:>7}  {row['stock']}{more}"
        print(f"{case.name:28} {case.kind:9} {cells}", flush=True)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
