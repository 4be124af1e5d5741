"""Delta debugging: the smallest sublist that still fails (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest_sublist(items: Sequence[T], still_fails: Callable[[list[T]], bool]) -> list[T]:
    """Items taken away, in chunks that get smaller, as long as the rest still fails."""
    kept = list(items)
    if kept and still_fails([]):
        return []
    chunk = max(1, len(kept) // 2)
    while kept:
        reduced = False
        start = 0
        while start < len(kept):
            candidate = kept[:start] + kept[start + chunk :]
            if len(kept) > chunk and still_fails(candidate):
                kept = candidate
                reduced = True
            else:
                start += chunk
        if chunk == 1 and not reduced:
            break
        if not reduced:
            chunk = max(1, chunk // 2)
        chunk = min(chunk, max(1, len(kept)))
    return kept
