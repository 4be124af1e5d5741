"""All entities with one set of components, column by column."""

from typing import Any, NewType

from examples.cardinal.bitmap import Bitmap
from examples.cardinal.bugs import planted
from examples.cardinal.component import ComponentRegistry
from examples.cardinal.sparse_set import SparseSet

EntityId = NewType("EntityId", int)


class Archetype:
    """Row i of each column belongs to `entities[i]`. Rows are dense: the last one fills a hole."""

    def __init__(self, number: int, components: Bitmap, registry: ComponentRegistry) -> None:
        self.number = number
        self.components = components
        self.kinds = {component: registry.type_of(component) for component in components}
        self.columns: dict[int, list[Any]] = {component: [] for component in self.kinds}
        """By component id, ascending."""
        self.entities: list[EntityId] = []
        self.rows = SparseSet()
        self._forgets_row = planted("moved_row_forgotten")

    def __len__(self) -> int:
        return len(self.entities)

    def add(self, entity: EntityId) -> int:
        """A row for the entity, with the zero value of each component."""
        assert self.rows.get(entity) is None, f"entity {entity} is in the archetype already"
        row = len(self.entities)
        self.rows.set(entity, row)
        self.entities.append(entity)
        for component, column in self.columns.items():
            column.append(self.kinds[component]())
        return row

    def remove(self, entity: EntityId) -> None:
        """The last row takes the place of the entity's."""
        row = self.row(entity)
        last = self.entities[-1]
        self.rows.remove(entity)
        for column in (self.entities, *self.columns.values()):
            column[row] = column[-1]
            column.pop()
        if last != entity and not self._forgets_row:
            self.rows.set(last, row)

    def move(self, entity: EntityId, target: "Archetype") -> None:
        """Into another archetype, with the components that both have."""
        if target is self:
            return
        row, new = self.row(entity), target.add(entity)
        for component, column in target.columns.items():
            if component in self.columns:
                column[new] = self.columns[component][row]
        self.remove(entity)

    def row(self, entity: EntityId) -> int:
        row = self.rows.get(entity)
        assert row is not None, f"entity {entity} is not in archetype {self.number}"
        return row

    def clear(self) -> None:
        """Forget all of it, in place."""
        self.components.clear()
        self.columns.clear()
        self.entities.clear()
        self.rows.clear()
