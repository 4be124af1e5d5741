"""Single choices: towards zero, one by one, and by bisection where zero will not do."""

from __future__ import annotations

from collections.abc import Callable

from foretold.tape.streams import Choice
from foretold.tape.tape import Tape


def lower_choices(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """Lower each choice as far as it goes; drop what follows the last that is not calm."""
    best = tape
    for name in list(tape.choices):
        if name in best.choices:
            best = _truncate(best, name, still_fails)
        for position in range(len(best.choices.get(name, ()))):
            best = _lower_one(best, name, position, still_fails)
    return best


def _with(tape: Tape, name: str, entries: list[Choice]) -> Tape:
    choices = {**tape.choices, name: entries}
    return tape.derived(choices={name: kept for name, kept in choices.items() if kept})


def _truncate(tape: Tape, name: str, still_fails: Callable[[Tape], bool]) -> Tape:
    entries = list(tape.choices[name])
    length = len(entries)
    while length:
        shorter = _with(tape, name, entries[: length // 2])
        if not still_fails(shorter):
            break
        tape, length = shorter, length // 2
    return tape


def _lower_one(tape: Tape, name: str, position: int, still_fails: Callable[[Tape], bool]) -> Tape:
    """The smallest value by bisection. It assumes nothing: each step is asked for."""
    entries = list(tape.choices[name])
    if position >= len(entries):
        return tape
    choice = entries[position]
    low, high = 0, choice.value
    while low < high:
        middle = 0 if low == 0 and high == choice.value else (low + high) // 2
        entries[position] = choice._replace(value=middle)
        candidate = _with(tape, name, list(entries))
        if still_fails(candidate):
            tape, high = candidate, middle
        else:
            low = middle + 1
    return tape
