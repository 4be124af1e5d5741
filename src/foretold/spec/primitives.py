"""How numbers, text and bytes are made of the choices of a tape.

The rules, so that the tape's shrinker needs to know nothing of values:

- Small choices mean simple values. All zeros give the simplest value there is.
- Whatever was drawn can be made simpler by *lowering* a choice. So a wide range is drawn as two
  choices: a rung (how large at most) and a number below it. Bounds and notorious constants lie
  above the plain numbers of their rung: one that is lowered turns into the largest plain number,
  not into some unrelated small one.
- Uniform choices, as a seeded tape makes them, give useful values: small ones often, huge and
  notorious ones sometimes.
- A small range is one plain choice, so that it can be enumerated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

UNIFORM_MAX = 1_024
"""A range of up to so many integers is one plain choice."""

RUNG_BITS = (4, 7, 10, 16, 32, 64)
UNBOUNDED = 2**128  # where a range without a bound ends
SPECIAL_WEIGHT = 1 / 9  # of the notorious values of a rung, together
WHOLE_MAX = 2**53  # above it, not every whole number is a float
PLACES = (0, 1, 2, 3, 6, None, None, None)
"""How many binary places a float keeps, by choice: none, a few, or all."""

WORD_RARITY = 19  # one text in so many and one begins with a notorious word
SPELL_SHARE = 64  # a word that was begun goes on with all but one in so many choices
P_SPELL = 1 - 1 / SPELL_SHARE


class ChoiceSource(Protocol):
    """What a draw needs of a tape: a stream of numbers, of which 0 is always the calm one."""

    def choose(self, n: int, label: str | None = None) -> int:
        """A number from 0 to n - 1."""

    def between(self, low: int, high: int, label: str | None = None) -> int:
        """A number from `low` to `high`; `low` is the calm one."""

    def chance(self, p: float, label: str | None = None) -> bool:
        """True with probability `p`; False is the calm one."""


class CalmSource:
    """The all-zero tape."""

    def choose(self, n: int, label: str | None = None) -> int:
        return 0

    def between(self, low: int, high: int, label: str | None = None) -> int:
        return low

    def chance(self, p: float, label: str | None = None) -> bool:
        return False


class Rung(NamedTuple, Generic[T]):
    """One choice: numbers below `size` are plain values, those above are the special ones."""

    size: int
    plain: Callable[[int], T]
    special: tuple[T, ...] = ()
    share: int = 0  # so many numbers for each special value

    @property
    def choices(self) -> int:
        return self.size + self.share * len(self.special)

    def value(self, number: int) -> T:
        if number < self.size:
            return self.plain(number)
        return self.special[(number - self.size) // self.share]


class IntegerPlan(NamedTuple):
    """The integers upward of the simplest one, and those downward."""

    up: tuple[Rung[int], ...]
    down: tuple[Rung[int], ...]
    p_down: float
    plain: tuple[int, int] | None = None
    """The first value and how many there are, if they are all plain and upward, as most are."""


def rung(
    size: int,
    plain: Callable[[int], T],
    special: Iterable[T],
    weight: float = SPECIAL_WEIGHT,
) -> Rung[T]:
    """A rung whose special values have about the given weight, together."""
    values = tuple(special)
    if not values:
        return Rung(size, plain)
    return Rung(size, plain, values, max(1, round(size * weight / (1 - weight) / len(values))))


# ---------------------------------------------------------------- integers


class HalfLine(NamedTuple):
    """The integers on one side of the simplest one: `size` of them, `step` is 1 or -1."""

    first: int
    size: int
    step: int

    def value(self, number: int) -> int:
        return self.first + self.step * number

    def number(self, value: int) -> int:
        return self.step * (value - self.first)

    def within(self, values: Iterable[int], start: int, end: int) -> list[int]:
        """Those of the values that lie from step `start` to before step `end`, nearest first."""
        return sorted((v for v in values if start <= self.number(v) < end), key=self.number)


def integer_plan(
    low: int | None,
    high: int | None,
    towards: int,
    weights: Mapping[int, float],
    notorious: Iterable[int],
) -> IntegerPlan:
    """The integers from `low` to `high`; the simplest is the one nearest to `towards`."""
    floor = low if low is not None else -max(UNBOUNDED, 2 * abs(high or 0))
    ceiling = high if high is not None else max(UNBOUNDED, 2 * abs(low or 0))
    first = min(max(towards, floor), ceiling)
    above = HalfLine(first, ceiling - first + 1, 1)
    # Downward of a wide range the simplest value comes again: -7 then turns into 7 by one choice.
    # In a small one it does not, so that each value is enumerated once.
    again = int(ceiling - floor >= UNIFORM_MAX and first > floor)
    below = HalfLine(first - 1 + again, first - floor + again, -1)
    near_above, near_below = min(above.size, UNIFORM_MAX), min(below.size, UNIFORM_MAX)
    p_down = near_below / (near_above + near_below)
    ups = {value: weight / (1 - p_down) for value, weight in weights.items() if value >= first}
    downs = {value: weight / p_down for value, weight in weights.items() if value < first}
    up, down = _integer_rungs(above, ups, notorious), _integer_rungs(below, downs, notorious)
    is_plain = not down and len(up) == 1 and not up[0].special
    return IntegerPlan(up, down, p_down, (first, above.size) if is_plain else None)


def _integer_rungs(
    side: HalfLine, weights: Mapping[int, float], notorious: Iterable[int]
) -> tuple[Rung[int], ...]:
    if side.size == 0:
        return ()
    wide = side.size > UNIFORM_MAX
    limits = [2**bits for bits in RUNG_BITS if 2**bits < side.size] if wide else []
    rungs = [
        rung(end, side.value, side.within(notorious, start, end))
        for start, end in zip([0, *limits], limits, strict=False)
    ]
    if weights:
        last = _weighted_rung(side, weights, len(limits) + 1)
    elif wide:
        special = {*side.within(notorious, limits[-1], side.size), side.value(side.size - 1)}
        last = rung(side.size, side.value, sorted(special, key=side.number))
    else:
        last = Rung(side.size, side.value)
    return (*rungs, last)


def _weighted_rung(side: HalfLine, weights: Mapping[int, float], rungs: int) -> Rung[int]:
    """The whole range, with the values that are asked for more often; one of so many rungs."""
    lightest = min(weights.values())
    slots = [
        value
        for value in sorted(weights, key=side.number)
        for _ in range(min(64, round(weights[value] / lightest)))
    ]
    return rung(side.size, side.value, slots, min(0.5, sum(weights.values()) * rungs))


# ---------------------------------------------------------------- floats


class Magnitudes(NamedTuple):
    """The floats from `low` to `high`, neither negative, under a sign; none smaller than `tiny`."""

    low: float
    high: float
    tiny: float
    sign: float

    def fit(self, magnitude: float) -> float:
        """The nearest of these floats, without the sign."""
        inside = min(max(magnitude, self.low), self.high)
        if 0 < inside < self.tiny:
            return self.tiny if self.tiny <= self.high else 0.0
        return inside

    def within(self, values: Iterable[float]) -> list[float]:
        """Those of the values that are among these floats."""
        same_sign = [value for value in values if math.copysign(1.0, value) == self.sign]
        return [value for value in same_sign if self.fit(abs(value)) == abs(value)]

    def rounded(self, magnitude: float, bits: int) -> float:
        """Rounded up to so many binary places, or to the fewest with which it stays in range.

        Up, so that what is too large for some property stays too large.
        """
        if magnitude < WHOLE_MAX:
            for places in range(bits, 1_075):
                value = math.ldexp(math.ceil(math.ldexp(magnitude, places)), -places)
                if value <= self.high:
                    return self.fit(value)
        return magnitude


FloatPlan = tuple[tuple[Magnitudes, tuple[Rung[float], ...]], ...]
"""One side or both: the magnitudes, and the rungs that lead to them."""


def float_plan(
    low: float, high: float, allow_nan: bool, tiny: float, notorious: Iterable[float]
) -> FloatPlan:
    """The floats from `low` to `high`. The bounds have signs even if they are zero."""
    constants = tuple(notorious)
    edges = [math.inf, -math.inf, -0.0, low, high]
    nan = [math.nan] if allow_nan else []
    sides = []
    for side in (
        Magnitudes(max(low, 0.0), high, tiny, 1.0),
        Magnitudes(max(-high, 0.0), -low, tiny, -1.0),
    ):
        if math.copysign(1.0, side.high) > 0:
            special = side.within(constants)
            often = [*side.within(edges), *nan]
            repeated = often * max(1, len(special) // max(1, len(often)))
            sides.append((side, _float_rungs(side, special + repeated)))
    return tuple(sides)


def _float_rungs(side: Magnitudes, special: list[float]) -> tuple[Rung[float], ...]:
    """Small magnitudes, those spread evenly over the range, and every one there is.

    On each rung a smaller number is a smaller magnitude.
    """
    rungs: list[Rung[float]] = []
    for units in (16, 256) if side.low < WHOLE_MAX else ():
        steps = math.floor(64 * min(side.high - side.low, units)) + 1
        rungs.append(Rung(steps, lambda number: side.fit(side.low + number / 64)))
    if side.high <= WHOLE_MAX:
        width = side.high - side.low
        rungs.append(Rung(2**53, lambda number: side.fit(side.low + width * (number / 2**53))))
    elif side.low < WHOLE_MAX:
        rungs.append(Rung(WHOLE_MAX, lambda number: side.fit(side.low + number)))
    first, last = _bits_of(side.low), _bits_of(side.high)
    every = rung(last - first + 1, lambda i: side.fit(_float_of(first + i)), special, 1 / 4)
    return (*rungs, every)


def _bits_of(value: float) -> int:
    """Floats that are not negative are ordered as their bits are."""
    return int.from_bytes(struct.pack(">d", abs(value)), "big")


def _float_of(bits: int) -> float:
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


# ---------------------------------------------------------------- text


class Alphabet:
    """The characters of some text: common ones, then rare ones in blocks."""

    COMMON = 256
    RARE_BLOCKS = 64

    def __init__(
        self, size: int, character: Callable[[int], str], words: Callable[[], Iterable[str]]
    ) -> None:
        self.size = size
        self.character = character
        self.common = size if size <= 2 * self.COMMON else self.COMMON
        rare = size - self.common
        self.block = max(1, -(-rare // self.RARE_BLOCKS))
        self.choices = self.common + -(-rare // self.block)
        self._find_words = words
        self._words: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The notorious strings that this alphabet can spell, the shortest first."""
        if self._words is None:
            self._words = tuple(sorted(self._find_words(), key=lambda word: (len(word), word)))
        return self._words


