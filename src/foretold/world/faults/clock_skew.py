"""Clock skew: a host's wall clock is wrong for a while. Its monotonic clock is not."""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnHost, Undo
from foretold.world.faults.nemesis import Ground

SKEWS_S = (0.05, -0.05, 1.0, -1.0, 60.0, -60.0)


class ClockSkew(OnHost):
    """A time server that lies, or a clock nobody sets."""

    name = "clock_skew"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        skew_s = choices.pick(SKEWS_S, "skew")
        host.clock.skew(skew_s)
        ground.world.note_fault(f"the clock of {host.name} is wrong by {skew_s:+g} s")

        def undo() -> None:
            host.clock.skew(0)
            ground.world.note_fault(f"the clock of {host.name} is right again")

        return undo


CLOCK_SKEW = ClockSkew()
