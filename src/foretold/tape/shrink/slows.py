"""Slow steps: those not needed go, one takes over the time of another, and all get shorter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from foretold.tape.schedule import SLOW_NS_MAX, Key, Schedule, Slow
from foretold.tape.shrink.edit import StillFails
from foretold.tape.shrink.minimise import fewest
from foretold.tape.tape import Tape

GRAIN = 16
"""Delays are told with two digits: what lies within one part of so many is not looked for."""
ADDED_UP_MAX = 8
"""Of more slow steps, not all pairs are tried."""


def drop_slows(tape: Tape, still_fails: StillFails) -> Tape:
    """The fewest slow steps that still fail."""
    slows, holds = list(tape.schedule.slows.values()), tape.schedule.holds.values()

    def with_only(kept: list[Slow]) -> Tape:
        return tape.derived(schedule=Schedule.of([*holds, *kept]))

    return fewest(tape, slows, with_only, still_fails)


def add_up_slows(tape: Tape, still_fails: StillFails) -> Tape:
    """One step is late by what two were late by, wherever that still fails."""
    if len(tape.schedule.slows) > ADDED_UP_MAX:
        return tape
    while (smaller := next(filter(still_fails, _added_up(tape)), None)) is not None:
        tape = smaller
    return tape


def _added_up(tape: Tape) -> Iterator[Tape]:
    slows = tape.schedule.slows
    for first, second in itertools.permutations(slows.values(), 2):
        if (ns := first.ns + second.ns) <= SLOW_NS_MAX:
            left = {key: slow for key, slow in slows.items() if key != first.key}
            left[second.key] = replace(second, ns=ns)
            yield tape.derived(schedule=Schedule(tape.schedule.holds, left))


def shorten_slows(tape: Tape, still_fails: StillFails) -> Tape:
    """Each slow step as short as it may be, roughly."""
    for key in list(tape.schedule.slows):
        tape = _shorten(tape, key, still_fails)
    return tape


def _shorten(tape: Tape, key: Key, still_fails: StillFails) -> Tape:
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
