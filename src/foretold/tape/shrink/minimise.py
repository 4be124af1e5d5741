"""Delta debugging: the smallest sublist that still fails (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from foretold.tape.schedule import Exception_, Schedule
from foretold.tape.tape import Tape

T = TypeVar("T")


def fewest(
    tape: Tape,
    given: Iterable[Exception_],
    others: Iterable[Exception_],
    still_fails: Callable[[Tape], bool],
) -> Tape:
    """The tape with the fewest of the given entries of its schedule that still fails."""
    best, others = tape, list(others)

    def fails_with(entries: list[Exception_]) -> bool:
        nonlocal best
        candidate = tape.derived(schedule=Schedule.of([*entries, *others]))
        if still_fails(candidate):
            best = candidate
            return True
        return False

    if entries := list(given):
        smallest_sublist(entries, fails_with)
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
