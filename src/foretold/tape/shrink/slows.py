"""Slow steps: those not needed go, and the others get shorter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from foretold.tape.schedule import Key, Schedule, Slow
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.tape import Tape

GRAIN = 16
"""Delays are told with two digits: what lies within one part of so many is not looked for."""


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


def shorten_slows(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """Each slow step as short as it may be, roughly."""
    for key in list(tape.schedule.slows):
        tape = _shorten(tape, key, still_fails)
    return tape


def _shorten(tape: Tape, key: Key, still_fails: Callable[[Tape], bool]) -> Tape:
    slow = tape.schedule.slows[key]
    low, high = 0, slow.ns
    while high - low > high // GRAIN + 1:
        middle = (low + high) // 2
        shorter = {**tape.schedule.slows, key: replace(slow, ns=middle)}
        candidate = tape.derived(schedule=Schedule(tape.schedule.holds, shorter))
        if still_fails(candidate):
            tape, high = candidate, middle
        else:
            low = middle
    return tape
