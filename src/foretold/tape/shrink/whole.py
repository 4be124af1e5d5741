"""Whole streams at once: most of what a run drew has nothing to do with the failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from foretold.tape.schedule import Schedule
from foretold.tape.shrink.edit import StillFails, with_values
from foretold.tape.shrink.minimise import fewest
from foretold.tape.tape import Tape

SOONER = (1, 2, 4, 8, 16, 32)
"""By how much what the others had put off may happen sooner without them."""
ALONE_TRIED_MAX = 10


PROGRAM = ("machine", "workload", "entropy", "knob", "prophecy")
"""What the program itself drew: its calls and their values."""
COARSE_FROM = 8
"""Of fewer streams each is soon tried by itself."""


def calm_world(tape: Tape, still_fails: StillFails) -> Tape:
    """A run that drew much: most of it may be needless at once. First only what the program drew is
    kept, in calm order; then all but the faults; then all but what was late or held."""
    drawn = [name for name, entries in tape.choices.items() if any(c.value for c in entries)]
    if len(drawn) < COARSE_FROM:
        return tape
    program = {name: tape.choices[name] for name in drawn if _family(name) in PROGRAM}
    without_faults = {n: tape.choices[n] for n in drawn if _family(n) not in ("fault", "buggify")}
    for coarse in (
        tape.derived(choices=program, schedule=Schedule()),
        tape.derived(choices=without_faults),
    ):
        if still_fails(coarse):
            tape = coarse
            break
    in_order = tape.derived(schedule=Schedule())
    return in_order if len(tape.schedule) and still_fails(in_order) else tape


def _family(name: str) -> str:
    return name.partition("/")[0]


def calm_streams(tape: Tape, still_fails: StillFails) -> Tape:
    """Leave out every stream that is not needed: all of its choices become calm."""
    names = [name for name, entries in tape.choices.items() if any(c.value for c in entries)]

    def with_only(kept: list[str]) -> Tape:
        return tape.derived(choices={name: tape.choices[name] for name in kept})

    return fewest(tape, names, with_only, still_fails)


def one_of_many(tape: Tape, still_fails: StillFails) -> Tape:
    """One fault at the right moment does what several did that only made the run wait for it.

    None of those can go alone: without it, the one that matters would come too late. So all others
    of its family go at once, and what was drawn for the whole family, such as when its members
    strike, becomes smaller.
    """
    families: defaultdict[str, list[str]] = defaultdict(list)
    for name, entries in tape.choices.items():
        if name.count("/") > 1 and any(choice.value for choice in entries):
            families[_family(name)].append(name)
    for family, members in families.items():
        for kept in members[:ALONE_TRIED_MAX] if len(members) > 1 else ():
            others = [name for name in members if name != kept]
            alone = (each for each in _without(tape, family, others) if still_fails(each))
            if (found := next(alone, None)) is not None:
                return found
    return tape


def _without(tape: Tape, family: str, others: list[str]) -> Iterator[Tape]:
    left = {name: entries for name, entries in tape.choices.items() if name not in others}
    alone = tape.derived(choices=left)
    drawn = list(enumerate(left.get(family, ())))
    least = max(SOONER)
    for times in SOONER:
        moments = {(family, at): c.value // times for at, c in drawn if c.value >= least}
        yield with_values(alone, moments)
