"""Whole steps of a machine: of all that it did, the fewest steps that still fail.

A machine marks where a step begins: the choice "one more step", of which 0 ends the program. The
mark after a step also says to which bundles that step has added values (", after accounts"), and a
choice "from accounts" or "take accounts" refers to such a value, counted back from the newest. So a
step can be taken out, and all references that remain still mean what they meant before. What meant
a value that is gone means the next older one instead, or the oldest, or the next newer one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from foretold.tape.shrink.edit import StillFails, is_structure
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.streams import Choice
from foretold.tape.tape import Tape

MORE, AFTER, FROM, TAKE = "one more step", ", after ", "from ", "take "

Value = tuple[int, int]
"""A value in a bundle: the number of the step that added it, and which of that step's it is."""

Instead = Callable[[Sequence[Value], Value], int]
"""Which of the values that are there is meant where the one that was meant is gone."""


def more_label(added: Sequence[str]) -> str:
    """The label of the mark after a step that has added values to these bundles."""
    return MORE + AFTER + " ".join(map(plain, added)) if added else MORE


def reference_label(bundle: str, *, consumes: bool) -> str:
    """The label of a choice that refers to a value of a bundle."""
    return (TAKE if consumes else FROM) + plain(bundle)


def plain(bundle: str) -> str:
    """A bundle's name as one word."""
    return "_".join(bundle.split()) or "_"


def drop_steps(tape: Tape, still_fails: StillFails) -> Tape:
    """Take out the steps that are not needed."""
    for name in list(tape.choices):
        if is_structure(name):
            tape = _drop_steps_of(tape, name, still_fails)
    return tape


class ProgramStep(NamedTuple):
    """One step: its choices, with the mark that follows it, and what it refers to."""

    number: int
    entries: tuple[Choice, ...]
    closed: bool
    """Whether the last of the entries is the mark after the step."""
    meant: dict[int, Value]
    """By the place of the choice."""

    @property
    def adds(self) -> bool:
        return self.closed and AFTER in self.entries[-1].label


def _drop_steps_of(tape: Tape, name: str, still_fails: StillFails) -> Tape:
    head, steps = steps_of(tape.choices[name])
    best = tape

    def fails_with(kept: list[ProgramStep], instead: Instead = next_older) -> bool:
        nonlocal best
        candidate = tape.derived(choices={**tape.choices, name: joined(head, kept, instead)})
        if still_fails(candidate):
            best = candidate
            return True
        return False

    if not steps:
        return tape
    for step in (kept := smallest_sublist(steps, fails_with)):
        if step.adds:
            fewer = [each for each in kept if each is not step]
            if fails_with(fewer, oldest) or fails_with(fewer, next_newer):
                return _drop_steps_of(best, name, still_fails)
    return best


def steps_of(entries: Sequence[Choice]) -> tuple[list[Choice], list[ProgramStep]]:
    """What comes before the first step, with that one's mark, and the steps."""
    marks = [n for n, c in enumerate(entries) if c.label.startswith(MORE) and c.value]
    if not marks:
        return list(entries), []
    held: defaultdict[str, list[Value]] = defaultdict(list)
    steps = []
    for number, mark in enumerate(marks):
        end = marks[number + 1] + 1 if number + 1 < len(marks) else len(entries)
        block = tuple(entries[mark + 1 : end])
        meant = {}
        for place, bundle in _references(block):
            values = held[bundle]
            if values:
                at = len(values) - 1 - block[place].value % len(values)
                meant[place] = values.pop(at) if block[place].label.startswith(TAKE) else values[at]
        _add(held, block, number)
        steps.append(ProgramStep(number, block, number + 1 < len(marks), meant))
    return list(entries[: marks[0] + 1]), steps


def joined(head: Sequence[Choice], steps: Sequence[ProgramStep], instead: Instead) -> list[Choice]:
    """The choices of a program of these steps alone."""
    if not steps:
        return list(head[:-1])  # without the mark of the first step
    held: defaultdict[str, list[Value]] = defaultdict(list)
    entries = list(head)
    for step in steps:
        block = list(step.entries)
        for place, bundle in _references(block):
            values = held[bundle]
            if values and place in step.meant:
                meant = step.meant[place]
                at = values.index(meant) if meant in values else instead(values, meant)
                block[place] = block[place]._replace(value=len(values) - 1 - at)
                if block[place].label.startswith(TAKE):
                    values.pop(at)
        _add(held, block, step.number)
        entries += block
    if steps[-1].closed:
        entries.pop()  # it announces a step that is not there
    while entries and not entries[-1].value:
        entries.pop()
    return entries


def _references(block: Sequence[Choice]) -> list[tuple[int, str]]:
    return [
        (place, choice.label.partition(" ")[2])
        for place, choice in enumerate(block)
        if choice.label.startswith((FROM, TAKE))
    ]


def _add(held: defaultdict[str, list[Value]], block: Sequence[Choice], number: int) -> None:
    """What the mark at the end of a step says about it."""
    label = block[-1].label if block else ""
    if label.startswith(MORE):
        for count, bundle in enumerate(label.partition(AFTER)[2].split()):
            held[bundle].append((number, count))


def next_older(values: Sequence[Value], gone: Value) -> int:
    """The newest of those that are older than the one that is gone."""
    older = [at for at, value in enumerate(values) if value < gone]
    return older[-1] if older else 0


def next_newer(values: Sequence[Value], gone: Value) -> int:
    """The oldest of those that are newer than the one that is gone."""
    newer = [at for at, value in enumerate(values) if value > gone]
    return newer[0] if newer else len(values) - 1


def oldest(values: Sequence[Value], gone: Value) -> int:
    """The oldest of all."""
    return 0
