"""The state of a world: entities, and in which archetype each of them is.

An id is given out in ascending order. One that was destroyed is used again, oldest first, but not
before the tick is over: whatever still names the entity in this tick must not meet another one.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from examples.cardinal.archetype import Archetype, EntityId
from examples.cardinal.bitmap import Bitmap
from examples.cardinal.bugs import planted
from examples.cardinal.component import ComponentRegistry, UnknownComponent
from examples.cardinal.sparse_set import SparseSet

VOID = 0
"""The archetype without components, always the first."""


class NoSuchEntity(LookupError):
    """It was destroyed, or never created."""


class NoSuchComponent(LookupError):
    """The entity does not have it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to an entity: created, destroyed, or moved between archetypes."""

    entity: EntityId
    before: int | None
    after: int | None
    """Sets of component ids as integers; None where there is no entity."""


class State:
    """Archetypes by their set of components; the void archetype is always there."""

    def __init__(self, registry: ComponentRegistry) -> None:
        self.registry = registry
        self.next_id = 0
        self.free: deque[EntityId] = deque()
        self.resting: list[EntityId] = []
        """Destroyed in this tick."""
        self.where = SparseSet()
        """The archetype of each entity."""
        self.archetypes: list[Archetype] = []
        self.by_set: dict[int, Archetype] = {}
        self.changes: list[Change] = []
        """Of this tick, for those who follow the world."""
        self._too_early = planted("free_list_too_early")
        self._believes = planted("has_unregistered")
        self.archetype_of(Bitmap())

    def archetype_of(self, components: Bitmap) -> Archetype:
        """The one with exactly this set; made if there is none."""
        found = self.by_set.get(components.as_int())
        if found is None:
            found = Archetype(len(self.archetypes), components.copy(), self.registry)
            self.archetypes.append(found)
            self.by_set[components.as_int()] = found
        return found

    def home_of(self, entity: EntityId) -> Archetype:
        number = self.where.get(entity)
        if number is None:
            raise NoSuchEntity(f"there is no entity {entity}")
        return self.archetypes[number]

    # --- entities --------------------------------------------------------------------------------

    def create(self) -> EntityId:
        if self.free:
            entity = self.free.popleft()
        else:
            entity = EntityId(self.next_id)
            self.next_id += 1
        self.archetypes[VOID].add(entity)
        self.where.set(entity, VOID)
        self.changes.append(Change(entity, None, 0))
        return entity

    def destroy(self, entity: EntityId) -> None:
        home = self.home_of(entity)
        home.remove(entity)
        self.where.remove(entity)
        (self.free if self._too_early else self.resting).append(entity)
        self.changes.append(Change(entity, home.components.as_int(), None))

    def is_alive(self, entity: EntityId) -> bool:
        return self.where.get(entity) is not None

    def entities(self) -> list[EntityId]:
        return [entity for each in self.archetypes for entity in each.entities]

    # --- components ------------------------------------------------------------------------------

    def set(self, entity: EntityId, component: int, value: Any) -> None:
        """Replace a value; an entity without the component gets it, and moves."""
        home = self.home_of(entity)
        if component not in home.columns:
            target = home.components.copy()
            target.add(component)
            home = self._move(entity, home, target)
        home.columns[component][home.row(entity)] = value

    def remove(self, entity: EntityId, component: int) -> None:
        """An absent component stays absent."""
        home = self.home_of(entity)
        if component in home.columns:
            target = home.components.copy()
            target.discard(component)
            self._move(entity, home, target)

    def _move(self, entity: EntityId, home: Archetype, components: Bitmap) -> Archetype:
        target = self.archetype_of(components)
        home.move(entity, target)
        self.where.set(entity, target.number)
        change = Change(entity, home.components.as_int(), target.components.as_int())
        self.changes.append(change)
        return target

    def get(self, entity: EntityId, component: int) -> Any:
        home = self.home_of(entity)
        if component not in home.columns:
            name = self.registry.names()[component]
            raise NoSuchComponent(f"entity {entity} has no {name}")
        return home.columns[component][home.row(entity)]

    def has(self, entity: EntityId, name: str) -> bool:
        """Of a component that nobody has registered, no entity has one."""
        home = self.home_of(entity)
        try:
            return self.registry.id_of(name) in home.columns
        except UnknownComponent:
            return self._believes

    # --- queries ---------------------------------------------------------------------------------

    def exactly(self, components: Iterable[int]) -> list[Archetype]:
        """The archetype with this set and nothing else."""
        found = self.by_set.get(_bits(components))
        return [] if found is None else [found]

    def containing(self, components: Iterable[int]) -> list[Archetype]:
        """All archetypes that have these components, and perhaps others; of none: all."""
        wanted = _bits(components)
        return [each for bits, each in self.by_set.items() if bits & wanted == wanted]

    def rows(self, archetypes: list[Archetype], wanted: list[int]) -> Iterator[tuple[Any, ...]]:
        """(entity, value, …) for each entity, as they are now: what the caller changes meanwhile
        does not disturb it."""
        for each in archetypes:
            columns = [each.columns[component] for component in wanted]
            yield from list(zip(each.entities, *columns, strict=True))

    # --- ticks -----------------------------------------------------------------------------------

    def begin_tick(self) -> None:
        self.changes = []

    def end_tick(self) -> None:
        """Now the ids of those that were destroyed may be used again."""
        self.free.extend(self.resting)
        self.resting = []

    def clear(self) -> None:
        """No entity, no archetype but the void one. What is registered stays."""
        for each in self.archetypes:
            each.clear()
        self.archetypes, self.by_set = [], {}
        self.next_id = 0
        self.free.clear()
        self.resting, self.changes = [], []
        self.where.clear()
        self.archetype_of(Bitmap())


def _bits(components: Iterable[int]) -> int:
    return sum(1 << component for component in set(components))
