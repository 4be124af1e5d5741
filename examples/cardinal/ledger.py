"""The model beside a world: lists and dicts, too simple to be wrong.

It knows which entities live and which components they have, which commands were accepted, how many
of them each snapshot holds, and what the world looked like when the snapshot was taken.
"""

from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from examples.cardinal.commands import Command
from examples.cardinal.state import Change
from examples.cardinal.world import World

Home = tuple[int, list[int], dict[int, list[Any]]]
NO_HOME: Home = (0, [], {})


@dataclass(frozen=True)
class Portrait:
    """All that a world is between two ticks. Values are never changed, so lists are enough."""

    height: int
    now_s: float
    next_id: int
    free: list[int]
    homes: list[Home]
    """Of each archetype its components, its entities and its columns."""


def portrait(world: World) -> Portrait:
    """The world as it is now."""
    state = world.core.state
    homes: list[Home] = []
    for each in state.archetypes:
        columns = {component: list(column) for component, column in each.columns.items()}
        homes.append((each.components.as_int(), [*each.entities], columns))
    return Portrait(world.height, world.now_s, state.next_id, list(state.free), homes)


def difference(world: World, here: Portrait, there: Portrait) -> str | None:
    """The first thing in which `here` is not what it should be; None if there is none."""
    if here == there:
        return None
    for field_name in ("height", "now_s", "next_id", "free"):
        one, other = getattr(here, field_name), getattr(there, field_name)
        if one != other:
            return f"{field_name} is {one}, and should be {other}"
    for mine, right in zip_longest(here.homes, there.homes, fillvalue=NO_HOME):
        if mine[:2] != right[:2]:
            return (
                f"the entities with {_names(world, right[0])} should be {right[1]}; there are "
                f"{mine[1]} with {_names(world, mine[0])}"
            )
        for component, column in right[2].items():
            found = mine[2].get(component, [])
            for entity, one, other in zip(right[1], found, column, strict=False):
                if one != other:
                    return f"entity {entity} has {one}, and should have {other}"
    return "an archetype has other columns"


def _names(world: World, bits: int) -> str:
    names = world.core.registry.names()
    return ", ".join(name for number, name in enumerate(names) if bits >> number & 1) or "nothing"


def residents(world: World) -> dict[int, int]:
    """Of each entity its components, as they are stored."""
    found: dict[int, int] = {}
    for each in world.core.state.archetypes:
        if each.entities:
            found.update(dict.fromkeys(each.entities, each.components.as_int()))
    return found


@dataclass(frozen=True)
class Remembered:
    """A snapshot that was stored."""

    portrait: Portrait
    accepted: int
    """How many commands are part of it."""


@dataclass
class Ledger:
    """What ought to be true of a world."""

    living: dict[int, int] = field(default_factory=dict)
    accepted: list[Command[Any]] = field(default_factory=list)
    done: int = 0
    """So many of them were taken by ticks."""
    snapshots: dict[int, Remembered] = field(default_factory=dict)
    """Those that can be read, by their number in the store."""
    moves: set[tuple[int | None, int | None]] = field(default_factory=set)
    """From which set of components to which."""
    _groups: list[list[int]] | None = None

    @property
    def waiting(self) -> list[Command[Any]]:
        return self.accepted[self.done :]

    def groups(self) -> list[list[int]]:
        """The living by their components."""
        if self._groups is None:
            groups: dict[int, list[int]] = {}
            for entity in sorted(self.living):
                groups.setdefault(self.living[entity], []).append(entity)
            self._groups = list(groups.values())
        return self._groups

    def follow(self, changes: list[Change]) -> None:
        """Make the changes of a tick, each of which must be possible."""
        if changes:
            self._groups = None
        destroyed: set[int] = set()
        for change in changes:
            entity, known = change.entity, self.living.get(change.entity)
            assert known == change.before, (
                f"entity {entity} had {known}, and is said to have had {change.before} (components)"
            )
            if change.before is None:
                assert entity not in destroyed, (
                    f"entity {entity} was destroyed and created again in one tick: whatever names "
                    "it means another one now"
                )
            if change.after is None:
                destroyed.add(entity)
                del self.living[entity]
            else:
                self.living[entity] = change.after
            self.moves.add((change.before, change.after))

    def compare(self, world: World) -> None:
        """The entities of the world are the model's."""
        stored = residents(world)
        assert stored == self.living, f"entities are {stored}, and should be {self.living}"

    def take(self, world: World) -> None:
        """A tick has taken all commands that waited, each kind in order."""
        waiting, took = self.waiting, world.commands.taken()
        if waiting or took:
            wanted, taken = _by_kind(waiting), _by_kind(took)
            assert taken == wanted, f"the tick took {taken}, and {wanted} were waiting"
        self.done = len(self.accepted)

    def restored(self, world: World, found: Remembered | None) -> None:
        """The world is what it was, and commands that came later wait again."""
        if found is not None:
            right = replace(found.portrait, height=found.portrait.height + 1)
            wrong = difference(world, portrait(world), right)
            assert wrong is None, f"the restored world is not the stored one: {wrong}"
        else:
            assert world.height == 0, "without a snapshot the world begins anew"
        self.done = found.accepted if found is not None else 0
        again = list(world.commands.waiting())
        assert again == self.waiting, (
            f"commands that no snapshot holds are done later, each once: {again} wait, and "
            f"{self.waiting} should"
        )
        self._settle(world)

    def forget(self, world: World) -> None:
        """The world was reset."""
        assert world.height == 0, "a new world begins with tick 0"
        assert not world.commands.waiting(), "a new world has no commands"
        self.accepted, self.done = [], 0
        self._settle(world)

    def _settle(self, world: World) -> None:
        """Another world: its entities are taken over."""
        self.living, self._groups = residents(world), None


def _by_kind(commands: list[Command[Any]]) -> dict[type, list[Command[Any]]]:
    found: dict[type, list[Command[Any]]] = {}
    for command in commands:
        found.setdefault(type(command.payload), []).append(command)
    return found
