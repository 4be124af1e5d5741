"""Is there a serial order of committed transactions that explains what each of them has read?

Edges say who comes before whom in every such order: who wrote a row first, who wrote what another
one read, who read what another one changed without seeing it. There is an order if and only if the
edges form no circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from foretold.models.statements import Where


class Committed(NamedTuple):
    """A transaction that was committed."""

    snapshot: int
    commit: int
    reads: tuple[Where, ...]
    changed: tuple[tuple[Any, Any, Any], ...]
    """Each row with its value before and after."""


def is_serializable(transactions: Sequence[Committed]) -> bool:
    """Whether some serial order explains them. Each transaction that follows no other is taken
    away, until none is left or all are in a circle."""
    left = list(range(len(transactions)))
    edges = {
        (a, b)
        for a, one in enumerate(transactions)
        for b, other in enumerate(transactions)
        if a != b and _precedes(one, other)
    }
    while left:
        first = next((b for b in left if not any((a, b) in edges for a in left)), None)
        if first is None:
            return False
        left.remove(first)
    return True


def _precedes(one: Committed, other: Committed) -> bool:
    mine = {key for key, _, _ in one.changed}
    if one.commit < other.commit and any(key in mine for key, _, _ in other.changed):
        return True
    if one.commit <= other.snapshot and _reads_of(other, one):
        return True
    return other.commit > one.snapshot and bool(other.changed) and _reads_of(one, other)


def _reads_of(reader: Committed, writer: Committed) -> bool:
    """Whether one has read what the other has changed, as it was before or after."""
    return any(
        _matches(where, key, value)
        for where in reader.reads
        for key, before, after in writer.changed
        for value in (before, after)
    )


def _matches(where: Where, key: Any, value: Any) -> bool:
    try:
        return where(key, value)
    except TypeError:  # there is no row: a condition on its value does not hold
        return False
