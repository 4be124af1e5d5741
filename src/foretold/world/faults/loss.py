"""Loss: for a while some packets between two hosts are lost. TCP sends them again, UDP does not."""

from __future__ import annotations

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground
from foretold.world.net.path import Path

SHARES = (0.02, 0.1, 0.3, 0.6)


class Loss(BetweenHosts):
    """A bad link."""

    name = "loss"
    touches = "loss"

    def is_untouched(self, path: Path) -> bool:
        return not path.loss

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        world = ground.world
        share = choices.pick(SHARES, "share")
        world.network.loss(share, between=(a, b))

        def undo() -> None:
            world.network.loss(0.0, between=(a, b))

        return undo


LOSS = Loss()
