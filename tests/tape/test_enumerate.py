"""Enumerated tapes: every combination exactly once. The small-scope tests rest on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from foretold.errors import UsageError
from foretold.tape import Choice, Tape, enumerate_tapes

COMPONENTS = 6
ARCHETYPES = 1 << COMPONENTS
MOVES = 73_728


class Table:
    """The entities of one archetype: a row each, a column for each component."""

    def __init__(self, archetype: int) -> None:
        self.entities: list[int] = []
        self.columns: dict[int, list[str]] = {
            component: [] for component in range(COMPONENTS) if archetype >> component & 1
        }


class Store:
    """A tiny archetype store, as entity-component systems have them."""

    def __init__(self) -> None:
        self.tables: dict[int, Table] = {}
        self.places: dict[int, tuple[int, int]] = {}

    def spawn(self, entity: int, archetype: int) -> None:
        """A new entity, whose component c has the value `entity.c`."""
        table = self.tables.setdefault(archetype, Table(archetype))
        for component, column in table.columns.items():
            column.append(f"{entity}.{component}")
        self.places[entity] = (archetype, len(table.entities))
        table.entities.append(entity)

    def move(self, entity: int, archetype: int) -> None:
        """Give the entity other components; those it keeps hold their values."""
        source_archetype, row = self.places[entity]
        if archetype == source_archetype:
            return
        source = self.tables[source_archetype]
        target = self.tables.setdefault(archetype, Table(archetype))
        self.copy(source, row, target)
        self.places[entity] = (archetype, len(target.entities))
        target.entities.append(entity)
        self.remove(source, row)

    def copy(self, source: Table, row: int, target: Table) -> None:
        """The values of one row, those that both tables have; the others are new."""
        for component, column in target.columns.items():
            old = source.columns.get(component)
            column.append("new" if old is None else old[row])

    def remove(self, table: Table, row: int) -> None:
        """Take a row out: the last one fills the hole."""
        for column in table.columns.values():
            column[row] = column[-1]
            column.pop()
        moved = table.entities[row] = table.entities[-1]
        table.entities.pop()
        if row < len(table.entities):
            self.places[moved] = (self.places[moved][0], row)


class Move(NamedTuple):
    """One case: which entity (by row) goes from where to where."""

    source: int
    target: int
    source_entities: int
    target_entities: int
    row: int


def drawn_move(tape: Tape) -> Move:
    """The row's bound depends on an earlier choice: that makes the count 73,728, not 110,592."""
    source = tape.choose(ARCHETYPES, "source")
    target = tape.choose(ARCHETYPES, "target")
    source_entities = tape.between(1, 3, "source entities")
    target_entities = tape.between(0, 2, "target entities")
    return Move(source, target, source_entities, target_entities, tape.choose(source_entities))


def is_right(store: Store, move: Move) -> bool:
    """Make the move and compare the whole store with the obvious answer."""
    archetypes = [move.source] * move.source_entities + [move.target] * move.target_entities
    for entity, archetype in enumerate(archetypes):
        store.spawn(entity, archetype)
    before = dict(store.places)
    store.move(move.row, move.target)
    expected = {
        entity: {
            component: "new" if not archetype >> component & 1 else f"{entity}.{component}"
            for component in range(COMPONENTS)
            if (move.target if entity == move.row else archetype) >> component & 1
        }
        for entity, archetype in enumerate(archetypes)
    }
    no_op = move.source != move.target or store.places == before
    return no_op and is_consistent(store) and contents(store) == expected


def is_consistent(store: Store) -> bool:
    """The invariants: columns as long as the rows; every row known, every known place a row."""
    rows: dict[int, tuple[int, int]] = {}
    for archetype, table in store.tables.items():
        if any(len(column) != len(table.entities) for column in table.columns.values()):
            return False
        rows |= {entity: (archetype, row) for row, entity in enumerate(table.entities)}
    return rows == store.places and len(rows) == sum(len(t.entities) for t in store.tables.values())


def contents(store: Store) -> dict[int, dict[int, str]]:
    """What each entity has, read by its place."""
    found = {}
    for entity, (archetype, row) in store.places.items():
        columns = store.tables[archetype].columns
        found[entity] = {component: column[row] for component, column in columns.items()}
    return found


