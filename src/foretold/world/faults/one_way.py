"""One way: for a while nothing passes from one host to another, while the way back is open.

An asymmetric route or a half-broken link: requests arrive and their answers do not.
"""

from __future__ import annotations

from functools import partial

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground


class OneWay(BetweenHosts):
    name = "one_way"
    touches = "cut"

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        network = ground.world.network
        source, target = choices.pick([(a, b), (b, a)], "direction")
        network.partition(source, target, one_way=True)
        return partial(network.repair, a, b)
