"""Slow: every message between two hosts takes many times as long for a while."""

from __future__ import annotations

from functools import partial

from foretold.tape import Stream
from foretold.world.faults.kind import BetweenHosts, Undo
from foretold.world.faults.nemesis import Ground
from foretold.world.net.path import Path

FACTORS = (10.0, 50.0, 200.0, 1000.0)


class SlowNetwork(BetweenHosts):
    name = "slow"
    touches = "factor"

    def is_untouched(self, path: Path) -> bool:
        return path.factor == 1.0

    def begin(self, ground: Ground, a: str, b: str, lasts_s: float, choices: Stream) -> Undo:
        factor = choices.pick(FACTORS, "factor")
        for path in ground.paths(a, b):
            path.inject(factor=factor)
            path.spikes += 1
        ground.world.note_fault(f"slow {a} <-> {b} by {factor:g}")
        return partial(_undo, ground, a, b)


def _undo(ground: Ground, a: str, b: str) -> None:
    for path in ground.paths(a, b):
        path.recover("factor")
        path.spikes -= 1
    ground.world.note_fault(f"slow {a} <-> {b} over", is_over=True)
