"""Choices become useful values, and smaller choices become simpler ones.

Mostly shown through Hypothesis strategies, as a user meets them. The shrinker below knows nothing
of values: it lowers numbers and deletes a few of them, as the tape's own does.
"""

from __future__ import annotations

import collections
import datetime as dt
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from foretold.spec.hypothesis_adapter import StepDiscarded, draw
from foretold.spec.primitives import (
    PLACES,
    Drawer,
    FloatPlan,
    IntegerPlan,
    Rung,
    float_plan,
    integer_plan,
)
from tests.spec.strategy_cases import Numbers, Seeded

SEEDS = 2_000

# ---------------------------------------------------------------- useful values


def test_seeded_integers_are_small_large_and_notorious() -> None:
    """Uniform 128-bit numbers would find nothing: small ones, signs and powers of 2 must come."""
    values = [draw(st.integers(), Seeded(seed)) for seed in range(SEEDS)]
    powers = {2**n + d for n in range(16, 66) for d in (-1, 0, 1)}
    assert 0.2 * SEEDS < sum(abs(v) < 128 for v in values) < 0.45 * SEEDS
    assert 0.2 * SEEDS < sum(abs(v) > 2**31 for v in values) < 0.5 * SEEDS
    assert 0.4 * SEEDS < sum(v < 0 for v in values) < 0.6 * SEEDS
    assert sum(abs(v) in powers for v in values) > 0.01 * SEEDS


def test_seeded_bounds_come_up() -> None:
    """Off-by-one errors live at the ends of a range, and Hypothesis weighs these more."""
    for low, high in [(0, 200), (-200, 100_000), (5, 10**9)]:
        strategy = st.integers(low, high)
        counts = collections.Counter(draw(strategy, Seeded(seed)) for seed in range(SEEDS))
        for bound in (low, low + 1, high - 1, high):
            assert 0.002 * SEEDS < counts[bound] < 0.08 * SEEDS, (low, high, bound)


def test_seeded_floats_are_of_all_kinds() -> None:
    """Whole numbers, simple fractions, huge, tiny, infinite ones and NaN."""
    values = [draw(st.floats(), Seeded(seed)) for seed in range(SEEDS)]
    finite = [v for v in values if math.isfinite(v)]
    assert sum(v == int(v) for v in finite) > 0.25 * SEEDS
    assert sum(v != int(v) and v * 64 == int(v * 64) for v in finite) > 0.1 * SEEDS
    assert sum(abs(v) > 1e20 for v in finite) > 0.03 * SEEDS
    assert sum(0 < abs(v) < 1e-20 for v in finite) > 0.03 * SEEDS
    assert sum(map(math.isnan, values)) > 0.005 * SEEDS
    assert sum(map(math.isinf, values)) > 0.005 * SEEDS


def test_seeded_sizes_are_those_of_hypothesis() -> None:
    """About five elements on average where there is no bound; some empty, some long."""
    for strategy in (st.lists(st.booleans()), st.text("abc"), st.binary()):
        sizes = [len(draw(strategy, Seeded(seed))) for seed in range(SEEDS)]
        assert 4 < sum(sizes) / len(sizes) < 6.5
        assert min(sizes) == 0
        assert max(sizes) > 20


def test_seeded_text_has_rare_characters_and_notorious_words() -> None:
    """ASCII, other scripts, and strings that programs stumble over."""
    texts = [draw(st.text(), Seeded(seed)) for seed in range(SEEDS)]
    assert sum(text.isascii() and text != "" for text in texts) > 0.05 * SEEDS
    assert sum(any(ord(c) > 255 for c in text) for text in texts) > 0.15 * SEEDS
    words = ("null", "NaN", "nil", "true", "if", "Inf", "None", "COM1", "False")
    assert sum(text in words for text in texts) > 0.001 * SEEDS
    assert sum(text.startswith(words) for text in texts) > 0.004 * SEEDS


# ---------------------------------------------------------------- plans, number by number


