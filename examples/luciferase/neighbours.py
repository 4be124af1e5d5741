"""Which bubbles a bubble knows: those in its area of interest, found through others.

JOIN asks an acceptor, which answers with the bubbles nearest to the newcomer. MOVE says where a
bubble is. LEAVE says goodbye. A neighbour beyond the area plus a margin is dropped; the margin
keeps one at the edge from being added and dropped again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

from examples.luciferase.entity import Region
from examples.luciferase.wire import Address, Message

K_NEAREST = 10
DROP_MARGIN = 10.0
SILENT_MS = 2_000


@dataclass(slots=True)
class Neighbour:
    """What is known of another bubble."""

    name: str
    region: Region
    address: Address
    heard_ns: int

    def to_message(self) -> Message:
        return {"name": self.name, **where(self.region, self.address)}


def where(region: Region, address: Address) -> Message:
    """The part of a message that says where a bubble is."""
    return {"center": region.center, "radius": region.radius, "address": address}


def region_of(message: Message) -> Region:
    x, y, z = message["center"]
    return Region((x, y, z), message["radius"])


class Neighbours:
    """The table of one bubble."""

    def __init__(self, name: str, region: Region, interest: float) -> None:
        self.name = name
        self.region = region
        self.interest = interest
        self.known: dict[str, Neighbour] = {}

    def heard(self, name: str, message: Message, now_ns: int) -> bool:
        """A bubble says, or another says of it, where it is. Whether that is news."""
        if name == self.name:
            return False
        region = region_of(message)
        host, port = message["address"]
        gap = self._gap(region)
        is_new = name not in self.known
        if gap <= self.interest or (not is_new and gap <= self.interest + DROP_MARGIN):
            self.known[name] = Neighbour(name, region, (host, port), now_ns)
            return is_new
        self.known.pop(name, None)
        return False

    def left(self, name: str) -> None:
        self.known.pop(name, None)

    def cull(self, now_ns: int) -> None:
        """Drop those that have been silent for long; JOIN finds them again."""
        for name, each in list(self.known.items()):
            if now_ns - each.heard_ns > SILENT_MS * 1_000_000:
                del self.known[name]

    def nearest(self, region: Region, without: str) -> list[Neighbour]:
        """The bubbles nearest to a region."""
        others = [each for each in self.known.values() if each.name != without]
        return sorted(others, key=lambda each: each.region.distance(region.center))[:K_NEAREST]

    def _gap(self, region: Region) -> float:
        return self.region.distance(region.center) - region.radius