class LeavesTheHole(Store):
    """Planted: cuts off the last row instead of moving it into the hole."""

    def remove(self, table: Table, row: int) -> None:
        for column in table.columns.values():
            column.pop()
        table.entities[row] = table.entities[-1]
        table.entities.pop()
        if row < len(table.entities):
            self.places[table.entities[row]] = (self.places[table.entities[row]][0], row)


class ForgetsThePlace(Store):
    """Planted: the entity that fills the hole is still looked for at its old row."""

    def remove(self, table: Table, row: int) -> None:
        places = dict(self.places)
        super().remove(table, row)
        self.places = places


class MovesOntoItself(Store):
    """Planted: a move within one archetype is no no-op, though no value is lost by it."""

    def move(self, entity: int, archetype: int) -> None:
        source, row = self.places[entity]
        super().move(entity, archetype)
        if archetype == source:
            table = self.tables[archetype]
            table.entities.append(table.entities.pop(row))
            for column in table.columns.values():
                column.append(column.pop(row))
            for new_row, other in enumerate(table.entities):
                self.places[other] = (archetype, new_row)


class ForgetsToCopy(Store):
    """Planted: all components of the target start anew."""

    def copy(self, source: Table, row: int, target: Table) -> None:
        for column in target.columns.values():
            column.append("new")


class WrongOnce(Store):
    """Planted: wrong for one single case of all, which random tests would miss most of the time."""

    def move(self, entity: int, archetype: int) -> None:
        source, row = self.places[entity]
        rows = len(self.tables[source].entities)
        super().move(entity, archetype)
        table = self.tables[archetype]
        if (source, archetype, rows, row, len(table.entities)) == (0b101101, 0b11, 3, 1, 3):
            table.columns[0][0] = "wrong"


def test_every_move_between_archetypes() -> None:
    """S1.9: the store is right in all 73,728 cases, each of which comes exactly once."""
    seen = set()
    for count, tape in enumerate(enumerate_tapes(limit=MOVES), 1):
        move = drawn_move(tape)
        seen.add(move)
        assert is_right(Store(), move), move
        assert len(seen) == count, f"{move} came twice"
    assert len(seen) == MOVES == ARCHETYPES**2 * (1 + 2 + 3) * 3


@pytest.mark.parametrize(
    ("store", "first"),
    [
        (LeavesTheHole, Move(1, 0, 2, 0, 0)),
        (ForgetsThePlace, Move(0, 1, 2, 0, 0)),
        (MovesOntoItself, Move(0, 0, 1, 1, 0)),
        (ForgetsToCopy, Move(1, 3, 1, 0, 0)),
    ],
)
def test_planted_mistakes_are_met(store: type[Store], first: Move) -> None:
    """The enumeration can fail, and goes from small to large: the first case is a small one."""
    moves = map(drawn_move, enumerate_tapes())
    assert next(move for move in moves if not is_right(store(), move)) == first


def test_a_mistake_in_a_single_case_is_met() -> None:
    """What exhaustive means: one wrong case in 73,728 is found, and found once."""
    wrong = [m for m in map(drawn_move, enumerate_tapes()) if not is_right(WrongOnce(), m)]
    assert wrong == [Move(0b101101, 0b11, 3, 2, 1)]


@pytest.mark.parametrize("size", range(7))
def test_shuffle_gives_each_permutation_once(size: int) -> None:
    """`shuffle` can reach every order and has no two ways to reach one."""
    orders = [tuple(tape.shuffle(range(size))) for tape in enumerate_tapes()]
    assert len(orders) == math.factorial(size)
    assert set(orders) == set(itertools.permutations(range(size)))


def test_the_calm_tape_comes_first_and_the_last_choice_turns_first() -> None:
    """The order is part of the contract: neighbours differ late, so failures come small first."""
    drawn = [(tape.choose(2), tape.choose(3)) for tape in enumerate_tapes()]
    assert drawn == list(itertools.product(range(2), range(3)))


def subsets(tape: Tape) -> tuple[bool, ...]:
    """Every subset of four things, as flags."""
    return tuple(tape.boolean() for _ in range(4))


def lists(tape: Tape) -> tuple[int, ...]:
    """Lists of up to three numbers below three: the length decides how many draws follow."""
    return tuple(tape.choose(3) for _ in range(tape.between(0, 3)))


