"""Slow steps that are not needed."""

from __future__ import annotations

from collections.abc import Callable

from foretold.tape.schedule import Schedule, Slow
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.tape import Tape


def drop_slows(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """The fewest slow steps that still fail."""
    best = tape
    holds = list(tape.schedule.holds.values())

    def fails_with(slows: list[Slow]) -> bool:
        nonlocal best
        candidate = tape.derived(schedule=Schedule.of([*holds, *slows]))
        if still_fails(candidate):
            best = candidate
            return True
        return False

    if tape.schedule.slows:
        smallest_sublist(list(tape.schedule.slows.values()), fails_with)
    return best
