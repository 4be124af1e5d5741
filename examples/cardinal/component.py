"""Which kinds of components there are: names, ids, types."""

import re

from examples.cardinal.codec import fields_of

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class UnknownComponent(LookupError):
    """Nobody has registered it: `world.component(Health)`."""


class ComponentRegistry:
    """A component's id is the number of components that were registered before it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._types: list[type | None] = []

    def register(self, name: str, kind: type | None = None) -> int:
        """The id of the name: a new one, or the one that it has already."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a component: a letter, then word characters")
        if name not in self._ids:
            if kind is not None:
                fields_of(kind)  # refuses what could not be stored
            self._ids[name] = len(self._types)
            self._types.append(kind)
        return self._ids[name]

    def id_of(self, name: str) -> int:
        if name not in self._ids:
            raise UnknownComponent(f"no component is called {name!r}: register it first")
        return self._ids[name]

    def type_of(self, number: int) -> type:
        kind = self._types[number]
        assert kind is not None, f"component {number} has no type"
        return kind

    def names(self) -> list[str]:
        """In the order of their ids."""
        return list(self._ids)

    def __len__(self) -> int:
        return len(self._types)
