"""Latency: for a while the way between two hosts is long: another route, or a full queue.

Both ways or one: routes are often not the same there and back. Unlike `slow` it does not depend on
how fast the way is otherwise.
"""

from __future__ import annotations

from foretold.kernel.clock import to_ns
from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground
from foretold.world.net.path import Path

RANGES_S = ((0.02, 0.1), (0.1, 0.4), (0.3, 1.0), (0.5, 2.0))


class Latency(BetweenHosts):
    name = "latency"
    touches = "latency"

    def is_untouched(self, path: Path) -> bool:
        return True

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        world = ground.world
        low_s, high_s = choices.pick(RANGES_S, "latency")
        there, back = ground.paths(a, b)
        paths, arrow = choices.pick(
            [([there, back], "<->"), ([there], "->"), ([back], "<-")], "direction"
        )
        for path in paths:
            path.inject(low_ns=to_ns(low_s), high_ns=to_ns(high_s))
            path.spikes += 1
        world.note_fault(f"latency {a} {arrow} {b} of {low_s:g} to {high_s:g} s")

        def undo() -> None:
            for path in paths:
                path.recover("low_ns", "high_ns")
                path.spikes -= 1
            world.note_fault(f"latency {a} {arrow} {b} as before", is_over=True)

        return undo
