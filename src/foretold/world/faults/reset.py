"""Reset: every connection between two hosts breaks at once, as when a firewall lost its table."""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.faults.kind import Kind
from foretold.world.faults.nemesis import Ground


class Reset(Kind):
    name = "reset"
    aims = True

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        pair = ground.take_pair("reset", lambda path: True, choices)
        if pair is not None:
            ground.world.network.reset(*pair)
            ground.give_back("reset", pair)
        yield 0.0
