"""Forty strategies with what is true of their values, and the small tape they are drawn from.

The tape is the tests' own, so that they rely on nothing but the contract of a source: a recording
that is read past its end gives 0. What stands in for a number that no longer fits is left open.
"""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import math
import random
import re
import string
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

from foretold.spec.hypothesis_adapter import StepDiscarded, draw


class Numbers:
    """A source that gives these numbers, then zeros, and writes down what it gave.

    For one that does not fit it gives the largest that does, or the calm one.
    """

    def __init__(self, numbers: Sequence[int] = (), *, misfits_are_calm: bool = False) -> None:
        self.numbers = numbers
        self.misfits_are_calm = misfits_are_calm
        self.chosen: list[int] = []
        self.labels: list[str | None] = []

    def next(self, n: int) -> int:
        position = len(self.chosen)
        number = self.numbers[position] if position < len(self.numbers) else 0
        return number if number < n else 0 if self.misfits_are_calm else n - 1

    def keep(self, number: int, label: str | None) -> int:
        self.chosen.append(number)
        self.labels.append(label)
        return number

    def choose(self, n: int, label: str | None = None) -> int:
        assert n >= 1
        return self.keep(self.next(n), label)

    def between(self, low: int, high: int, label: str | None = None) -> int:
        return low + self.choose(high - low + 1, label)

    def chance(self, p: float, label: str | None = None) -> bool:
        assert 0 < p < 1
        return bool(self.choose(2, label))


