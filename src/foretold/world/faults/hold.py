"""Hold: what is sent between two hosts waits for a while, and then all of it arrives in its order.

A switch with a full buffer, a virtual machine that is moved to another computer.
"""

from __future__ import annotations

from functools import partial

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground


class HoldMessages(BetweenHosts):
    name = "hold"
    touches = "held"

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        network = ground.world.network
        network.hold(a, b)
        return partial(network.release, a, b)
