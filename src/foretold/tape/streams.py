"""Streams: where single choices come from, by name.

Each stream has a generator of its own, derived from (seed, stream name), so that one more draw in
one place, or an entry deleted by the shrinker, shifts nothing elsewhere. The four kinds of stream
here are the four origins of a tape; they differ only in `_next`.

0 is always the calm choice: the first option, the smallest number, no fault.
"""

from __future__ import annotations

import _random
import bisect
import hashlib
import itertools
import random
from collections.abc import Iterable, MutableSequence, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from foretold.errors import UsageError

T = TypeVar("T")

_EXACT_FLOAT = 1 << 53
BYTES_SEED_BOUND = 1 << 32


class Choice(NamedTuple):
    """One choice as it was made: `value` out of `bound`, and what it was for."""

    value: int
    bound: int
    label: str


class Weights(tuple[float, ...]):
    """Weights that many choices have in common: they are added up once."""

    bounds: list[float]

    def __new__(cls, weights: Iterable[float] = ()) -> Weights:
        made = super().__new__(cls, weights)
        made.bounds = list(itertools.accumulate(made))
        return made


class TapeRandom(random.Random):
    """A generator of our own, by its class: those of the program are reseeded for each run. Its
    seed is a whole number."""

    # Seeded in C, without the way through `seed`, which is patched in a run: each slot of a machine
    # has a stream, and to make its generator costs more than to draw from it.
    if not TYPE_CHECKING:
        __init__ = _random.Random.__init__
    gauss_next = None


def generator_for(seed: int, name: str) -> random.Random:
    """The generator of one stream: a function of the seed and the stream's name alone."""
    # surrogatepass: names may hold what a user called a host, and users are free.
    text = f"{seed}/{name}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return TapeRandom(int.from_bytes(digest, "big"))


class Stream:
    """A source of choices. `_next(bound)` is the only thing its kinds decide."""

    # A run may have thousands, and the collector looks at each thing that has a dictionary.
    __slots__ = ("_bytes", "draws", "name", "record")

    def __init__(self, name: str, *, recording: bool = False) -> None:
        self.name = name
        self.draws = 0
        self.record: list[Choice] | None = [] if recording else None
        self._bytes: random.Random | None = None

    def _next(self, bound: int, label: str) -> int:
        raise NotImplementedError

    def _draw(self, bound: int, label: str) -> int:
        self.draws += 1
        value = self._next(bound, label)
        if self.record is not None:
            self.record.append(Choice(value, bound, label))
        return value

    def choose(self, n: int, label: str | None = None) -> int:
        """A number from 0 to n - 1. 0 is the calm one."""
        if not isinstance(n, int):
            raise UsageError(f"choose({n!r}): n must be a whole number")
        if n < 1:
            raise UsageError(f"choose({n}) has nothing to choose from: n must be at least 1")
        if n == 1:
            return 0
        return self._draw(n, label or "")

    def chance(self, p: float, label: str | None = None) -> bool:
        """True with probability `p`. False is the calm choice; 0 and 1 leave nothing to choose."""
        if not 0 <= p <= 1:
            raise UsageError(f"chance({p}): a probability lies between 0 and 1")
        if p in (0, 1):
            return bool(p)
        return bool(self._draw_chance(p, label or ""))

    def _draw_chance(self, p: float, label: str) -> int:
        return self._draw(2, label)

    def weighted(self, weights: Sequence[float], label: str | None = None) -> int:
        """A number below the number of weights, each as likely as its weight. 0 is the calm one.

        Weights guide a seeded tape alone: on record is the number, so that what was chosen stays
        the same when weights change. A replay may hence give what has no weight now.
        """
        return self._draw_weighted(weights, label or "") if len(weights) > 1 else 0

    def _draw_weighted(self, weights: Sequence[float], label: str) -> int:
        return self._draw(len(weights), label)

    def between(self, low: int, high: int, label: str | None = None) -> int:
        """A whole number from `low` to `high`, both included. `low` is the calm one."""
        if high < low:
            raise UsageError(
                f"between({low}, {high}) is empty: the second bound is the higher one. "
                f"Write between({high}, {low})."
            )
        return low + self.choose(high - low + 1, label)

    def boolean(self, label: str | None = None) -> bool:
        """False (calm) or True."""
        return bool(self.choose(2, label))

    def pick(self, options: Sequence[T], label: str | None = None) -> T:
        """One of `options`. The first is the calm one."""
        if not options:
            raise UsageError("pick([]) has nothing to choose from")
        return options[self.choose(len(options), label)]

    def shuffle(self, items: Sequence[T], label: str | None = None) -> list[T]:
        """The items in some order; every order is possible, the given one is the calm one.

        A `list` (or `deque`, …) handed in is reordered in place as well, as `random.shuffle` would.
        """
        rest = list(items)
        result = [rest.pop(self.choose(len(rest), label)) for _ in range(len(rest))]
        if isinstance(items, MutableSequence):
            for position, item in enumerate(result):  # not items[:]: a deque has no slices
                items[position] = item
        return result

    def bytes(self, n: int, label: str | None = None) -> bytes:
        """`n` bytes that look random.

        The whole stream of bytes hangs on one choice, the seed: a key or a uuid of all zeros is
        not calm, it collides with the next one. The calm seed 0 gives distinct bytes as well.
        """
        if n < 0:
            raise UsageError(f"bytes({n}): a length is 0 or more")
        if self._bytes is None:
            seed = self._bytes_seed(label or "bytes")
            self._bytes = generator_for(seed, f"{self.name}/bytes")
        return self._bytes.randbytes(n)

    @property
    def gave_bytes(self) -> bool:
        return self._bytes is not None

    def _bytes_seed(self, label: str) -> int:
        return self.choose(BYTES_SEED_BOUND, label)


