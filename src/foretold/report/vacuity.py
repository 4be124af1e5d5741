"""The table of what a search has really tried, and a word on each line that came to nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from foretold.search.checking.vacuity import Hollow, happened, ranges_over_nothing
from foretold.search.failures.failure import Outcome
from foretold.story.words import WIDTH_CHARS
from foretold.world.tally import FaultCount, InvariantCount, OperationCount, RuleCount

MARK = "  <- nothing"
NAME_CHARS_MAX = 48
ONCE_MIN = 3
"""From so many on, rules that succeed once in each run are told as one."""

Row = tuple[tuple[str, ...], bool]
"""Cells, and whether it came to nothing."""


def tally_lines(outcome: Outcome) -> list[str]:
    """Rules, invariants, faults and points, each as a table; nothing of what there is none of."""
    tally = outcome.tally
    # A search that failed says nothing about what it did not come to.
    judged = not outcome.failures
    empty = {each.name for each in (*outcome.hollow, *outcome.hints)}
    lines = _rules(tally.rules, empty)
    lines += operation_lines(tally.operations, empty)
    lines += _table(
        ("invariant", "checks", "ranged over"),
        [
            (_cells((name, each.checks, _ranged(each))), judged and ranges_over_nothing(each))
            for name, each in tally.invariants.items()
        ],
    )
    faults = {**dict.fromkeys(outcome.faults.split(), FaultCount()), **tally.faults}
    lines += _table(
        ("fault", "injected", "had effect"),
        [
            (
                _cells((name, each.injected, "not known" if each.effect is None else each.effect)),
                judged and not happened(each),
            )
            for name, each in faults.items()
        ],
    )
    points = {**outcome.reached, **dict.fromkeys(outcome.missed, 0)}
    return lines + _table(
        ("sometimes", "times true"),
        [(_cells(row), judged and not row[1]) for row in points.items()],
    )


def operation_lines(operations: Mapping[str, OperationCount], empty: Collection[str]) -> list[str]:
    """The operations that a machine covers."""
    return _table(
        ("operation", "asked", "by rules", "succeeded"),
        [
            (_cells((name, each.asked, each.by_rules, each.succeeded)), name in empty)
            for name, each in operations.items()
        ],
    )


def _rules(rules: Mapping[str, RuleCount], empty: Collection[str]) -> list[str]:
    """Many that were called once in each run, and succeeded, are one line: they make what there is
    from the beginning."""
    once = [
        name
        for name, each in rules.items()
        if each.tried == each.succeeded == each.runs and not each.precondition_false
    ]
    once = once if len(once) >= ONCE_MIN else []
    rows = [
        (name, each.tried, each.precondition_false, each.refused, each.failed, each.succeeded)
        for name, each in rules.items()
        if name not in once
    ]
    lines = _table(
        ("rule", "tried", "precondition false", "refused", "failed", "succeeded"),
        [(_cells(row), row[0] in empty) for row in rows],
    )
    if any(row[2] for row in rows):
        lines.append(
            "  (precondition false: it could not be called, nothing was there to call it on)"
        )
    if once:
        lines.append(f"  ({len(once)} more rules, each once in every run, succeeded: {once[0]}, …)")
    return lines


def _ranged(each: InvariantCount) -> str:
    return f"{each.ranged:,}" if each.told else "not told"


def _cells(row: Sequence[object]) -> tuple[str, ...]:
    return tuple(f"{each:,}" if isinstance(each, int) else str(each) for each in row)


def _table(head: tuple[str, ...], rows: list[Row]) -> list[str]:
    if not rows:
        return []
    shown = [(textwrap.shorten(cells[0], NAME_CHARS_MAX), *cells[1:]) for cells, _ in rows]
    widths = [max(map(len, column)) for column in zip(head, *shown, strict=True)]
    lines = []
    for cells in (head, *shown):
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        lines.append("  ".join(["", first, *rest]))
    marked = [MARK if nothing else "" for _, nothing in rows]
    return [lines[0], *(line + mark for line, mark in zip(lines[1:], marked, strict=True))]


def hollow_lines(hollow: Sequence[Hollow]) -> list[str]:
    """What came to nothing, each with a word on what to do."""
    if not hollow:
        return []
    return gap_lines("It held, and says less than it seems to:", hollow)


def gap_lines(said: str, hollow: Sequence[Hollow]) -> list[str]:
    """The same under another heading."""
    return [said, *(line for each in hollow for line in _told(each))]


def hint_lines(hints: Sequence[Hollow]) -> list[str]:
    """The same of a search of few runs, which is no more than a warning."""
    if not hints:
        return []
    said = "Few runs, so this is no verdict, but worth a look:"
    return [said, *(line for each in hints for line in _told(each))]


def _told(each: Hollow) -> Iterator[str]:
    yield from textwrap.wrap(
        f"{each}", WIDTH_CHARS, initial_indent="- ", subsequent_indent="  ", break_long_words=False
    )
    yield from textwrap.wrap(
        f"{each.remedy}.".replace("?.", "?"),
        WIDTH_CHARS,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
    )
