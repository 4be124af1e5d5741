"""examples/cardinal, part by part: data structures against models that are obviously right.

Each test makes the same operations on both sides and compares every result, and the state at the
end. Where the space is small enough, all of it is tried.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from examples.cardinal.archetype import Archetype, EntityId
from examples.cardinal.bitmap import Bitmap
from examples.cardinal.component import ComponentRegistry, UnknownComponent
from examples.cardinal.events import DEFAULT, Event, EventManager
from examples.cardinal.sparse_set import SparseSet
from examples.cardinal.state import State
from tests.helpers import soak

NAMES = st.integers(0, 40).map(lambda number: f"c{number}")
KEYS = st.integers(0, 300)


class RegistryModel:
    """A dict: the first registration of a name counts."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def register(self, name: str) -> int:
        """As many as were there before."""
        return self.ids.setdefault(name, len(self.ids))

    def look(self, name: str) -> int:
        """Unknown names are refused."""
        if name not in self.ids:
            raise foretold.Refused("unknown")
        return self.ids[name]

    def state(self) -> dict[str, int]:
        """All of it."""
        return dict(self.ids)


class Registry(foretold.Machine):
    """The registry of components beside the dict."""

    actors = 1
    steps = 300
    model = RegistryModel

    def setup(self) -> None:  # type: ignore[override]  # a plain method may set up, too
        """A new one for each run."""
        self.registry = ComponentRegistry()

    @foretold.rule(name=NAMES)
    def register(self, name: str) -> int:
        """A name, perhaps once more."""
        return self.registry.register(name)

    @foretold.rule(name=NAMES)
    def look(self, name: str) -> int:
        """A name that is probably known."""
        try:
            return self.registry.id_of(name)
        except UnknownComponent:
            raise foretold.Refused("unknown") from None

    def state(self) -> dict[str, int]:
        """Each name with its id."""
        return {name: self.registry.id_of(name) for name in self.registry.names()}


class ForgetfulRegistry(Registry):
    """A registry with a mistake: a name that is registered again gets a new id."""

    @foretold.rule(name=NAMES)
    def register(self, name: str) -> int:
        """Forgets the name if there are many."""
        if len(self.registry) > 10:
            self.registry._ids.pop(name, None)
        return self.registry.register(name)


def test_the_registry_is_a_dict() -> None:
    """Duplicates give the old id, look-ups agree, and so do all names at the end."""
    outcome = foretold.explore(Registry, runs=10, seed=1, confirm=False)
    assert outcome.failure is None, outcome.failure.story
    assert all(rule.succeeded for rule in outcome.tally.rules.values())


@pytest.mark.soak
def test_the_registry_is_a_dict_for_long() -> None:
    """10,000 operations in a run."""
    assert foretold.run(Registry, seed=1, steps=10_000).error is None


def test_a_registry_that_forgets_is_found() -> None:
    """The test above can fail."""
    outcome = foretold.explore(ForgetfulRegistry, runs=20, seed=1, confirm=False, shrink=False)
    assert outcome.failure is not None


@pytest.mark.parametrize("name", ["", "1st", "a-b", "é", "a b"])
def test_names_of_components_are_words(name: str) -> None:
    """A letter or underscore, then word characters."""
    with pytest.raises(ValueError, match="is no name of a component"):
        ComponentRegistry().register(name)


class Structures(foretold.Machine):
    """A bitmap beside a set, and a sparse set beside a dict."""

    actors = 1
    steps = 200

    def setup(self) -> None:  # type: ignore[override]  # a plain method may set up, too
        """All empty."""
        self.bitmap, self.numbers = Bitmap(), set[int]()
        self.sparse, self.values = SparseSet(), dict[int, int]()

    @foretold.rule(key=KEYS, value=KEYS)
    def put(self, key: int, value: int) -> None:
        """Into both pairs."""
        self.bitmap.add(key)
        self.numbers.add(key)
        self.sparse.set(key, value)
        self.values[key] = value

    @foretold.rule(key=KEYS)
    def drop(self, key: int) -> None:
        """Out of both pairs."""
        self.bitmap.discard(key)
        self.numbers.discard(key)
        assert self.sparse.remove(key) == (self.values.pop(key, None) is not None)

    @foretold.rule()
    def store(self) -> None:
        """A bitmap in a snapshot and back: a multiple of 8 bytes, and a copy."""
        words = bytearray(self.bitmap.to_words())
        assert len(words) % 8 == 0
        self.bitmap = Bitmap.from_words(memoryview(words))
        words[:] = bytes(len(words))

    @foretold.invariant()
    def both_are_equal(self) -> int:
        """Contents and sizes agree."""
        assert list(self.bitmap) == sorted(self.numbers)
        assert len(self.bitmap) == len(self.numbers)
        assert dict(self.sparse.items()) == self.values
        assert len(self.sparse) == len(self.values)
        return len(self.values)


