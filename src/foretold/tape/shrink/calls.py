"""Calls of a machine that are not needed, where none of them can go by itself.

A call is a stream, `machine/7`, and what strikes together with it another one, `fault/call/7`. To
leave out single calls is what other passes do. Here two go at once (there and back again), or a
call goes and its fault moves to a neighbour; and actors are put in the order in which they act.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from foretold.tape.shrink.edit import Spot, StillFails, value_at, with_values
from foretold.tape.streams import Choice
from foretold.tape.tape import Tape

PAIRS_MAX = 80
DELAYS_TRIED = 10
_SLOT = re.compile(r"machine/(\d+)")
_DELAY, _ACTOR = "after the call", "actor"
ACTOR_PLACES = 2
"""Who acts stands at the beginning of a slot; an argument may have the same name."""


def slots_of(tape: Tape) -> list[int]:
    """The slots in which there is a call."""
    found = ((_SLOT.fullmatch(name), entries) for name, entries in tape.choices.items())
    return sorted(int(m[1]) for m, entries in found if m and entries and entries[0].value)


def drop_two_calls(tape: Tape, still_fails: StillFails) -> Tape:
    """Two calls that only undo each other: neighbours first."""
    tried = 0
    while True:
        pairs = sorted(combinations(slots_of(tape), 2), key=lambda pair: pair[1] - pair[0])
        for pair in pairs:
            tried += 1
            if tried > PAIRS_MAX:
                return tape
            if still_fails(shorter := _without(tape, pair)):
                tape = shorter
                break
        else:
            return tape


def move_faults(tape: Tape, still_fails: StillFails) -> Tape:
    """A call whose only part is that a fault came with it: the next one can have that fault."""
    for slot in slots_of(tape):
        entries = tape.choices.get(_fault_of(slot))
        if not entries or not entries[0].value:
            continue
        moved = (each for each in _moved(tape, slot, entries) if still_fails(each))
        tape = next(moved, tape)
    return tape


def first_actors_first(tape: Tape, still_fails: StillFails) -> Tape:
    """Who acts first is the first actor, whoever comes next the second: names matter seldom."""
    numbers: dict[int, int] = {}
    values: dict[Spot, int] = {}
    for slot in slots_of(tape):
        name = f"machine/{slot}"
        for place, choice in enumerate(tape.choices[name][:ACTOR_PLACES]):
            if choice.label == _ACTOR:
                values[name, place] = numbers.setdefault(choice.value, len(numbers))
    changed = {spot: n for spot, n in values.items() if value_at(tape, spot) != n}
    if changed and still_fails(renamed := with_values(tape, changed)):
        return renamed
    return tape


def _moved(tape: Tape, slot: int, entries: Sequence[Choice]) -> Iterator[Tape]:
    slots = slots_of(tape)
    here = slots.index(slot)
    for other in (*slots[here + 1 : here + 3], *slots[max(0, here - 1) : here]):
        if _fault_of(other) in tape.choices:
            continue
        shorter = _without(tape, (slot,))
        choices = {**shorter.choices, _fault_of(other): entries}
        candidate = shorter.derived(choices=choices)
        yield candidate
        for place, choice in enumerate(entries):
            if choice.label == _DELAY:
                for delay in range(min(choice.bound, DELAYS_TRIED)):
                    yield with_values(candidate, {(_fault_of(other), place): delay})


def _fault_of(slot: int) -> str:
    return f"fault/call/{slot}"


def _without(tape: Tape, slots: Sequence[int]) -> Tape:
    gone = {name for slot in slots for name in (f"machine/{slot}", _fault_of(slot))}
    return tape.derived(choices={k: v for k, v in tape.choices.items() if k not in gone})
