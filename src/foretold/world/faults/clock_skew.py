"""Clock skew: a host's wall clock is wrong for a while, and may drift besides. Its monotonic clock
is right all the time, and a clock that the test has set wrong is left alone."""

from __future__ import annotations

from typing import Any

from foretold.tape import Stream
from foretold.world.faults.kind import OnHost, Undo
from foretold.world.faults.nemesis import Ground

SKEWS_S = (0.05, -0.05, 1.0, -1.0, 60.0, -60.0)
DRIFTS_PPM = (0.0, 50.0, -50.0, 500.0, -500.0)
"""A quartz is wrong by up to 100 ppm, the clock of a virtual machine by more."""


class ClockSkew(OnHost):
    """A time server that lies, or a clock nobody sets."""

    name = "clock_skew"

    def begin(self, ground: Ground, host: Any, choices: Stream) -> Undo:
        skew_s = choices.pick(SKEWS_S, "skew")
        drift_ppm = choices.pick(DRIFTS_PPM, "drift")
        clock = host.clock
        if not clock.is_right:
            return lambda: None
        clock.skew(skew_s)
        if drift_ppm:
            clock.drift(drift_ppm)
        changes = clock.changes

        def undo() -> None:
            if clock.changes == changes:
                if drift_ppm:
                    clock.drift(0)
                clock.skew(0)

        return undo