def corners(rung: Rung[Any]) -> set[int]:
    """Where mistakes would be: the ends of the plain numbers and of the special ones."""
    found = {0, 1, rung.size // 2, rung.size - 1, rung.size, rung.choices - 1}
    found |= {rung.size + i * rung.share for i in range(len(rung.special))}
    return {number for number in found if 0 <= number < rung.choices}


def integers_of(plan: IntegerPlan) -> Iterator[int]:
    """Values of every rung."""
    for rung in (*plan.up, *plan.down):
        yield from (rung.value(number) for number in sorted(corners(rung)))


def floats_of(plan: FloatPlan) -> Iterator[float]:
    """Values of every rung, rounded in every way."""
    for i, (_, rungs) in enumerate(plan):
        side = [i] if len(plan) > 1 else []
        for j, rung in enumerate(rungs):
            step = [j] if len(rungs) > 1 else []
            for number, places in itertools.product(sorted(corners(rung)), range(len(PLACES))):
                last = [number] if rung.choices > 1 else []
                yield Drawer(Numbers([*side, *step, *last, places]), None).floating(plan)


def test_integers_stay_within_their_bounds() -> None:
    """Every rung of every kind of range, at its corners; the first number is the simplest value."""
    bounds = [None, -(2**70), -1_500, -1_000, -7, -1, 0, 1, 6, 1_000, 1_500, 2**70]
    for low, high in itertools.product(bounds, bounds):
        if low is not None and high is not None and low > high:
            continue
        for towards in (-2_000, 0, 3):
            weights = {low: 0.1, high: 0.2} if low is not None and high is not None else {}
            plan = integer_plan(low, high, towards, weights, [70_000, -70_000, 2**65])
            inside = [low is None or low <= v for v in integers_of(plan)]
            inside += [high is None or v <= high for v in integers_of(plan)]
            assert all(inside), (low, high, towards)
            nearest = max(low, towards) if low is not None else towards
            nearest = min(high, nearest) if high is not None else nearest
            assert plan.up[0].value(0) == nearest


def test_floats_stay_within_their_bounds() -> None:
    """The same for floats: signed zeros, infinities, tiny ones, ranges without a whole number."""
    bounds = [
        -math.inf,
        -1e300,
        -2.5,
        -0.3,
        -1e-310,
        -0.0,
        0.0,
        5e-324,
        0.2,
        0.3,
        7.0,
        1e300,
        math.inf,
    ]
    for i, low in enumerate(bounds):
        for high in bounds[i:]:
            plan = float_plan(low, high, True, 5e-324, [0.25, -0.25, 1e9, -1e9])
            numbers_drawn = [v for v in floats_of(plan) if not math.isnan(v)]
            assert all(low <= v <= high for v in numbers_drawn), (low, high)
            signs = {math.copysign(1.0, v) for v in numbers_drawn}
            assert signs == {math.copysign(1.0, low), math.copysign(1.0, high)}, (low, high)


def test_no_float_is_smaller_than_allowed() -> None:
    """`allow_subnormal=False` leaves zero, and nothing up to the smallest normal number."""
    tiny = sys.float_info.min
    for high in (1.0, math.inf, tiny, 1e-320):
        for value in floats_of(float_plan(-high, high, False, tiny, [1e-310, tiny])):
            assert value == 0 or tiny <= abs(value) <= high


# ---------------------------------------------------------------- shrinking by smaller numbers


def lowered(choices: list[int]) -> Iterator[list[int]]:
    """Candidates: a few choices deleted, or one lowered, the boldest first."""
    for size in (8, 5, 4, 3, 2, 1):
        yield from (choices[:i] + choices[i + size :] for i in range(len(choices)))
    for i, value in enumerate(choices):
        steps = {0, value - 1, value - 2} | {value - (value >> k) for k in range(1, 70)}
        for number in (*sorted(steps), *range(min(value, 400))):
            if 0 <= number < value:
                yield [*choices[:i], number, *choices[i + 1 :]]


def minimal(
    strategy: st.SearchStrategy[Any], fails: Callable[[Any], bool], seed: int, calm: bool
) -> Any:
    """The value that is left when no choice can be lowered any more."""

    def failing(source: Numbers) -> tuple[list[int], Any] | None:
        try:
            value = draw(strategy, source)
        except StepDiscarded:
            return None
        return (source.chosen, value) if fails(value) else None

    tries = (failing(Seeded(seed * 10_000 + i)) for i in range(10_000))
    best = next(found for found in tries if found)
    while True:
        for candidate in lowered(best[0]):
            found = failing(Numbers(candidate, misfits_are_calm=calm))
            if found and (len(found[0]), found[0]) < (len(best[0]), best[0]):
                best = found
                break
        else:
            return best[1]


SHRINKS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], bool], Any]] = {
    "at least 1000": (st.integers(), lambda v: v >= 1_000, 1_000),
    "far below zero": (st.integers(), lambda v: v <= -70_000, -70_000),
    "not zero": (st.integers(), bool, 1),
    "bounded": (st.integers(0, 10**9), lambda v: v >= 12_345, 12_345),
    "small range": (st.integers(-300, 300), lambda v: v > 77, 78),
    "sum": (st.lists(st.integers()), lambda v: sum(v) > 10, [11]),
    "largest": (st.lists(st.integers(0, 100), min_size=1), lambda v: max(v) > 50, [51]),
    "character": (st.text(), lambda v: "b" in v, "b"),
    "length": (st.text(), lambda v: len(v) >= 3, "000"),
    "float": (st.floats(), lambda v: v > 1.5, 2.0),
    "fraction": (st.floats(0, 1), lambda v: 0.5 < v < 1, 0.75),
    "bytes": (st.binary(), any, b"\x01"),
    "branch": (st.none() | st.integers(), lambda v: v is not None, 0),
    "tuple": (st.tuples(st.booleans(), st.sampled_from("abc")), lambda v: v[1] > "a", (False, "b")),
    "mapping": (st.dictionaries(st.text(), st.integers()), lambda v: any(v.values()), {"": 1}),
    "date": (st.dates(), lambda v: v.year < 1980, dt.date(1979, 1, 1)),
}


@pytest.mark.parametrize("calm", [False, True], ids=["clamped", "calm"])
@pytest.mark.parametrize("name", SHRINKS)
def test_lowering_choices_reaches_the_minimal_value(name: str, calm: bool) -> None:
    """Whatever was drawn first, a huge or a notorious value, lowering alone leads all the way."""
    strategy, fails, expected = SHRINKS[name]
    assert [minimal(strategy, fails, seed, calm) for seed in range(6)] == [expected] * 6


def test_lowering_choices_shrinks_a_set() -> None:
    """Elements of a set cannot all become 0: they become different small numbers."""
    for seed in range(6):
        shrunk = minimal(st.sets(st.integers()), lambda v: len(v) >= 3, seed, calm=False)
        assert len(shrunk) == 3
        assert max(map(abs, shrunk)) <= 2
