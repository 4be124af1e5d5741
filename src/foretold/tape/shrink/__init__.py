"""Shrinking: from a failing tape to the few choices that matter. One pass per file.

A pass takes a tape and a question, `still_fails(tape)`, and gives back a tape that still fails and
is no larger. Passes know nothing of programs; the order here is from coarse to fine, and they are
repeated until none of them makes progress or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable

from foretold.tape.shrink.choices import lower_choices
from foretold.tape.shrink.holds import drop_holds, one_long_hold, until_someone_ended
from foretold.tape.shrink.slows import drop_slows
from foretold.tape.shrink.whole import calm_streams
from foretold.tape.tape import Tape

StillFails = Callable[[Tape], bool]
Pass = Callable[[Tape, StillFails], Tape]

PASSES: tuple[Pass, ...] = (calm_streams, one_long_hold, drop_slows, drop_holds, lower_choices)


class BudgetSpent(Exception):
    """Raised by `still_fails` when no further run is allowed."""


def shrink(tape: Tape, still_fails: StillFails) -> Tape:
    """The smallest failing tape that the passes find. `still_fails` may raise `BudgetSpent`."""
    best = tape

    def asked(candidate: Tape) -> bool:
        nonlocal best
        if still_fails(candidate):
            best = candidate
            return True
        return False

    try:
        while True:
            before = weight(best)
            for shrink_pass in PASSES:
                best = shrink_pass(best, asked)
            if weight(best) >= before:
                return until_someone_ended(best, asked)
    except BudgetSpent:
        return best


def weight(tape: Tape) -> tuple[int, int, int]:
    """How much a tape departs from calm: exceptions of the schedule, choices, their size."""
    values = [choice.value for entries in tape.choices.values() for choice in entries]
    return (len(tape.schedule), sum(1 for v in values if v), sum(values))


__all__ = ["PASSES", "BudgetSpent", "shrink", "weight"]
