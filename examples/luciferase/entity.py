"""Entities, and the space in which they move."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Vector = tuple[float, float, float]
Stamp = tuple[int, int]
"""The version of an entity: (epoch, number). The number grows with each word about the entity. The
epoch grows whenever the number may have been forgotten: a new owner, a rollback, a restart."""
ID_LENGTH_MAX = 36


def checked_id(entity: str) -> str:
    """The id, if it can be one."""
    if not 1 <= len(entity) <= ID_LENGTH_MAX:
        raise ValueError(f"an entity id has 1 to {ID_LENGTH_MAX} characters: {entity!r}")
    return entity


@dataclass(slots=True)
class Entity:
    """Something that moves."""

    id: str
    position: Vector
    velocity: Vector = (0.0, 0.0, 0.0)
    stamp: Stamp = (0, 0)

    def next_epoch(self) -> None:
        self.stamp = (self.stamp[0] + 1, 0)

    def next_word(self) -> Stamp:
        """The version under which others are told about the entity now."""
        self.stamp = (self.stamp[0], self.stamp[1] + 1)
        return self.stamp

    def to_list(self) -> list[Any]:
        """For a message or the journal."""
        return [self.id, *self.position, *self.velocity, *self.stamp]

    @classmethod
    def from_list(cls, given: list[Any]) -> Entity:
        name, x, y, z, vx, vy, vz, epoch, number = given
        return cls(name, (x, y, z), (vx, vy, vz), (epoch, number))


@dataclass(frozen=True, slots=True)
class Region:
    """The ball that a bubble is responsible for."""

    center: Vector
    radius: float

    def distance(self, position: Vector) -> float:
        """How far a position is from the surface; negative inside."""
        return math.dist(self.center, position) - self.radius

    def clamp(self, position: Vector) -> Vector:
        """The nearest position inside."""
        away = math.dist(self.center, position)
        if away <= self.radius:
            return position
        share = self.radius / away
        return along(self.center, toward(self.center, position), share)


def along(position: Vector, velocity: Vector, seconds: float) -> Vector:
    """Where something is after a while."""
    return (
        position[0] + velocity[0] * seconds,
        position[1] + velocity[1] * seconds,
        position[2] + velocity[2] * seconds,
    )


def toward(one: Vector, other: Vector) -> Vector:
    return (other[0] - one[0], other[1] - one[1], other[2] - one[2])
