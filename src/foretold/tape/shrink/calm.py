"""Single choices back to calm: of all that was drawn, the fewest that still fail."""

from __future__ import annotations

from foretold.tape.shrink.edit import Spot, StillFails, departures, with_values
from foretold.tape.shrink.minimise import fewest
from foretold.tape.tape import Tape


def calm_choices(tape: Tape, still_fails: StillFails) -> Tape:
    """Make all choices calm but the fewest that are needed, wherever they stand."""
    drawn = departures(tape)

    def with_only(kept: list[Spot]) -> Tape:
        return with_values(tape, dict.fromkeys(set(drawn).difference(kept), 0))

    return fewest(tape, drawn, with_only, still_fails)
