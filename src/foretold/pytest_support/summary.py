"""What stands at the end of a pytest run: a line of figures, and what deserves a second look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foretold.arguments import printable
from foretold.pytest_support.item import shown_path
from foretold.story.words import count

Records = list[dict[str, Any]]


def summary_lines(records: Records, seed: int, verbosity: int) -> Iterator[tuple[str, bool]]:
    """The lines to print, each with whether it is a warning."""
    if verbosity >= 0:
        yield f"foretold: {_figures(records, seed)}", False
    if verbosity > 0:
        for record in records:
            yield f"  {record['test']}: {_of_one(record)}", False
    for record in records:
        yield from _about(record)
    shared = dict.fromkeys(each for record in records for each in record["shared"])
    if shared and verbosity >= 0:
        named = ", ".join(map(printable, shared))
        yield f"foretold: all runs share {named}; a run may depend on those before it", False
    for point, test in never_reached(records).items():
        yield f"foretold: never true in any run: {printable(point)} ({test})", True


def _figures(records: Records, seed: int) -> str:
    runs = sum(record["runs"] for record in records)
    search_s = sum(record["search_s"] for record in records)
    failed = sum(record["failed"] for record in records)
    parts = [f"{count(len(records), 'test')} simulated", count(runs, "run")]
    if search_s > 0:
        parts.append(f"{runs / search_s:,.0f} runs/s")
    if any(record["failed"] and record["search_s"] for record in records):
        parts.append(f"{failed} failed (--foretold-seed={seed})")
    elif failed:  # on saved tapes, whatever the seed
        parts.append(f"{failed} failed")
    return ", ".join(parts)


def _of_one(record: dict[str, Any]) -> str:
    parts = [count(record["runs"], "run"), f"seed {record['seed']}"]
    if record["replayed"]:
        parts[1] = f"replayed {_short(record['replayed'])}"
    if record["search_s"] > 0:
        parts.append(f"{record['runs'] / record['search_s']:,.0f} runs/s")
    word = "failed" if record["failed"] else "nothing explored" if record["empty"] else "held"
    return ", ".join([*parts, word])


def _about(record: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    test = record["test"]
    if record["vacuous"] and not record["empty"]:  # else the test has failed, and says why
        yield f"foretold: nothing to explore in {test}: {record['nothing']}", False
    if record["replayed"] and not record["failed"]:
        yield f"foretold: {test} holds on {_short(record['replayed'])}", False
    if record.get("expected"):
        where = f" on {_short(record['replayed'])}" if record["replayed"] else ""
        yield (
            f"foretold: {test} fails{where}, as its xfail mark says it would: {record['expected']}",
            False,
        )
        yield "  pytest counts that as a success; with --runxfail it shows the story", False
    for path in record["fixed"]:
        yield f"foretold: {test} holds on a saved failure now; moved to {_short(path)}", False
    for each in record["hollow"]:
        yield f"foretold: {test}: {each['sort']} {each['name']} {each['what']}", True
    for each in record["hints"]:
        few = "few runs, hence no verdict"
        yield f"foretold: {test}: {each['sort']} {each['name']} {each['what']} ({few})", True
    for note in record["notes"]:
        yield f"foretold: {test}: {note}", False
    for reason in record["unreadable"]:
        yield f"foretold: a saved failure of {test} was left out: {reason}", True


def never_reached(records: Records, runs_min: int = 0) -> dict[str, str]:
    """`sometimes` points that all tests together never saw true, with a test that passed them; of
    those that have been passed by so many runs."""
    reached = {point for record in records for point in record["reached"]}
    missed: dict[str, str] = {}
    runs: Counter[str] = Counter()
    for record in records:
        for point in record["missed"]:
            if point not in reached:
                missed.setdefault(point, record["test"])
                runs[point] += record["runs"]
    return {point: test for point, test in missed.items() if runs[point] >= runs_min}


def _short(path: str) -> str:
    return shown_path(Path(path).absolute())
