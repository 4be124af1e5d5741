"""What the run was allowed to do besides: faults by chance, threads interrupted at every line.

A setting that only widens the search is left out where the failure does not need it. Those that say
how the test's world is (its clock, its limits) stay. So does what the search had learned: a replay
of the tape does not look at that `profile`, but one by seed takes it from here.
"""

from __future__ import annotations

from foretold.tape.shrink.edit import StillFails
from foretold.tape.tape import Tape

WIDENING = ("faults", "preempt")


def narrow_settings(tape: Tape, still_fails: StillFails) -> Tape:
    """Leave out each of the settings that is not needed."""
    for name in WIDENING:
        if tape.settings.get(name):
            fewer = {key: value for key, value in tape.settings.items() if key != name}
            candidate = tape.derived(settings=fewer)
            tape = candidate if still_fails(candidate) else tape
    return tape
