"""Swizzle-clog: clog several hosts' links one after another, and unclog them in another order.

FoundationDB found it to bring out more bugs than any single cut: for a while every host sees
another part of the network.
"""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.faults.kind import Kind
from foretold.world.faults.nemesis import Ground

STEP_S = (0.02, 0.1, 0.3, 0.6)
LINKS_MAX = 4


class Swizzle(Kind):
    name = "swizzle"
    aims = True

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        network = ground.world.network
        taken: list[tuple[str, str]] = []
        try:
            for _ in range(2 + choices.choose(LINKS_MAX - 1, "links")):
                pair = ground.take_pair("held", lambda path: not path.held, choices)
                if pair is None:
                    break
                taken.append(pair)
                network.hold(*pair)
                yield choices.pick(STEP_S, "until the next")
            for pair in choices.shuffle(tuple(taken), "unclogged next"):
                taken.remove(pair)
                ground.give_back("held", pair)
                network.release(*pair)
                yield choices.pick(STEP_S, "until the next")
        finally:
            for pair in taken:
                ground.give_back("held", pair)
                network.release(*pair)
