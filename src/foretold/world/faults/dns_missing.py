"""A name is not found for a while (NXDOMAIN): a name server has not heard of it yet."""

from __future__ import annotations

from collections.abc import Iterator

from foretold.tape import Stream
from foretold.world.faults.kind import LASTS_S, Kind
from foretold.world.faults.nemesis import Ground


class DnsMissing(Kind):
    name = "dns_missing"
    aims = True

    def strike(self, ground: Ground, choices: Stream) -> Iterator[float]:
        world = ground.world
        names = [name for name in ground.known_names() if name not in world.dns.missing]
        if not names:
            return
        name = choices.pick(names, "name")
        lasts_s = choices.pick(LASTS_S, "lasts")
        world.dns.missing.add(name)
        world.note_fault(f"the name {name} is not found")
        try:
            yield lasts_s
        finally:
            world.dns.missing.discard(name)
            world.note_fault(f"the name {name} is found again", is_over=True)