class NotoriousValues:
    """The notorious values, and the plans that were made of them so far."""

    def __init__(self, integers: Iterable[int], floats: Iterable[float]) -> None:
        self.integers = tuple(integers)
        self.floats = tuple(floats)
        self.integer_plan = lru_cache(maxsize=1_024)(self._integer_plan)
        self.float_plan = lru_cache(maxsize=1_024)(self._float_plan)

    def _integer_plan(
        self,
        low: int | None,
        high: int | None,
        towards: int,
        weights: tuple[tuple[int, float], ...] = (),
    ) -> IntegerPlan:
        return integer_plan(low, high, towards, dict(weights), self.integers)

    def _float_plan(
        self, low: float, high: float, allow_nan: bool, tiny: float, signs: tuple[float, float]
    ) -> FloatPlan:
        # -0.0 and 0.0 are one key of a cache and two bounds: hence the signs.
        low, high = math.copysign(low, signs[0]), math.copysign(high, signs[1])
        return float_plan(low, high, allow_nan, tiny, self.floats)


# ---------------------------------------------------------------- drawing


class Drawer:
    """Draws primitives from one source, under one label."""

    def __init__(self, source: ChoiceSource, label: str | None) -> None:
        self.source = source
        self.label = label

    def choose(self, n: int) -> int:
        return self.source.choose(n, self.label) if n > 1 else 0

    def boolean(self, p: float) -> bool:
        return self.source.chance(p, self.label) if 0 < p < 1 else p >= 1

    def integer(self, plan: IntegerPlan) -> int:
        """One of the plan's values: upward or downward, how large at most, and which."""
        if plan.plain is not None:
            first, size = plan.plain
            return first + self.source.choose(size, self.label) if size > 1 else first
        rungs = plan.up
        if plan.down and self.source.chance(plan.p_down, self.label):
            rungs = plan.down
        chosen = rungs[self.choose(len(rungs))]
        return chosen.value(self.choose(chosen.choices))

    def floating(self, plan: FloatPlan) -> float:
        """One of the plan's values: its sign, how large at most, how large, and how round."""
        side, rungs = plan[self.choose(len(plan))]
        chosen = rungs[self.choose(len(rungs))]
        number = self.choose(chosen.choices)
        if number >= chosen.size:
            value = chosen.value(number)
            # Each NaN is an object of its own: a shared one would count as equal in lists and sets.
            return float("nan") if math.isnan(value) else value
        places = PLACES[self.choose(len(PLACES))]
        magnitude = chosen.value(number)
        if places is not None:
            magnitude = side.rounded(magnitude, places)
        return math.copysign(magnitude, side.sign)

    def text(self, alphabet: Alphabet, low: int, high: int, p_more: float) -> Iterator[str]:
        """The characters of a text of `low` to `high` of them. A few begin with a notorious word.

        A word is spelled, each letter by a choice, which can be lowered to the plain letter that
        it is: so the shrinker may take the word apart.
        """
        length, plain = 0, alphabet.choices
        word = self._word(alphabet.words) if high > 1 else ""
        while length < high and (length < low or self.boolean(P_SPELL if word else p_more)):
            number = self.choose(plain * SPELL_SHARE if word else plain)
            if number >= plain:
                yield word[0]
                word = word[1:]
            else:
                yield self._character(alphabet, number)
                word = ""
            length += 1

    def _word(self, words: tuple[str, ...]) -> str:
        ordinary = WORD_RARITY * len(words)
        number = self.choose(ordinary + len(words)) - ordinary if words else -1
        return words[number] if number >= 0 else ""

    def _character(self, alphabet: Alphabet, number: int) -> str:
        if number >= alphabet.common:
            start = alphabet.common + (number - alphabet.common) * alphabet.block
            number = start + self.choose(min(alphabet.block, alphabet.size - start))
        return alphabet.character(number)

    def octets(self, low: int, high: int, p_more: float) -> Iterator[int]:
        """The bytes of a string of `low` to `high` bytes."""
        length = 0
        while length < high and (length < low or self.boolean(p_more)):
            length += 1
            yield self.choose(256)
