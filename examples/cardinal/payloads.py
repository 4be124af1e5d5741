"""Random commands, made from the types of their fields.

One generator for both tests: the simulation gives it choices from the tape (`draw`), the
end-to-end test gives it a seeded `random.Random`. Ids of entities are those of living ones in nine
cases of ten; the tenth may name anything.
"""

import dataclasses
import random
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from examples.cardinal.archetype import EntityId
from examples.cardinal.codec import base_of, fields_of

Between = Callable[[int, int], int]
"""A number from low to high, both included. Low is the simplest."""
Living = Sequence[Sequence[int]]
"""Entities in groups, none of them empty. A group is drawn first, so that the few entities of a
rare kind are named as often as the many of a common one."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
INT_MAX = 2**31
EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1)
SMALL_MAX = 200
ID_MAX = 200


Maker = Callable[["Payloads"], Any]


class Payloads:
    """Makes values of any type that a command may have."""

    def __init__(self, between: Between, living: Living) -> None:
        self._between = between
        self._living = living

    def value(self, hint: Any) -> Any:
        """A value of this type."""
        return _maker(hint)(self)

    def some(self, make: Maker) -> list[Any]:
        """Up to four values."""
        return [make(self) for _ in range(self._between(0, 4))]

    def entity(self) -> EntityId:
        """A living one, nine times of ten."""
        count = len(self._living)
        drawn = self._between(0, 10 * count - 1) if count else 0
        if drawn >= 9 * count:
            return EntityId(self._between(0, ID_MAX))
        group = self._living[drawn % count]
        return EntityId(group[self._between(0, len(group) - 1)])

    def integer(self) -> int:
        """Mostly small, now and then an edge, or from the whole range."""
        size = self._between(0, 9)
        if size < 7:
            return self._between(0, SMALL_MAX)
        if size == 7:
            return EDGES[self._between(0, len(EDGES) - 1)]
        return self._between(-INT_MAX, INT_MAX)

    def real(self) -> float:
        return self._between(-1_000_000, 1_000_000) / 1000

    def text(self) -> str:
        """1 to 12 letters, written from one number: a choice costs more than a division."""
        number = self._between(0, 26 ** self._between(1, 12) - 1)
        text = LETTERS[number % 26]
        while number := number // 26:
            text += LETTERS[number % 26]
        return text

    def truth(self) -> bool:
        return bool(self._between(0, 1))


_MAKERS: dict[Any, Maker] = {
    EntityId: Payloads.entity,
    int: Payloads.integer,
    float: Payloads.real,
    str: Payloads.text,
    bool: Payloads.truth,
}


@cache
def _maker(hint: Any) -> Maker:
    """How a value of this type is made: found out once, since a command has many fields."""
    hint = hint if hint is EntityId else base_of(hint)
    if hint in _MAKERS:
        return _MAKERS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple):
        inner = _maker(arguments[0])
        return lambda payloads: origin(payloads.some(inner))
    if origin in (typing.Union, types.UnionType):
        inner = _maker(arguments[0])
        return lambda payloads: inner(payloads) if payloads.truth() else None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        makers = [_maker(field) for _, field in fields_of(hint)]
        return lambda payloads: hint(*[make(payloads) for make in makers])
    raise TypeError(f"no random value of {hint} can be made: use numbers, strings, lists")


# Strategies for a machine that knows `groups()`, `living()`, `kinds()` and `components()`. They are
# made once: to check a new strategy costs as much as twenty draws from it.

NOBODY = 10_000
"""An entity that never lives."""
_RUNNER = st.runner()
_integers = cache(st.integers)
_subsets = cache(lambda names: st.sets(st.sampled_from(names)))


@cache
@st.composite
def payloads_of(draw: Any, kind: type) -> Any:
    """A command of this kind."""
    living = draw(_RUNNER).groups()
    return Payloads(lambda low, high: draw(_integers(low, high)), living).value(kind)


@st.composite
def any_payload(draw: Any) -> Any:
    """A command of any kind."""
    return draw(payloads_of(_one_of(draw, draw(_RUNNER).kinds())))


@st.composite
def any_entity(draw: Any) -> int:
    """One that lives, or nobody."""
    entity: int = _one_of(draw, [*draw(_RUNNER).living(), NOBODY])
    return entity


@st.composite
def any_components(draw: Any) -> set[str]:
    """Some of those that the world knows."""
    wanted: set[str] = draw(_subsets(tuple(draw(_RUNNER).components())))
    return wanted


def _one_of(draw: Any, options: Sequence[Any]) -> Any:
    return options[draw(_integers(0, len(options) - 1))]


def random_payload(kind: type, source: random.Random, living: Living) -> Any:
    """The same without the tape."""
    return Payloads(source.randint, living).value(kind)
