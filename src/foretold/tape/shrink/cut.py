"""Blocks of choices that are not needed: elements of lists, letters of texts, operations of a loop.

A block begins where the program asked "one more?", or where the same questions begin again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foretold.tape.shrink.edit import StillFails, is_structure, without
from foretold.tape.streams import Choice
from foretold.tape.tape import Tape

BLOCKS_ACROSS_MAX = 12
"""How many marks a block may reach over; each of them may be an element within the element."""
PERIOD_MAX = 12
SHORT_MAX = 12
"""A stream of so few choices is tried at every place."""


def cut_blocks(tape: Tape, still_fails: StillFails) -> Tape:
    """Take out blocks of choices, large ones first."""
    for name in list(tape.choices):
        if is_structure(name):
            tape = _cut_counted(tape, name, still_fails)
            tape = _cut_between(tape, name, still_fails, lambda choice: choice.bound == 2)
            if len(tape.choices.get(name, ())) <= SHORT_MAX:
                tape = _cut_between(tape, name, still_fails, lambda choice: True)
    return tape


def _cut_between(
    tape: Tape, name: str, still_fails: StillFails, is_mark: Callable[[Choice], bool]
) -> Tape:
    """Blocks from one mark to another one, or to the end."""
    start = 0
    while start < len(entries := tape.choices.get(name, ())):
        if not is_mark(entries[start]):
            start += 1
            continue
        marks = [n for n in range(start + 1, len(entries)) if is_mark(entries[n])]
        for end in reversed(marks[:BLOCKS_ACROSS_MAX]):
            if still_fails(shorter := without(tape, name, start, end)):
                tape = shorter
                break
        else:
            start += 1
    return tape


def _cut_counted(tape: Tape, name: str, still_fails: StillFails) -> Tape:
    """A number, and then so many times the same questions: one less, without any one of them."""
    position = 0
    while position < len(entries := tape.choices.get(name, ())):
        period = _period(entries, position + 1) if entries[position].value else 0
        if period:
            tape = _cut_rounds(tape, name, position, period, still_fails)
        position += 1
    return tape


def _period(entries: Sequence[Choice], start: int) -> int:
    """After how many choices the same labels come again; 0 if they do not."""
    labels = [choice.label for choice in entries[start : start + 2 * PERIOD_MAX]]
    for period in range(1, len(labels) // 2 + 1):
        if labels[:period] == labels[period : 2 * period]:
            return period
    return 0


def _cut_rounds(tape: Tape, name: str, position: int, period: int, still_fails: StillFails) -> Tape:
    rounds = min(tape.choices[name][position].value, 64)
    for number in reversed(range(rounds)):
        entries = tape.choices.get(name, ())
        start = position + 1 + number * period
        if position >= len(entries) or start >= len(entries) or not entries[position].value:
            continue
        fewer = {position: entries[position].value - 1}
        if still_fails(shorter := without(tape, name, start, start + period, fewer)):
            tape = shorter
    return tape
