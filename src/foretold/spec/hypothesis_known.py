"""What is found out about a strategy when it is first drawn from, and written on it.

Most arguments are whole numbers of a range, or one of a few things. Such a strategy always asks the
same question; so it is asked once what it wants to know, and from then on the tape answers without
it. `hypothesis_adapter.py` loads this file, and says so if a new Hypothesis has moved something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies._internal import lazy
from hypothesis.strategies._internal.numbers import IntegersStrategy
from hypothesis.strategies._internal.strategies import SampledFromStrategy

from foretold.spec.primitives import ChoiceSource, Drawer, IntegerPlan

KNOWN = "foretold_known"
"""On a strategy that was drawn from."""
SAMPLES_LOOKED_AT_MAX = 1_024
_unwrap: Callable[[Any], Any] = lazy.unwrap_strategies


class Known:
    """A strategy that is valid and not empty."""

    __slots__ = ("elements", "inner", "plan")

    def __init__(self, inner: st.SearchStrategy[Any] | None) -> None:
        self.inner = inner
        """What it is without wrappers; None: itself, since that would be a cycle."""
        self.plan: IntegerPlan | None = None
        """If its values are made of one whole number: of which."""
        self.elements: Sequence[Any] | None = None
        """If the number is the place of an element."""

    def value(self, number: int) -> Any:
        return number if self.elements is None else self.elements[number]


def draw_plain(
    wanted: Mapping[str, st.SearchStrategy[Any]], source: ChoiceSource
) -> dict[str, Any] | None:
    """A value of each strategy, if each is known to be made of one whole number; else None, and
    nothing was drawn. Such a draw runs no code but ours, and needs no data of Hypothesis."""
    plans = []
    for strategy in wanted.values():
        known = strategy.__dict__.get(KNOWN)
        if known is None or known.plan is None:
            return None
        plans.append(known)
    return {
        name: known.value(Drawer(source, name).integer(known.plan))
        for name, known in zip(wanted, plans, strict=True)
    }


class _Question:
    """In the place of Hypothesis' data: keeps what a strategy wants of it."""

    asked: tuple[Any, ...] = ()

    def draw_integer(
        self, min_value: int | None = None, max_value: int | None = None, weights: Any = None
    ) -> int:
        self.asked = min_value, max_value, weights
        return min_value or 0


def learn(strategy: st.SearchStrategy[Any], planned: Callable[..., IntegerPlan]) -> Known:
    """Write on a valid strategy what it is."""
    inner = _unwrap(strategy)
    known = Known(None if inner is strategy else inner)
    is_number, is_sample = type(inner) is IntegersStrategy, _is_plain_sample(inner)
    if is_number or is_sample:
        question = _Question()
        inner.do_draw(question)
        known.plan = planned(*question.asked)
        known.elements = inner.elements if is_sample else None
    strategy.__dict__[KNOWN] = known
    return known


def _is_plain_sample(inner: Any) -> bool:
    if type(inner) is not SampledFromStrategy or inner._transformations:
        return False
    few = len(inner.elements) <= SAMPLES_LOOKED_AT_MAX
    # Hypothesis has something to say about strategies among the elements.
    return few and not any(isinstance(each, st.SearchStrategy) for each in inner.elements)
