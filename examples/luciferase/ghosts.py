"""Ghosts: copies of entities that a neighbour owns, near the boundary between two bubbles.

    CREATED -> ACTIVE -> STALE -> EXPIRED

The owner sends what is near a neighbour once per bucket of 100 ms. The neighbour keeps the newest
version only: datagrams overtake each other, and a ghost never goes back. Between two words it
moves on by dead reckoning. Age is counted from when a word was heard, by the listener's own clock;
the clocks of two bubbles need not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import foretold
from examples.luciferase.bugs import planted
from examples.luciferase.clock import NANOS_PER_MILLI, Clock, SystemClock
from examples.luciferase.entity import Entity, Region, Stamp, Vector, along

BUCKET_MS = 100
STALE_MS = 300
EXPIRED_MS = 5 * BUCKET_MS
GHOSTS_MAX = 1_000
REMEMBERED_MAX = 4 * GHOSTS_MAX


class GhostState(Enum):
    """How far a ghost can be trusted."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    STALE = "STALE"
    EXPIRED = "EXPIRED"


@dataclass(slots=True)
class Ghost:
    """The last word about an entity of a neighbour."""

    entity: Entity
    owner: str
    bounds: Region
    heard_ns: int
    state: GhostState = GhostState.CREATED

    def age_ms(self, now_ns: int) -> float:
        """Negative if the clock went back; such a ghost is not stale."""
        return (now_ns - self.heard_ns) / NANOS_PER_MILLI

    def estimate(self, now_ns: int) -> Vector:
        """Where the entity probably is now, inside the bounds of its owner."""
        seconds = max(0.0, self.age_ms(now_ns)) / 1_000
        return self.bounds.clamp(along(self.entity.position, self.entity.velocity, seconds))


class GhostStateManager:
    """The ghosts of one bubble."""

    def __init__(self, clock: Clock | None = None, ghosts_max: int = GHOSTS_MAX) -> None:
        self.clock: Clock = clock or SystemClock()
        self.ghosts_max = ghosts_max
        self.ghosts: dict[str, Ghost] = {}
        self.duplicates = 0
        self._newest: dict[str, Stamp] = {}
        """Also of ghosts that have expired: a late datagram must not bring one back."""
        self._boundary: Region | None = None
        self._marked_ms: dict[str, int] = {}
        self._durations_ms: dict[str, int] = {}

    # --- words from the owner --------------------------------------------------------------------

    def hear(self, word: list[Any], owner: str, bounds: Region) -> bool:
        """Whether this word about an entity was news."""
        entity = Entity.from_list(word)
        newest = self._newest.get(entity.id)
        if newest is not None and entity.stamp <= newest and not planted("ghost_goes_back"):
            self.duplicates += 1
            return False
        self._newest.pop(entity.id, None)
        self._newest[entity.id] = entity.stamp
        ghost = self.ghosts.pop(entity.id, None)
        foretold.always(
            ghost is None or entity.stamp >= ghost.entity.stamp,
            "a ghost goes back to an older version",
            entity=entity.id,
            had=ghost and ghost.entity.stamp,
            heard=entity.stamp,
        )
        state = GhostState.CREATED if ghost is None else GhostState.ACTIVE
        self.ghosts[entity.id] = Ghost(entity, owner, bounds, self.clock.nanos(), state)
        self._evict()
        return True

    def forget(self, entity: str, stamp: Stamp) -> None:
        """The entity lives here from now on; older words about it mean nothing."""
        self.ghosts.pop(entity, None)
        self._newest[entity] = stamp

    def cull(self) -> list[str]:
        """Let time pass: ghosts become active, stale and expired. Those that expired now."""
        now_ns, expired = self.clock.nanos(), []
        for name, ghost in self.ghosts.items():
            age_ms = ghost.age_ms(now_ns)
            if age_ms >= EXPIRED_MS:
                ghost.state = GhostState.EXPIRED
                expired.append(name)
            elif age_ms >= STALE_MS:
                ghost.state = GhostState.STALE
            elif ghost.state is GhostState.CREATED:
                ghost.state = GhostState.ACTIVE
        for name in expired:
            del self.ghosts[name]
        return expired

    def estimate(self, entity: str) -> Vector:
        return self.ghosts[entity].estimate(self.clock.nanos())

    def _evict(self) -> None:
        """The oldest go first; each word puts its entity at the end."""
        while len(self.ghosts) > self.ghosts_max:
            del self.ghosts[next(iter(self.ghosts))]
        while len(self._newest) > REMEMBERED_MAX:
            del self._newest[next(iter(self._newest))]

    # --- the zone around a bubble, for a single process ------------------------------------------

    def set_clock(self, clock: Clock) -> None:
        self.clock = clock

    def set_ghost_boundary(self, boundary: Region) -> None:
        """Inside of it an entity is a ghost."""
        self._boundary = boundary

    def update_position(self, entity: str, position: Vector) -> None:
        """An entity has moved: into the zone, out of it, or neither."""
        if self._boundary is None:
            raise ValueError("where is the zone? call set_ghost_boundary first")
        is_inside = self._boundary.distance(position) <= 0
        if is_inside and not self.is_ghost(entity):
            self.mark_as_ghost(entity, self.clock.millis())
        elif not is_inside and self.is_ghost(entity):
            self.mark_as_local(entity, self.clock.millis())

    def mark_as_ghost(self, entity: str, timestamp: int) -> None:
        self._marked_ms.setdefault(entity, timestamp)

    def mark_as_local(self, entity: str, timestamp: int) -> None:
        since_ms = self._marked_ms.pop(entity, None)
        if since_ms is not None:
            self._durations_ms[entity] = timestamp - since_ms

    def is_ghost(self, entity: str) -> bool:
        return entity in self._marked_ms or entity in self.ghosts

    def get_ghost_duration(self, entity: str) -> int:
        """How long it is a ghost now, or was the last time, in milliseconds."""
        if entity in self._marked_ms:
            return self.clock.millis() - self._marked_ms[entity]
        return self._durations_ms.get(entity, 0)
