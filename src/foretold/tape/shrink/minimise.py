"""Delta debugging: the smallest sublist that still fails (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from foretold.tape.shrink.edit import StillFails
from foretold.tape.tape import Tape

T = TypeVar("T")


def fewest(
    tape: Tape,
    items: Sequence[T],
    with_only: Callable[[list[T]], Tape],
    still_fails: StillFails,
) -> Tape:
    """The tape with the fewest of these items that still fails; `with_only` makes it."""
    best = tape

    def fails_with(kept: list[T]) -> bool:
        nonlocal best
        candidate = with_only(kept)
        if still_fails(candidate):
            best = candidate
            return True
        return False

    smallest_sublist(items, fails_with)
    return best


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