class SeededStream(Stream):
    """Choices from a pseudo-random generator."""

    __slots__ = ("generator",)

    def __init__(self, name: str, seed: int, *, recording: bool = False) -> None:
        Stream.__init__(self, name, recording=recording)
        self.generator = generator_for(seed, name)

    def choose(self, n: int, label: str | None = None) -> int:
        if self.record is None and type(n) is int and 1 < n < _EXACT_FLOAT:
            self.draws += 1  # the common case, without ceremony: every message draws
            return int(self.generator.random() * n)
        return super().choose(n, label)

    def chance(self, p: float, label: str | None = None) -> bool:
        if self.record is None and 0 < p < 1:
            self.draws += 1
            return self.generator.random() < p
        return super().chance(p, label)

    def _next(self, bound: int, label: str) -> int:
        if bound < _EXACT_FLOAT:
            return int(self.generator.random() * bound)
        return self.generator.randrange(bound)

    def _draw_chance(self, p: float, label: str) -> int:
        self.draws += 1
        value = int(self.generator.random() < p)
        if self.record is not None:
            self.record.append(Choice(value, 2, label))
        return value

    def _draw_weighted(self, weights: Sequence[float], label: str) -> int:
        self.draws += 1
        bounds = (weights if isinstance(weights, Weights) else Weights(weights)).bounds
        value = min(bisect.bisect(bounds, self.generator.random() * bounds[-1]), len(bounds) - 1)
        if self.record is not None:
            self.record.append(Choice(value, len(bounds), label))
        return value


class RecordedStream(Stream):
    """Choices read from a recording. Past its end, and where they no longer fit: calm ones."""

    __slots__ = ("entries", "misfit")

    def __init__(self, name: str, entries: Sequence[Choice], *, recording: bool = False) -> None:
        super().__init__(name, recording=recording)
        self.entries = entries
        self.misfit: str | None = None

    def _next(self, bound: int, label: str) -> int:
        position = self.draws - 1
        if position >= len(self.entries):
            self._note_misfit(f"draw {position + 1} ({label or 'no label'}) is past its end")
            return 0
        entry = self.entries[position]
        if entry.bound != bound or entry.label != label:
            self._note_misfit(
                f"draw {position + 1} was {entry.label or 'no label'} of {entry.bound}, "
                f"now it is {label or 'no label'} of {bound}"
            )
        return entry.value if entry.value < bound else 0

    def _note_misfit(self, what: str) -> None:
        if self.misfit is None:
            self.misfit = f"stream {self.name}: {what}"


