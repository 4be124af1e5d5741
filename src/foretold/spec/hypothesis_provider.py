"""Hypothesis' five primitives, drawn from a tape.

`primitives.py` says how a value is made of choices; this file says which of them Hypothesis wants.
`hypothesis_adapter.py` loads it, and says so if a new Hypothesis has moved something.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from hypothesis.errors import ChoiceTooLarge
from hypothesis.internal.conjecture.choice import (
    choice_from_index,
    choice_permitted,
    choice_to_index,
)
from hypothesis.internal.conjecture.providers import (
    COLLECTION_DEFAULT_MAX_SIZE,
    GLOBAL_CONSTANTS,
    PrimitiveProvider,
)
from hypothesis.internal.conjecture.utils import _calc_p_continue
from hypothesis.internal.intervalsets import IntervalSet

from foretold.spec.primitives import Alphabet, ChoiceSource, Drawer, IntegerPlan, NotoriousValues

T = TypeVar("T")

_catalogue = NotoriousValues(GLOBAL_CONSTANTS.integers, GLOBAL_CONSTANTS.floats)
_alphabets: dict[int, tuple[IntervalSet, Alphabet]] = {}


def _alphabet(intervals: IntervalSet) -> Alphabet:
    # By identity: to hash the intervals of a Unicode category costs more than to draw from it.
    found = _alphabets.get(id(intervals))
    if found is not None:
        return found[1]

    def words() -> list[str]:
        return [w for w in GLOBAL_CONSTANTS.strings if all(ord(c) in intervals for c in w)]

    if len(_alphabets) >= 1_024:
        _alphabets.clear()
    alphabet = Alphabet(len(intervals), intervals.char_in_shrink_order, words)
    _alphabets[id(intervals)] = intervals, alphabet
    return alphabet


def _p_more(low: int, high: int) -> float:
    """How likely one more element is, so that the average size is that of Hypothesis itself."""
    average = min(max(low * 2, low + 5), 0.5 * (low + high))
    return _calc_p_continue(average - low, high - low)


class TooLarge(BaseException):
    """A draw has used up its choices."""


class TapeProvider(PrimitiveProvider):
    """Hypothesis' five primitives, drawn from a tape.

    It does not know the data it belongs to: a cycle would outlive its draw, since a run collects
    no garbage.
    """

    _cd = None

    def __init__(self, source: ChoiceSource, label: str | None) -> None:
        # Not super().__init__, which would only set _cd.
        self.drawer = Drawer(source, label)
        self.left: float = math.inf

    def counted(self, element: T) -> T:
        """The element, after counting it: a draw that grows too large ends here."""
        self.left -= 1
        if self.left < 0:
            raise TooLarge
        return element

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self.drawer.boolean(p)

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        return self.drawer.integer(planned(min_value, max_value, weights, shrink_towards))

    def draw_float(
        self,
        *,
        min_value: float = -math.inf,
        max_value: float = math.inf,
        allow_nan: bool = True,
        smallest_nonzero_magnitude: float,
    ) -> float:
        signs = math.copysign(1.0, min_value), math.copysign(1.0, max_value)
        tiny = smallest_nonzero_magnitude
        plan = _catalogue.float_plan(min_value, max_value, allow_nan, tiny, signs)
        return self.drawer.floating(plan)

    def draw_string(
        self,
        intervals: IntervalSet,
        *,
        min_size: int = 0,
        max_size: int = COLLECTION_DEFAULT_MAX_SIZE,
    ) -> str:
        if len(intervals) == 0:
            return ""
        p_more = _p_more(min_size, max_size)
        characters = self.drawer.text(_alphabet(intervals), min_size, max_size, p_more)
        return "".join(map(self.counted, characters))

    def draw_bytes(self, min_size: int = 0, max_size: int = COLLECTION_DEFAULT_MAX_SIZE) -> bytes:
        octets = self.drawer.octets(min_size, max_size, _p_more(min_size, max_size))
        return bytes(map(self.counted, octets))


def planned(
    min_value: int | None, max_value: int | None, weights: Any, shrink_towards: int = 0
) -> IntegerPlan:
    """How an integer of this range is made of choices."""
    weighted = tuple(weights.items()) if weights else ()
    return _catalogue.integer_plan(min_value, max_value, shrink_towards, weighted)


def next_simplest(value: Any, choice_type: Any, constraints: Any, steps: int) -> Any:
    """The value that is so many steps less simple, or the same one where the order ends."""
    index = choice_to_index(value, constraints) + steps
    if choice_type == "boolean":
        index %= 2
    elif choice_type == "integer":
        low, high = constraints["min_value"], constraints["max_value"]
        if low is not None and high is not None:
            index %= high - low + 1
    try:
        other = choice_from_index(index, choice_type, constraints)
    except ChoiceTooLarge:
        return value
    return other if choice_permitted(other, constraints) else value
