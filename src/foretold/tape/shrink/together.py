"""Several choices at once, where none can move alone: equal ones, and those that add up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from foretold.tape.shrink.choices import lowest
from foretold.tape.shrink.edit import (
    Spot,
    StillFails,
    departures,
    is_structure,
    value_at,
    with_values,
)
from foretold.tape.tape import Tape

GROUPS_MAX = 16
NEIGHBOURS = 3
LARGE_TRIED_MAX = 16


def lower_equal(tape: Tape, still_fails: StillFails) -> Tape:
    """What must be equal is lowered together: an id that is drawn twice, a key and its copy."""
    groups: defaultdict[int, list[Spot]] = defaultdict(list)
    for spot in departures(tape):
        groups[value_at(tape, spot)].append(spot)
    for value, spots in list(groups.items())[:GROUPS_MAX]:
        if len(spots) > 1 and value > 1:
            tape = _lower_all(tape, spots, value, still_fails)
    return tape


def lower_alike(tape: Tape, still_fails: StillFails) -> Tape:
    """The same for what has one name in several streams: the item that two calls of a machine are
    about. Here small numbers count as well, since the name tells them from all others."""
    groups: defaultdict[tuple[str, int], list[Spot]] = defaultdict(list)
    for spot in departures(tape):
        choice = tape.choices[spot[0]][spot[1]]
        if choice.label and is_structure(spot[0]) and "/" in spot[0]:
            groups[choice.label, choice.value].append(spot)
    for (_, value), spots in list(groups.items())[:GROUPS_MAX]:
        if len({name for name, _ in spots}) > 1:
            tape = _lower_all(tape, spots, value, still_fails)
    return tape


def _lower_all(tape: Tape, spots: Sequence[Spot], value: int, still_fails: StillFails) -> Tape:
    def candidate(lower: int) -> Tape:
        return with_values(tape, dict.fromkeys(spots, lower))

    if not still_fails(candidate(value - 1)) and not still_fails(candidate(value // 2)):
        return tape
    if still_fails(calm := candidate(0)):
        return calm
    return lowest(tape, value, candidate, still_fails)


def add_up(tape: Tape, still_fails: StillFails) -> Tape:
    """Two that matter by their sum become one: `[1000]` says more than `[774, 226]`."""
    drawn = departures(tape)
    for number, spot in enumerate(drawn):
        for other in drawn[number + 1 : number + 1 + NEIGHBOURS]:
            moved, there = value_at(tape, spot), value_at(tape, other)
            if not (moved and there) or spot[0] != other[0]:
                continue
            if moved + there < tape.choices[other[0]][other[1]].bound:
                candidate = with_values(tape, {spot: 0, other: moved + there})
                tape = candidate if still_fails(candidate) else tape
    return tape


def one_large(tape: Tape, still_fails: StillFails) -> Tape:
    """One message that takes very long says more than five that take a little longer."""
    by_label: defaultdict[str, list[Spot]] = defaultdict(list)
    for spot in departures(tape):
        by_label[tape.choices[spot[0]][spot[1]].label].append(spot)
    for spots in by_label.values():
        spots.sort(key=lambda spot: -value_at(tape, spot))
        for spot in spots[:LARGE_TRIED_MAX] if len(spots) > 1 else ():
            largest = tape.choices[spot[0]][spot[1]].bound - 1
            candidate = with_values(tape, {**dict.fromkeys(spots, 0), spot: largest})
            if still_fails(candidate):
                tape = candidate
                break
    return tape