class ContinuedStream(SeededStream):
    """Choices read from a recording; past its end they are drawn, as it might have gone on."""

    __slots__ = ("entries",)

    def __init__(
        self, name: str, entries: Sequence[Choice], seed: int, *, recording: bool = False
    ) -> None:
        super().__init__(name, seed, recording=recording)
        self.entries = entries

    def choose(self, n: int, label: str | None = None) -> int:
        given = self.draws < len(self.entries)
        return Stream.choose(self, n, label) if given else super().choose(n, label)

    def chance(self, p: float, label: str | None = None) -> bool:
        return Stream.chance(self, p, label)

    def _next(self, bound: int, label: str) -> int:
        if self.draws > len(self.entries):
            return super()._next(bound, label)
        value = self.entries[self.draws - 1].value
        return value if value < bound else 0

    def _draw_chance(self, p: float, label: str) -> int:
        given = self.draws < len(self.entries)
        return Stream._draw_chance(self, p, label) if given else super()._draw_chance(p, label)

    def _draw_weighted(self, weights: Sequence[float], label: str) -> int:
        given = self.draws < len(self.entries)
        drawn = Stream._draw_weighted if given else SeededStream._draw_weighted
        return drawn(self, weights, label)


class Odometer:
    """The counter behind an enumerated tape: one digit per choice, the right-most turns first.

    The bounds may depend on earlier digits. After a run the right-most digit that can still turn
    is turned and all behind it are dropped, so that every combination is met exactly once.
    """

    def __init__(self, streams: frozenset[str] | None = None) -> None:
        self._streams = streams
        """The first words of the streams that are counted through; None: of all."""
        self.digits: list[list[int]] = []
        self.position = 0
        self._reached = 0

    def goes_through(self, stream: str) -> bool:
        """Whether this stream is enumerated. The others are calm."""
        return self._streams is None or stream.partition("/")[0] in self._streams

    @property
    def left_at_least(self) -> int:
        """So many combinations are certainly still to come: each digit has further values."""
        return sum(bound - 1 - value for value, bound in self.digits)

    def rewind(self) -> None:
        """Read the same combination again."""
        self._reached = max(self._reached, self.position)
        self.position = 0

    def next(self, bound: int) -> int:
        if self.position == len(self.digits):
            self.digits.append([0, bound])
        digit = self.digits[self.position]
        if digit[1] != bound:
            raise UsageError(
                f"choice {self.position + 1} had {digit[1]} options before and has {bound} now: "
                "what is enumerated must depend on the tape alone"
            )
        self.position += 1
        return digit[0]

    def turn(self) -> bool:
        """Go to the next combination; False when all have been."""
        self.rewind()
        if self._reached < len(self.digits):
            # The last digit was turned just now, and those before it were drawn on the way there.
            raise UsageError(
                f"{self._reached} choices were drawn where {len(self.digits)} were before: what is "
                "enumerated must depend on the tape alone; use `break` to leave the loop early"
            )
        self._reached = 0
        while self.digits:
            last = self.digits[-1]
            last[0] += 1
            if last[0] < last[1]:
                return True
            self.digits.pop()
        return False


class EnumeratedStream(Stream):
    """Choices from the odometer that all streams of one enumerated tape share."""

    __slots__ = ("odometer",)

    def __init__(self, name: str, odometer: Odometer, *, recording: bool = False) -> None:
        super().__init__(name, recording=recording)
        self.odometer = odometer

    def _next(self, bound: int, label: str) -> int:
        return self.odometer.next(bound)

    def _bytes_seed(self, label: str) -> int:
        # Enumerating four billion seeds would never reach the next choice. It counts and is
        # recorded all the same, because a replay of the recording draws it.
        self.draws += 1
        if self.record is not None:
            self.record.append(Choice(0, BYTES_SEED_BOUND, label))
        return 0
