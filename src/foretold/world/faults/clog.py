"""Clog: what is sent between two hosts from now on arrives when the clog is over.

What was on its way already still arrives. A congested link.
"""

from __future__ import annotations

from functools import partial

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground


class Clog(BetweenHosts):
    name = "clog"
    touches = "clogged_until_ns"

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        ground.world.network.clog(a, b, lasts_s)
        return partial(ground.unclog, a, b)
