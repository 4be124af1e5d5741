"""Systems: functions that advance the world, and what each of them may touch.

A system that declares what it reads and writes may run at the same time as others that it does not
disturb. It may replace components, never create or destroy anything, because that moves rows that
others are reading. A system without a declaration may do everything and runs alone.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from examples.cardinal.archetype import EntityId
from examples.cardinal.bugs import planted
from examples.cardinal.commands import Command, CommandManager
from examples.cardinal.events import DEFAULT, INTER_SHARD, Event
from examples.cardinal.state import State

T = TypeVar("T")
Run = Callable[["SystemContext"], None]


class Hook(enum.Enum):
    """When a system runs: once in a new world, or in each tick, in this order."""

    INIT = "init"
    PRE_UPDATE = "pre-update"
    UPDATE = "update"
    POST_UPDATE = "post-update"


EACH_TICK = (Hook.PRE_UPDATE, Hook.UPDATE, Hook.POST_UPDATE)


class UndeclaredAccess(RuntimeError):
    """A system touches what it has not declared, so that the scheduler cannot know of it."""


class System:
    """A registered function."""

    def __init__(
        self,
        run: Run,
        hook: Hook,
        reads: Iterable[type] | None,
        writes: Iterable[type] | None,
    ) -> None:
        self.run = run
        self.name = run.__name__
        self.hook = hook
        self.exclusive = reads is None and writes is None
        self.writes = frozenset(writes or ())
        self.reads = frozenset(reads or ()) | self.writes

    def disturbs(self, later: "System") -> bool:
        """Whether a system that is registered later has to wait for this one."""
        if self.exclusive or later.exclusive:
            return True
        if self.writes & later.reads:  # `reads` holds what it writes, too
            return True
        return bool(self.reads & later.writes) and not planted("system_race")


def waits_of(systems: list[System]) -> list[list[int]]:
    """For each system the earlier ones that it waits for, in the order of registration."""
    return [
        [j for j in range(i) if systems[j].disturbs(system)] for i, system in enumerate(systems)
    ]


class SystemEvents:
    """What systems tell each other within one tick."""

    def __init__(self) -> None:
        self._kept: dict[type, list[Any]] = {}

    def add(self, event: Any) -> None:
        self._kept.setdefault(type(event), []).append(event)

    def of(self, kind: type[T]) -> list[T]:
        return list(self._kept.get(kind, ()))

    def clear(self) -> None:
        self._kept.clear()


class SystemContext:
    """The world as a system sees it."""

    def __init__(
        self, system: System, state: State, commands: CommandManager, signals: SystemEvents
    ) -> None:
        self._system = system
        self._state = state
        self._commands = commands
        self._signals = signals
        self.emitted: list[Event] = []
        """In this hook. The world collects them in the order of registration, whoever was first."""
        self.now_s = 0.0
        self.height = 0

    # --- the tick --------------------------------------------------------------------------------

    def commands(self, kind: type[T]) -> list[Command[T]]:
        """Those of this tick, in the order in which they came."""
        return self._commands.of(kind)

    def emit(self, payload: Any, to: str | None = None) -> None:
        """Tell the players: all of them, or one persona."""
        self.emitted.append(Event(DEFAULT, to or "*", payload))

    def send(self, shard: str, payload: Any) -> None:
        """A command for another shard, under this world's name."""
        self.emitted.append(Event(INTER_SHARD, shard, payload))

    def signal(self, event: Any) -> None:
        """Tell the systems that run later in this tick."""
        self._check(type(event), self._system.writes, "writes")
        self._signals.add(event)

    def signals(self, kind: type[T]) -> list[T]:
        self._check(kind, self._system.reads, "reads")
        return self._signals.of(kind)

    # --- entities --------------------------------------------------------------------------------

    def create(self, *components: Any) -> EntityId:
        self._check_alone("creates an entity")
        entity = self._state.create()
        for each in components:
            self._state.set(entity, self._id(type(each)), each)
        return entity

    def destroy(self, entity: EntityId) -> None:
        self._check_alone("destroys an entity")
        self._state.destroy(entity)

    def remove(self, entity: EntityId, kind: type) -> None:
        self._check_alone("removes a component")
        self._state.remove(entity, self._id(kind))

    def set(self, entity: EntityId, value: Any) -> None:
        """Give the entity this component, or replace it."""
        kind = type(value)
        self._check(kind, self._system.writes, "writes")
        component = self._id(kind)
        if not self._system.exclusive and component not in self._state.home_of(entity).columns:
            self._check_alone("adds a component")
        self._state.set(entity, component, value)

    def is_alive(self, entity: EntityId) -> bool:
        return self._state.is_alive(entity)

    def has(self, entity: EntityId, kind: type) -> bool:
        """False also for an entity that does not exist."""
        return self._state.is_alive(entity) and self._state.has(entity, kind.__name__)

    def get(self, entity: EntityId, kind: type[T]) -> T:
        self._check(kind, self._system.reads, "reads")
        value: T = self._state.get(entity, self._id(kind))
        return value

    def find(self, *kinds: type) -> list[tuple[Any, ...]]:
        """(entity, component, …) of all that have these components; of none: every entity."""
        wanted = self._wanted(kinds)
        return list(self._state.rows(self._state.containing(wanted), wanted))

    def find_exactly(self, *kinds: type) -> list[tuple[Any, ...]]:
        """The same of those that have no other component."""
        wanted = self._wanted(kinds)
        return list(self._state.rows(self._state.exactly(wanted), wanted))

    def _wanted(self, kinds: tuple[type, ...]) -> list[int]:
        for kind in kinds:
            self._check(kind, self._system.reads, "reads")
        return [self._id(kind) for kind in kinds]

    def _id(self, kind: type) -> int:
        return self._state.registry.id_of(kind.__name__)

    def _check(self, kind: type, declared: frozenset[type], word: str) -> None:
        if not self._system.exclusive and kind not in declared:
            raise UndeclaredAccess(
                f"system {self._system.name} {word} {kind.__name__} and does not declare it: "
                f"write world.system({self._system.name}, {word}=({kind.__name__}, …))"
            )

    def _check_alone(self, deed: str) -> None:
        if not self._system.exclusive:
            raise UndeclaredAccess(
                f"system {self._system.name} {deed}, which a system that declares what it reads "
                "and writes may not do: leave out `reads` and `writes`, and it runs alone"
            )
