"""Partition: for a while nothing passes between two hosts, either way, and nobody is told.

A pulled cable, a firewall rule, a switch that restarts. TCP keeps sending; it gets through with its
next retransmission after the repair.
"""

from __future__ import annotations

from functools import partial

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground


class Partition(BetweenHosts):
    name = "partition"
    touches = "cut"

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        network = ground.world.network
        network.partition(a, b)
        return partial(network.repair, a, b)
