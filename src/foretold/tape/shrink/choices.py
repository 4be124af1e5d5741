"""Single choices: as low as they go, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from foretold.tape.shrink.edit import StillFails, is_structure, value_at, with_values, without
from foretold.tape.streams import BYTES_SEED_BOUND
from foretold.tape.tape import Tape

SEEDS_TRIED = 4

Candidate = Callable[[int], Tape]


def lower_choices(tape: Tape, still_fails: StillFails) -> Tape:
    """Lower each choice as far as it goes; drop what follows the last that is not calm."""
    best = tape
    for name in list(tape.choices):
        if name in best.choices:
            best = _truncate(best, name, still_fails)
        for position in range(len(best.choices.get(name, ()))):
            best = _lower_one(best, name, position, still_fails)
    return best


def _truncate(tape: Tape, name: str, still_fails: StillFails) -> Tape:
    length = len(tape.choices[name])
    while length:
        shorter = without(tape, name, length // 2, length)
        if not still_fails(shorter):
            break
        tape, length = shorter, len(shorter.choices.get(name, ()))
    return tape


def _lower_one(tape: Tape, name: str, position: int, still_fails: StillFails) -> Tape:
    value = value_at(tape, (name, position))
    if not value:
        return tape
    best = tape
    if still_fails(lowered := with_values(best, {(name, position): 0})):
        return lowered
    climbs = is_structure(name)
    if not climbs and tape.choices[name][position].bound == BYTES_SEED_BOUND:
        return _another_seed(best, name, position, still_fails)
    best = lowest(
        best, value, lambda v: with_values(tape, {(name, position): v}), still_fails, climbs=climbs
    )
    if climbs and position + 1 < len(best.choices[name]):
        best = _lower_with_the_next(best, name, position, still_fails)
    return best


def _another_seed(tape: Tape, name: str, position: int, still_fails: StillFails) -> Tape:
    """A seed has no size: one of the first few may do as well, and none lies between two others."""
    for seed in range(1, min(SEEDS_TRIED + 1, value_at(tape, (name, position)))):
        if still_fails(other := with_values(tape, {(name, position): seed})):
            return other
    return tape


def _lower_with_the_next(tape: Tape, name: str, position: int, still_fails: StillFails) -> Tape:
    """A rare value may ask for a further choice, which a plain one leaves to whoever comes next."""

    def candidate(value: int) -> Tape:
        return without(tape, name, position + 1, position + 2, {position: value})

    for value in _ladder(value_at(tape, (name, position))):
        if still_fails(shorter := candidate(value)):
            return lowest(shorter, value, candidate, still_fails, climbs=True)
    return tape


def lowest(
    tape: Tape, value: int, candidate: Candidate, still_fails: StillFails, *, climbs: bool = False
) -> Tape:
    """The tape with the smallest value that fails; `tape` has `value`, which does, and 0 does not.

    By bisection. It assumes nothing: each step is asked for. What only values between two others
    do (capital letters, for instance) is met on a ladder of small ones first, if it `climbs`.
    """
    low, high = 1, value
    for rung in _ladder(value) if climbs else ():
        if rung >= low and still_fails(lower := candidate(rung)):
            tape, high = lower, rung
            break
        low = max(low, rung + 1)
    while low < high:
        middle = (low + high) // 2
        if still_fails(lower := candidate(middle)):
            tape, high = lower, middle
        else:
            low = middle + 1
    return tape


def _ladder(below: int) -> Iterator[int]:
    """0, 1, 2, 4, 8 … and from 64 on in steps that grow: few, however far it goes."""
    yield 0
    bits = 0
    while 1 << bits < below:
        yield 1 << bits
        bits += 1 + bits // 6
