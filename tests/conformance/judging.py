"""Judges what became of CPython's tests on our loop, against the table of exclusions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.conformance.exclusions import Exclusion

Row = Mapping[str, Any]
"""One test: its `id`, `outcome`, `message`, and the `steps` that our loop took in it."""

UNVERIFIED_FAILURES_MAX = 0.05


class Tally(NamedTuple):
    """The figures of one module."""

    module: str
    run: int
    passed: int
    stepped: int
    """Passed, and our loop really took steps in it. The others prove nothing about our loop."""
    excluded: int
    skipped: int
    unlisted: int
    """Failed without being excluded."""


def is_excluded(row: Row, exclusions: Iterable[Exclusion]) -> bool:
    """Whether a test is among the exclusions."""
    return any(entry.matches(row["id"]) for entry in exclusions)


def tally(module: str, rows: Sequence[Row], exclusions: Sequence[Exclusion]) -> Tally:
    """Count."""
    others = [row for row in rows if not is_excluded(row, exclusions)]
    passed = [row for row in others if row["outcome"] == "passed"]
    return Tally(
        module,
        run=len(rows),
        passed=len(passed),
        stepped=sum(row["steps"] > 0 for row in passed),
        excluded=len(rows) - len(others),
        skipped=sum(row["outcome"] == "skipped" for row in others),
        unlisted=sum(row["outcome"] == "failed" for row in others),
    )


def complaints(
    module: str, rows: Sequence[Row], exclusions: Sequence[Exclusion], stepped_least: int
) -> list[str]:
    """What is wrong: failures, exclusions that are not needed, fewer tests than there were."""
    about = [entry for entry in exclusions if entry.is_about(module)]
    found = [
        f"{row['id']} fails on our loop:\n{row['message']}"
        for row in rows
        if row["outcome"] == "failed" and not is_excluded(row, about)
    ]
    for entry in about:
        matched = [row for row in rows if entry.matches(row["id"])]
        if not matched:
            found.append(f"{entry.pattern} is excluded, but there is no such test")
        found += [
            f"{row['id']} is excluded, but passes: delete the exclusion"
            for row in matched
            if row["outcome"] == "passed"
        ]
    stepped = tally(module, rows, about).stepped
    if stepped < stepped_least:
        found.append(f"{stepped} tests passed and stepped our loop, there were {stepped_least}")
    return found


def complaints_unverified(
    module: str, rows: Sequence[Row], exclusions: Sequence[Exclusion]
) -> list[str]:
    """The same on a Python whose tests nobody has looked at yet: a few may be new to us."""
    counted = tally(module, rows, [entry for entry in exclusions if entry.is_about(module)])
    if counted.unlisted <= UNVERIFIED_FAILURES_MAX * counted.run:
        return []
    return complaints(module, rows, exclusions, stepped_least=0)