def two_streams(tape: Tape) -> tuple[int, ...]:
    """Draws that alternate between streams, the second only after an odd first."""
    first = tape.stream("net").choose(5)
    second = tape.stream("fault", first).choose(first + 1) if first % 2 else 0
    return (first, second, tape.stream("net").choose(2))


def pairs(tape: Tape) -> tuple[object, ...]:
    """Picks and chances count as two-way and n-way choices, whatever the probability."""
    return (tape.pick("abc"), tape.chance(0.001), tape.chance(1), tape.chance(0))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (subsets, itertools.product([False, True], repeat=4)),
        (lists, (row for n in range(4) for row in itertools.product(range(3), repeat=n))),
        (
            two_streams,
            (
                (first, second, last)
                for first in range(5)
                for second in range(first + 1 if first % 2 else 1)
                for last in range(2)
            ),
        ),
        (pairs, ((c, p, True, False) for c in "abc" for p in (False, True))),
    ],
)
def test_every_combination_comes_once(
    body: Callable[[Tape], tuple[object, ...]], expected: Iterable[tuple[object, ...]]
) -> None:
    """Bounds and numbers of draws may depend on earlier choices; nothing is lost or repeated."""
    assert [body(tape) for tape in enumerate_tapes(streams=None)] == list(expected)


def test_a_body_without_choices_runs_once() -> None:
    """There is exactly one way to choose nothing."""
    assert len(list(enumerate_tapes())) == 1


def test_bytes_do_not_multiply() -> None:
    """Four billion byte seeds would hide all other choices: bytes have one value here."""
    drawn = [(tape.bytes(4), tape.boolean()) for tape in enumerate_tapes()]
    assert [flag for _, flag in drawn] == [False, True]
    assert len({data for data, _ in drawn}) == 1


def test_what_is_left_is_not_overestimated() -> None:
    """A search gives up when too many combinations are left. It may not do so too early: the number
    counts what is certain, and where bounds depend on earlier choices there may be more."""

    def uneven(tape: Tape) -> None:
        for _ in range(tape.choose(4)):
            tape.choose(3)

    told = []
    for tape in enumerate_tapes():
        uneven(tape)
        told.append(tape.left_at_least)
    left = range(len(told) - 1, -1, -1)
    assert all(least <= count for least, count in zip(told, left, strict=True))
    assert (told[0], told[-1], len(told)) == (3, 0, 1 + 3 + 9 + 27)
    assert Tape.calm().left_at_least == 0


def test_too_many_combinations_end_in_an_error() -> None:
    """The limit is exact: as many as it says are fine, one more raises and says what to do."""
    assert sum(tape.choose(5) for tape in enumerate_tapes(limit=5)) == 10
    with pytest.raises(UsageError, match="more than 4 combinations: choose among fewer"):
        for tape in enumerate_tapes(limit=4):
            tape.choose(5)


def test_a_bound_from_elsewhere_is_noticed() -> None:
    """A body that depends on more than the tape would be enumerated wrongly, so it is refused."""
    bounds = itertools.count(2)
    with pytest.raises(UsageError, match="choice 1 had 2 options before and has 3 now"):
        for tape in enumerate_tapes():
            tape.choose(next(bounds))


def test_missing_draws_are_noticed() -> None:
    """The same for a body that stops drawing: without the check, cases would be lost silently."""
    rounds = itertools.count()
    with pytest.raises(UsageError, match="0 choices were drawn where 1 were before"):
        for tape in enumerate_tapes():
            if not next(rounds):
                tape.choose(3)


def test_a_fresh_tape_begins_at_the_start() -> None:
    """A failing case is run again to be recorded, while its turn lasts; it must be the same case.

    A second look that stops early must not disturb the enumeration either.
    """
    seen = []
    for tape in enumerate_tapes():
        case = [tape.choose(3), tape.choose(2)]
        again = tape.fresh(recording=True)
        assert [again.choose(3), again.choose(2)] == case
        assert again.recorded().choices["workload"] == [
            Choice(value, bound, "") for value, bound in zip(case, (3, 2), strict=True)
        ]
        assert tape.fresh().choose(3) == case[0]
        tape.fresh()
        seen.append(case)
    assert len(seen) == 6
