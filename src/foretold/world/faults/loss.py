"""Loss: for a while some packets between two hosts are lost. TCP sends them again, UDP does not."""

from __future__ import annotations

from foretold.world.faults.kind import SomePackets


class Loss(SomePackets):
    name = "loss"
    touches = "loss"
    shares = (0.02, 0.1, 0.3, 0.6)
