"""Shrinking: from a failing tape to the few choices that matter. One pass per file.

A pass takes a tape and a question, `still_fails(tape)`, and gives back a tape that still fails and
is no larger. Passes know nothing of programs; the order here is from coarse to fine, and they are
repeated until none of them makes progress or the budget is spent. No tape is asked about twice.

Schedule, faults, inputs, time and configuration lie on one tape, so they shrink together: towards
stock order, no fault, fewer operations, smaller values, fewer delays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping, Sequence

from foretold.tape.shrink.calls import drop_two_calls, first_actors_first, move_faults
from foretold.tape.shrink.calm import calm_choices
from foretold.tape.shrink.choices import lower_choices
from foretold.tape.shrink.configuration import narrow_settings
from foretold.tape.shrink.cut import cut_blocks
from foretold.tape.shrink.edit import StillFails, fingerprint, streams_of
from foretold.tape.shrink.holds import drop_holds, one_long_hold, two_into_one, until_someone_ended
from foretold.tape.shrink.slows import add_up_slows, drop_slows, shorten_slows
from foretold.tape.shrink.steps import drop_steps
from foretold.tape.shrink.together import add_up, lower_alike, lower_equal, one_large
from foretold.tape.shrink.whole import calm_streams, calm_world, one_of_many
from foretold.tape.tape import Tape

Pass = Callable[[Tape, StillFails], Tape]
Foresee = Callable[[Tape, Callable[[int], list[Tape]]], object]

PASSES: tuple[Pass, ...] = (
    calm_world,
    calm_streams,
    narrow_settings,
    drop_steps,
    one_long_hold,
    drop_slows,
    drop_holds,
    two_into_one,
    one_large,
    calm_choices,
    one_of_many,
    drop_two_calls,
    move_faults,
    first_actors_first,
    cut_blocks,
    lower_choices,
    lower_equal,
    lower_alike,
    add_up,
    add_up_slows,
    shorten_slows,
)

VALUE_PASSES: tuple[Pass, ...] = (lower_choices, lower_equal, lower_alike, add_up)


class BudgetSpent(Exception):
    """Raised by `still_fails` when no further run is allowed."""


def shrink(tape: Tape, still_fails: StillFails, foresee: Foresee | None = None) -> Tape:
    """The smallest failing tape that the passes find. `still_fails` may raise `BudgetSpent`.

    Before each question `foresee` is given the tape in question and a function. `likely(n)` returns
    the next n tapes that will be asked about, this one included, if none of them fails.
    """
    best = begin = tape
    known: dict[Hashable, bool] = {fingerprint(tape): True}
    passes: Sequence[Pass] = PASSES
    left: Sequence[Pass] = PASSES

    def asked(candidate: Tape) -> bool:
        nonlocal best
        key = fingerprint(candidate)
        if key not in known:
            if foresee is not None:
                foresee(candidate, lambda n: _likely(begin, left, known, n))
            known[key] = still_fails(candidate)
        if known[key]:
            best = candidate
        return known[key]

    reworded = False
    try:
        while True:
            before = weight(best)
            for number, shrink_pass in enumerate(passes):
                begin, left = best, passes[number:]
                best = shrink_pass(best, asked)
            after = weight(best)
            if after >= before:
                begin, left = best, (until_someone_ended,)
                former, best = best, until_someone_ended(best, asked)
                if best is former or reworded or after[:2] == (1, 0):
                    return best
                # "Until b had ended" stays true where "until the 40th callback" does not: with
                # holds in better words more of the rest can go.
                passes, reworded = PASSES, True
                continue
            # Where only values got smaller, there is nothing new to leave out.
            passes = PASSES if after[:-1] < before[:-1] else VALUE_PASSES
    except BudgetSpent:
        return best


class _Enough(Exception):
    """So many were wanted."""


def _likely(
    begin: Tape, passes: Sequence[Pass], known: Mapping[Hashable, bool], number: int
) -> list[Tape]:
    """What these passes ask about next, if all that is not known holds."""
    found: dict[Hashable, Tape] = {}

    def guess(candidate: Tape) -> bool:
        key = fingerprint(candidate)
        if key not in known:
            found[key] = candidate
            if len(found) >= number:
                raise _Enough
        return known.get(key, False)

    with contextlib.suppress(_Enough):
        for each in passes:
            begin = each(begin, guess)
    return list(found.values())


def weight(tape: Tape) -> tuple[int, int, int, int, int]:
    """How much a tape departs from calm: exceptions of the schedule, choices, how many, their size.

    A setting that widens the search counts like a choice.
    """
    values = [value for stream in streams_of(tape).values() for value in stream]
    chosen = sum(1 for v in values if v)
    return (len(tape.schedule), chosen, len(tape.settings), len(values), sum(values))


__all__ = ["PASSES", "BudgetSpent", "shrink", "weight"]
