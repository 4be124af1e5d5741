"""Faults that come with single calls of a machine.

By itself the nemesis strikes at instants of virtual time. In a machine an instant means little:
when the shrinker leaves out a call, all later ones happen earlier, and the fault misses the one
that mattered. So in most runs of a machine a fault belongs to a call: it strikes so long after that
call began, is drawn from a stream that belongs to the call, and goes where the call goes. In the
other runs the nemesis keeps its plans, and also hits what goes on between calls.
"""

from __future__ import annotations

from foretold.tape import Stream
from foretold.world.world import World

SHARES = (0.1, 0.03, 0.3)
"""How many calls come with a fault, in one run or another."""
AFTER_S = (0.0, 1e-4, 3e-4, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""So long after the call began. A request between two hosts takes one or two milliseconds."""


class FaultsOfCalls:
    def __init__(self, world: World, head: Stream) -> None:
        self._world = world
        self._share = 0.0
        self._is_on = world.nemesis is not None and not head.weighted((3, 1), "faults at instants")
        if self._is_on and world.nemesis is not None:
            self._share = head.pick(SHARES, "share of calls with a fault")
            world.nemesis.forget_plans()

    def come_with(self, number: int) -> None:
        """A call begins: perhaps a fault comes with it."""
        nemesis = self._world.nemesis
        if not self._is_on or nemesis is None or not nemesis.timed or self._world.healed:
            return
        choices = self._world.tape.stream("fault", "call", number)
        weights = [float(kind.name in nemesis.drawn) for kind in nemesis.timed]
        share = self._share if any(weights) else 0.0
        # Weights, not chance(): what was chosen must be read also where nothing is likely any more.
        if choices.weighted((1 - share, share), "strikes"):
            kind = nemesis.timed[choices.weighted(weights, "kind")]
            nemesis.soon(kind, AFTER_S[choices.choose(len(AFTER_S), "after the call")], choices)