def test_bitmaps_are_sets_and_sparse_sets_are_dicts() -> None:
    """Random operations on both; the bitmap also goes through its stored form."""
    outcome = foretold.explore(Structures, runs=5, seed=1, confirm=False)
    assert outcome.failure is None, outcome.failure.story


@pytest.mark.parametrize("bug", ["bitmap_words", "bitmap_aliasing"])
def test_a_bitmap_that_is_stored_wrongly_is_found(bug: str) -> None:
    """The part alone shows the mistakes of its stored form."""
    outcome = foretold.explore(Structures, runs=20, seed=1, confirm=False, shrink=False, mutant=bug)
    assert outcome.failure is not None


# ---------------------------------------------------------------- the queue of events

CAPACITY = 16


async def overfill() -> list[Any]:
    """Three times as many events as the channel holds, then one dispatch."""
    manager, got = EventManager(CAPACITY), list[Any]()
    manager.handlers[DEFAULT].append(lambda event: got.append(event.payload))
    for number in range(3 * CAPACITY):
        manager.enqueue(Event(DEFAULT, "*", number))
    assert not await manager.dispatch()
    return got


def test_a_full_channel_blocks_nobody() -> None:
    """All events are delivered, in order."""
    assert foretold.run(overfill).value == list(range(3 * CAPACITY))


def test_a_channel_that_blocks_is_a_deadlock_and_no_timeout() -> None:
    """The regression: with the mistake, the world sees that nothing can ever go on."""
    failure = foretold.explore(
        overfill, runs=1, confirm=False, shrink=False, mutant="event_queue_blocks"
    ).failure
    assert failure is not None
    assert isinstance(failure.exception, foretold.Deadlock)


def test_errors_of_handlers_are_collected() -> None:
    """A handler that fails keeps the next one from nothing."""
    manager, got = EventManager(1), list[Any]()

    def fail(event: Event) -> None:
        raise ConnectionError(event.payload)

    manager.handlers[DEFAULT] += [fail, lambda event: got.append(event.payload)]
    for number in range(3):
        manager.enqueue(Event(DEFAULT, "*", number))
    errors = asyncio.run(manager.dispatch())
    assert [str(error) for error in errors] == ["0", "1", "2"]
    assert got == [0, 1, 2]


# ---------------------------------------------------------------- small scope, exhaustively


@dataclass(frozen=True)
class Value:
    """A component."""

    number: int = 0


def registry_of(count: int) -> ComponentRegistry:
    """So many components, all of one type."""
    registry = ComponentRegistry()
    for number in range(count):
        registry.register(f"c{number}", Value)
    return registry


def filled(number: int, bits: int, entities: range, registry: ComponentRegistry) -> Archetype:
    """An archetype in which each value tells whose it is."""
    components = [c for c in range(len(registry)) if bits >> c & 1]
    made = Archetype(number, Bitmap(components), registry)
    for entity in entities:
        row = made.add(EntityId(entity))
        for component in components:
            made.columns[component][row] = Value(10 * entity + component)
    return made


def check_archetype(each: Archetype, entities: set[int], moved: int, kept: int) -> None:
    """It has these entities; rows and columns fit; `moved` kept only the components `kept`."""
    assert set(each.entities) == entities
    assert len(each.entities) == len(each.rows) == len(entities)
    for row, entity in enumerate(each.entities):
        assert each.rows.get(entity) == row
        for component, column in each.columns.items():
            assert len(column) == len(entities)
            brought = entity != moved or kept >> component & 1
            assert column[row] == Value(10 * entity + component if brought else 0)


