"""Slow resolution: for a while each look-up of a name takes long."""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.faults.kind import LASTS_S, Kind
from foretold.world.faults.nemesis import Ground

SLOW_S = (0.1, 0.5, 2.0, 5.0)
"""5 s is what glibc waits for a name server before it asks the next."""


class DnsSlow(Kind):
    name = "dns_slow"

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        world = ground.world
        if world.dns.slow_s or not ground.known_names():
            return
        lasts_s = choices.pick(LASTS_S, "lasts")
        world.dns.slow_s = choices.pick(SLOW_S, "look-up takes")
        world.note_fault(f"looking up a name takes {world.dns.slow_s:g} s")
        try:
            yield lasts_s
        finally:
            world.dns.slow_s = 0.0
            world.note_fault("looking up a name is quick again", is_over=True)
