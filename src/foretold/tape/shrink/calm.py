"""Single choices back to calm: of all that was drawn, the fewest that still fail."""

from __future__ import annotations

from collections.abc import Callable

from foretold.tape.shrink.edit import Spot, departures, with_values
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.tape import Tape


def calm_choices(tape: Tape, still_fails: Callable[[Tape], bool]) -> Tape:
    """Make all choices calm but the fewest that are needed, wherever they stand."""
    best = tape
    drawn = departures(tape)

    def fails_with(kept: list[Spot]) -> bool:
        nonlocal best
        candidate = with_values(tape, dict.fromkeys(set(drawn).difference(kept), 0))
        if still_fails(candidate):
            best = candidate
            return True
        return False

    smallest_sublist(drawn, fails_with)
    return best