@pytest.mark.parametrize("components", [4, soak(6)])
def test_every_move_between_archetypes(components: int) -> None:
    """Each source, each destination, 1 to 3 and 0 to 2 entities, each row of the source. With six
    components these are 4,096 × (1 + 2 + 3) × 3 = 73,728 moves; a move to oneself does nothing."""
    registry, cases = registry_of(components), 0
    for tape in foretold.enumerate_tapes():
        cases += 1
        source_bits, target_bits = tape.choose(2**components), tape.choose(2**components)
        count, others = tape.between(1, 3), tape.between(0, 2)
        moved = tape.choose(count)
        source = filled(1, source_bits, range(count), registry)
        if source_bits == target_bits:
            source.move(EntityId(moved), source)
            check_archetype(source, set(range(count)), -1, 0)
            continue
        target = filled(2, target_bits, range(count, count + others), registry)
        source.move(EntityId(moved), target)
        check_archetype(source, set(range(count)) - {moved}, -1, 0)
        both = source_bits & target_bits
        check_archetype(target, {moved, *range(count, count + others)}, moved, both)
    assert cases == 4**components * (1 + 2 + 3) * 3


class StateModel:
    """Entities are dicts. Ids are given out ascending, and again, oldest first, a tick later."""

    def __init__(self) -> None:
        self.entities: dict[int, dict[int, Value]] = {}
        self.free: list[int] = []
        self.resting: list[int] = []
        self.given = 0

    def apply(self, deed: str, entity: int, component: int, value: Value) -> None:
        """The same as the real one does; what cannot be raises a KeyError."""
        if deed == "create":
            if not self.free:
                self.free.append(self.given)
                self.given += 1
            self.entities[self.free.pop(0)] = {}
        elif deed == "tick":
            self.free, self.resting = self.free + self.resting, []
        elif deed == "destroy":
            del self.entities[entity]
            self.resting.append(entity)
        elif deed == "set":
            self.entities[entity][component] = value
        else:
            self.entities[entity].pop(component, None)


DEEDS = [
    ("create", 0, 0),
    ("tick", 0, 0),
    *(("destroy", entity, 0) for entity in range(2)),
    *((deed, entity, c) for deed in ("set", "remove") for entity in range(2) for c in range(2)),
]


def apply(state: State, deed: str, entity: int, component: int, value: Value) -> None:
    """One operation on the real state."""
    if deed == "create":
        state.create()
    elif deed == "tick":
        state.end_tick()
    elif deed == "destroy":
        state.destroy(EntityId(entity))
    elif deed == "set":
        state.set(EntityId(entity), component, value)
    else:
        state.remove(EntityId(entity), component)


def contents(state: State) -> dict[int, dict[int, Value]]:
    """The real state as the model has it."""
    found: dict[int, dict[int, Value]] = {}
    for each in state.archetypes:
        for row, entity in enumerate(each.entities):
            found[entity] = {c: column[row] for c, column in each.columns.items()}
    return found


@pytest.mark.parametrize("length", [3, soak(5)])
def test_every_short_sequence_of_operations(length: int) -> None:
    """A world of 2 entities and 2 components, every sequence of that many operations (12 of them:
    248,832 sequences of five): results and state agree with the model after each operation."""
    registry, cases = registry_of(2), 0
    for tape in foretold.enumerate_tapes():
        cases += 1
        state, model = State(registry), StateModel()
        for step in range(length):
            deed, entity, component = DEEDS[tape.choose(len(DEEDS))]
            results = []
            for act in (model.apply, lambda *given, state=state: apply(state, *given)):
                try:
                    act(deed, entity, component, Value(step + 1))
                    results.append(True)
                except LookupError:
                    results.append(False)
            assert results[0] == results[1], (deed, entity, component)
            assert contents(state) == model.entities
            assert (list(state.free), state.resting) == (model.free, model.resting)
            assert state.next_id == model.given
    assert cases == len(DEEDS) ** length
