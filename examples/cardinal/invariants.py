"""What holds in every world between two ticks, whatever the game: its structure."""

from examples.cardinal.archetype import Archetype
from examples.cardinal.state import VOID, State
from examples.cardinal.world import World


def check_world(world: World) -> int:
    """Raises AssertionError at the first thing that is wrong; gives the number of entities."""
    state = world.core.state
    assert state.archetypes, "the void archetype is there"
    assert state.archetypes[VOID].components.as_int() == 0, "the void archetype has no components"
    registered = (1 << len(state.registry)) - 1
    living: list[int] = []
    homes: list[int] = []
    listed: dict[int, int] = {}
    for number, each in enumerate(state.archetypes):
        assert each.number == number, f"archetype {each.number} is at place {number}"
        bits = each.components.as_int()
        assert not bits & ~registered, f"{each.components} are registered"
        listed[bits] = number
        _check_home(each, bits)
        if each.entities:
            living += each.entities
            homes += [number] * len(each.entities)
    alive = set(living)
    assert len(alive) == len(living), "no entity is in two archetypes"
    found = state.where.many(living)
    assert found == homes, f"entities {living} are said to be in {found}, and are in {homes}"
    assert len(state.where) == len(living), "the map of entities has no others"
    known = {bits: each.number for bits, each in state.by_set.items()}
    assert known == listed, f"archetypes are found by their components: {known} and {listed}"
    _check_free(state, alive)
    return len(living)


def _check_home(each: Archetype, bits: int) -> None:
    """One function, for it is called for each archetype after each tick."""
    count, left = len(each.entities), bits
    for component, column in each.columns.items():
        left ^= 1 << component
        if len(column) != count:
            raise AssertionError(
                f"column {component} of archetype {each.number} has {len(column)} rows for "
                f"{count} entities"
            )
        if count:
            kinds = set(map(type, column))
            assert kinds == {each.kinds[component]}, f"column {component} holds {kinds}"
    assert not left, (
        f"archetype {each.number} has columns for {sorted(each.columns)} and the bits of "
        f"{each.components}"
    )
    assert len(each.rows) == count, f"archetype {each.number} has rows of others"
    if count:
        rows = each.rows.many(each.entities)
        assert rows == list(range(count)), (
            f"archetype {each.number} knows its rows: entities {each.entities} are at {rows}"
        )


def _check_free(state: State, alive: set[int]) -> None:
    assert not state.resting, "ids that were freed in a tick are free when it is over"
    free = set(state.free)
    assert len(free) == len(state.free), "no id is free twice"
    assert free.isdisjoint(alive), "no living entity has a free id"
    assert max(free, default=-1) < state.next_id, "only ids that were given out are free"
    assert len(free) + len(alive) == state.next_id, (
        f"each id that was given out is living or free: {len(alive)} live, {len(free)} are free, "
        f"{state.next_id} were given out"
    )
