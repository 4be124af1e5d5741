"""The entities of a bubble: by id, and by the cell of space they are in.

Worker threads read while the tick writes, so each method takes the lock once: no reader sees an
entity that is between two cells, or in a cell and not in the table.
"""

import threading
from collections.abc import Callable, Iterator

from examples.luciferase.bugs import planted
from examples.luciferase.entity import Entity, Vector

CELL = 8.0
Cell = tuple[int, int, int]


def cell_of(position: Vector) -> Cell:
    return (int(position[0] // CELL), int(position[1] // CELL), int(position[2] // CELL))


class EntityStore:
    """What a bubble owns, with a spatial index."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: dict[str, Entity] = {}
        self._cells: dict[Cell, set[str]] = {}

    def __contains__(self, entity: str) -> bool:
        return entity in self._table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Entity]:
        """All of them as they are now, in the order in which they came."""
        return iter(list(self._table.values()))

    def get(self, entity: str) -> Entity:
        return self._table[entity]

    def add(self, entity: Entity) -> None:
        with self._lock:
            self._table[entity.id] = entity
            self._enter(entity.id, cell_of(entity.position))

    def remove(self, entity: str) -> None:
        with self._lock:
            gone = self._table.pop(entity)
            self._leave(entity, cell_of(gone.position))

    def advance(self, step: Callable[[Entity], Vector]) -> None:
        """A tick: each entity goes where `step` says."""
        with self._lock:
            for entity in self._table.values():
                self._move(entity, step(entity))

    def push(self, entity: str, along_x: float) -> None:
        """A worker pushes an entity aside, if it is still here."""
        if planted("index_gap"):
            self._push_in_two_steps(entity, along_x)
            return
        with self._lock:
            pushed = self._table.get(entity)
            if pushed is not None:
                x, y, z = pushed.position
                self._move(pushed, (x + along_x, y, z))

    def _push_in_two_steps(self, entity: str, along_x: float) -> None:
        with self._lock:
            pushed = self._table.get(entity)
            if pushed is None:
                return
            self._leave(entity, cell_of(pushed.position))
        with self._lock:
            x, y, z = pushed.position
            pushed.position = (x + along_x, y, z)
            self._enter(entity, cell_of(pushed.position))

    def _move(self, entity: Entity, position: Vector) -> None:
        """Most moves stay in one cell."""
        old, new = cell_of(entity.position), cell_of(position)
        entity.position = position
        if old != new:
            self._leave(entity.id, old)
            self._enter(entity.id, new)

    def census(self) -> tuple[int, int]:
        """How many entities there are by the table, and how many by the index."""
        with self._lock:
            return len(self._table), sum(map(len, self._cells.values()))

    def near(self, position: Vector) -> list[str]:
        """The entities in the cell of a position."""
        with self._lock:
            return sorted(self._cells.get(cell_of(position), ()))

    def _enter(self, entity: str, cell: Cell) -> None:
        self._cells.setdefault(cell, set()).add(entity)

    def _leave(self, entity: str, cell: Cell) -> None:
        inside = self._cells.get(cell, set())
        inside.discard(entity)
        if not inside:
            self._cells.pop(cell, None)