class Seeded(Numbers):
    """A source that chooses at random, as a seeded tape does."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = random.Random(seed)

    def next(self, n: int) -> int:
        return self.generator.randrange(n)

    def chance(self, p: float, label: str | None = None) -> bool:
        return bool(self.keep(int(self.generator.random() < p), label))


class Colour(enum.Enum):
    """An enumeration to sample from."""

    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Order:
    """A class to build."""

    item: str
    quantity: int


class Case(NamedTuple):
    """A strategy, the simplest of its values, and what every value must satisfy."""

    strategy: st.SearchStrategy[Any]
    simplest: Any
    valid: Callable[[Any], bool]


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    """A lower and a higher bound."""
    low = draw(st.integers(0, 100))
    return low, draw(st.integers(low, 200))


def is_tree(value: object) -> bool:
    """Whether it is made of lists and booleans alone."""
    return isinstance(value, bool) or (isinstance(value, list) and all(map(is_tree, value)))


def depth_of(value: object) -> int:
    """How deep tuples nest."""
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, tuple) else 0


def between(low: Any, high: Any) -> Callable[[Any], bool]:
    """Bounds, both included."""
    return lambda value: low <= value <= high


def matches(pattern: str) -> Callable[[Any], bool]:
    """A pattern for the whole text."""
    return lambda value: re.fullmatch(pattern, value) is not None


def instance(*kinds: type) -> Callable[[Any], bool]:
    """A class, or several."""
    return lambda value: isinstance(value, kinds)


pairs: st.SearchStrategy[Any] = st.deferred(lambda: st.just(()) | st.tuples(pairs, pairs))
LETTERS = "abcdef"

CASES: dict[str, Case] = {
    "none": Case(st.none(), None, lambda v: v is None),
    "just": Case(st.just(7), 7, lambda v: v == 7),
    "booleans": Case(st.booleans(), False, instance(bool)),
    "integers": Case(st.integers(), 0, instance(int)),
    "integers small": Case(st.integers(0, 9), 0, between(0, 9)),
    "integers above": Case(st.integers(min_value=7), 7, lambda v: v >= 7),
    "integers below": Case(st.integers(max_value=-3), -3, lambda v: v <= -3),
    "integers wide": Case(st.integers(-5, 10**6), 0, between(-5, 10**6)),
    "integers huge": Case(st.integers(2**200, 2**201), 2**200, between(2**200, 2**201)),
    "floats": Case(st.floats(), 0.0, instance(float)),
    "floats finite": Case(st.floats(allow_nan=False, allow_infinity=False), 0.0, math.isfinite),
    "floats 1.5 to 10": Case(st.floats(1.5, 10), 2.0, between(1.5, 10)),
    "floats without whole": Case(st.floats(0.1, 0.2), 0.125, between(0.1, 0.2)),
    "floats negative": Case(st.floats(-7.5, -2.5), -3.0, between(-7.5, -2.5)),
    "floats half width": Case(
        st.floats(0, 1, width=16), 0.0, lambda v: 0 <= v <= 1 and v * 2**24 == int(v * 2**24)
    ),
    "floats not tiny": Case(
        st.floats(0, 1, allow_subnormal=False),
        0.0,
        lambda v: v == 0 or sys.float_info.min <= v <= 1,
    ),
    "complex": Case(st.complex_numbers(max_magnitude=9), 0j, lambda v: abs(v) <= 9),
    "decimals": Case(st.decimals(1, 5, places=2), Decimal(1), lambda v: 1 <= v <= 5),
    "fractions": Case(st.fractions(0, 1, max_denominator=9), Fraction(0), between(0, 1)),
    "text": Case(st.text(), "", instance(str)),
    "text bounded": Case(
        st.text(LETTERS, min_size=2, max_size=5),
        "aa",
        lambda v: 2 <= len(v) <= 5 and set(v) <= set(LETTERS),
    ),
    "text fixed": Case(
        st.text(string.ascii_letters, min_size=40, max_size=40), "A" * 40, str.isalpha
    ),
    "characters": Case(st.characters(categories=["Lu"]), "A", lambda v: v.isupper()),
    "codec": Case(
        st.text(st.characters(codec="latin-1")), "", lambda v: bool(v.encode("latin-1") or 1)
    ),
    "binary": Case(st.binary(min_size=1, max_size=4), b"\0", lambda v: 1 <= len(v) <= 4),
    "from_regex": Case(
        st.from_regex(r"[a-c]+\d{2}", fullmatch=True), "a00", matches(r"[a-c]+\d{2}")
    ),
    "emails": Case(st.emails(), "0@A.COM", lambda v: "@" in v),
    "sampled_from": Case(st.sampled_from("xyz"), "x", lambda v: v in "xyz"),
    "sampled filtered": Case(
        st.sampled_from(range(50)).filter(lambda x: x > 46), 47, between(47, 49)
    ),
    "enum": Case(st.sampled_from(Colour), Colour.RED, instance(Colour)),
    "one_of": Case(st.one_of(st.none(), st.integers(1, 3)), None, lambda v: v in (None, 1, 2, 3)),
    "tuples": Case(
        st.tuples(st.integers(1, 3), st.booleans()), (1, False), lambda v: 1 <= v[0] <= 3
    ),
    "lists": Case(
        st.lists(st.integers(0, 9), max_size=6),
        [],
        lambda v: len(v) <= 6 and all(x < 10 for x in v),
    ),
    "lists unique": Case(
        st.lists(st.integers(), min_size=3, unique=True),
        [0, 1, -1],
        lambda v: len(v) == len(set(v)) >= 3,
    ),
    "lists unique_by": Case(
        st.lists(st.tuples(st.integers(), st.text()), min_size=2, unique_by=lambda t: t[0]),
        [(0, ""), (1, "0")],  # a rejected tuple is moved on as a whole
        lambda v: len({x for x, _ in v}) == len(v) >= 2,
    ),
    "sets of text": Case(st.sets(st.text(), min_size=3), {"", "0", "1"}, lambda v: len(v) >= 3),
    "sets of booleans": Case(
        st.sets(st.booleans(), min_size=2), {False, True}, lambda v: len(v) == 2
    ),
    "sets of tuples": Case(
        st.frozensets(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=4),
        frozenset({(0, False), (1, True)}),
        lambda v: 2 <= len(v) <= 4,
    ),
    "dictionaries": Case(
        st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=2),
        {"a": 0.0, "b": 0.0},
        lambda v: 2 <= len(v) <= 4 and all(0 <= x <= 1 for x in v.values()),
    ),
    "fixed_dictionaries": Case(
        st.fixed_dictionaries({"a": st.integers(1, 2)}, optional={"b": st.none()}),
        {"a": 1},
        lambda v: v["a"] in (1, 2) and set(v) <= {"a", "b"},
    ),
    "permutations": Case(
        st.permutations(range(6)), list(range(6)), lambda v: sorted(v) == list(range(6))
    ),
    "builds": Case(
        st.builds(Order, item=st.sampled_from(["nut", "bolt"]), quantity=st.integers(1, 9)),
        Order("nut", 1),
        lambda v: 1 <= v.quantity <= 9,
    ),
    "from_type": Case(st.from_type(Order), Order("", 0), instance(Order)),
    "from_type list": Case(st.from_type(list[Colour]), [], lambda v: all(map(instance(Colour), v))),
    "map": Case(st.integers(0, 99).map(str), "0", lambda v: 0 <= int(v) <= 99),
    "filter": Case(st.integers().filter(lambda x: x % 2 == 1), 1, lambda v: v % 2 == 1),
    "flatmap": Case(
        st.integers(1, 4).flatmap(lambda n: st.lists(st.just(n), min_size=n, max_size=n)),
        [1],
        lambda v: set(v) == {len(v)},
    ),
    "composite": Case(ranges(), (0, 0), lambda v: 0 <= v[0] <= v[1] <= 200),
    "recursive": Case(
        st.recursive(st.booleans(), lambda inner: st.lists(inner, max_size=3), max_leaves=9),
        False,
        is_tree,
    ),
    "deferred": Case(pairs, (), lambda v: depth_of(v) >= 1),
    "datetimes": Case(
        st.datetimes(dt.datetime(1990, 5, 1), dt.datetime(2040, 1, 1)),
        dt.datetime(2000, 1, 1),
        between(dt.datetime(1990, 5, 1), dt.datetime(2040, 1, 1)),
    ),
    "datetimes with zone": Case(
        st.datetimes(timezones=st.just(dt.UTC)),
        dt.datetime(2000, 1, 1, tzinfo=dt.UTC),
        lambda v: v.tzinfo is dt.UTC,
    ),
    "dates": Case(st.dates(), dt.date(2000, 1, 1), instance(dt.date)),
    "times": Case(st.times(), dt.time(0), instance(dt.time)),
    "timedeltas": Case(
        st.timedeltas(dt.timedelta(0), dt.timedelta(9)), dt.timedelta(0), lambda v: v.days <= 9
    ),
    "uuids": Case(
        st.uuids(version=4),
        uuid.UUID(int=random.Random(0).getrandbits(128), version=4),
        lambda v: v.version == 4,
    ),
    "ip_addresses": Case(
        st.ip_addresses(v=4), ipaddress.ip_address("0.0.0.0"), instance(ipaddress.IPv4Address)
    ),
    "slices": Case(st.slices(5), slice(0, 0, None), instance(slice)),
    "shared": Case(
        st.tuples(st.shared(st.integers(), key="k"), st.shared(st.integers(), key="k")),
        (0, 0),
        lambda v: v[0] == v[1],
    ),
    "runner": Case(st.runner(default=5), 5, lambda v: v == 5),
}


def attempt(strategy: st.SearchStrategy[Any], source: Numbers) -> Any:
    """The drawn value, or the class `StepDiscarded`."""
    try:
        return draw(strategy, source)
    except StepDiscarded:
        return StepDiscarded


def defined_now() -> st.SearchStrategy[Any]:
    """A strategy that nobody could prepare: rules define some while they run."""
    keys = st.text(st.characters(codec="cp1252"), max_size=3)
    return st.dictionaries(keys, st.integers().filter(lambda x: x > 3), min_size=1)
