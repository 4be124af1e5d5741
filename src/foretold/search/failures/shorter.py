"""A machine's failure once more from elsewhere: another run may lead to a shorter program.

Leaving out calls one by one ends where no call can go any more. That need not be the shortest
program: there may be a quite different way to the same failure (of the two ways to measure four
litres with jugs of three and five, one takes six steps and the other one eight). So where runs are
cheap, some more are made, and those that fail in the same way are shrunk as well.

And a race that came about among thirty calls hangs on all of them: leave one out, and the two that
matter no longer meet. So the last calls are made alone, in a calm world and then in a few drawn
anew, before anything else is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from foretold.search.workers.brief import Brief
from foretold.story.signature import Signature
from foretold.tape import WORKLOAD, Schedule, Tape
from foretold.tape.shrink.calls import slots_of
from foretold.tape.shrink.steps import steps_of
from foretold.tape.shrink.whole import PROGRAM
from foretold.tape.streams import Choice

CALLS_MIN = 5
"""A program of fewer calls is short enough."""
RUNS_MAX = 600
OTHERS_MAX = 3
DEAR = ("net", "postgres", "web")
"""Runs that draw from these streams are not worth it. (To measure how long a run takes would let a
busy machine decide how far a failure is shrunk.)"""
SEED_GAP = 104_729
LAST_CALLS = (1, 2, 4, 8)
CHANCES = 4
"""In so many worlds the last calls are made alone. A race of two calls meets in one of a few."""


def is_worth_it(tape: Tape) -> bool:
    """Whether to look for another way."""
    is_dear = any(name.partition("/")[0] in DEAR for name in tape.choices)
    return not is_dear and calls_in(tape) >= CALLS_MIN


def calls_in(tape: Tape) -> int:
    """How many calls of rules there are, of a machine of ours or of Hypothesis'."""
    _, steps = steps_of(tape.choices.get(WORKLOAD, ()))
    return len(slots_of(tape)) + len(steps)


def others(
    first: Tape, wanted: Signature, again: Callable[[Tape, bool], Brief]
) -> Iterator[Tape | None]:
    """Recordings of other runs that fail in the same way; None for each run that does not."""
    found = 0
    for number in range(1, RUNS_MAX + 1):
        tape = Tape.seeded((first.seed + number * SEED_GAP) % (1 << 64), first.settings)
        if again(tape, False).signature != wanted:
            yield None
            continue
        seen = again(tape, True)
        found += seen.signature == wanted
        yield seen.recorded if seen.signature == wanted else None
        if found == OTHERS_MAX:
            return


def of_last_calls(tape: Tape) -> Iterator[Tape]:
    """The last call alone, the last two, and so on, with what the program draws as it was."""
    slots = slots_of(tape)
    for number in LAST_CALLS:
        if 2 * number > len(slots):
            return
        program = _with_calls(tape, slots[-number:])
        yield tape.derived(choices=program, schedule=Schedule())
        for chance in range(1, CHANCES + 1):
            seed = (tape.seed + (number * CHANCES + chance) * SEED_GAP) % (1 << 64)
            yield Tape.seeded(seed, tape.settings, program)


def _with_calls(tape: Tape, kept: Sequence[int]) -> dict[str, Sequence[Choice]]:
    """What the program drew, with no call in the other slots."""
    program = {n: entries for n, entries in tape.choices.items() if n.partition("/")[0] in PROGRAM}
    gone = set(slots_of(tape)).difference(kept)
    return program | {f"machine/{slot}": () for slot in gone}
