"""`foretold.drift`: do hand-written strategies and the application's models still agree?

Strategies are written once and models change. Two things go wrong, both in silence: the strategy
gives what the model refuses, so that tests only ever see 422; or the model has fields, values and
bounds that the strategy never reaches, so that nobody tests them.

Values are drawn from tapes that go to the extremes: a third of all choices is the smallest one, a
third the greatest. So a bound that a strategy can reach at all is reached in a few draws.
"""

from __future__ import annotations

import enum
import random
import typing
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from foretold.arguments import check_whole
from foretold.errors import UsageError
from foretold.spec.annotations import unwrapped
from foretold.spec.hypothesis_adapter import StepDiscarded, draw
from foretold.spec.limits import Limits
from foretold.spec.models import Field, builder_of, fields_of
from foretold.spec.primitives import CalmSource
from foretold.tape.streams import generator_for

SAMPLES = 400
REFUSED_SHOWN = 3
MISSING = object()


@dataclass
class Drift:
    """What a strategy and a model do not agree about. False if there is nothing."""

    model: str
    samples: int = 0
    refused: list[tuple[Any, str]] = field(default_factory=list)
    """Values of the strategy that the model refuses, and why."""
    unreached: list[str] = field(default_factory=list)
    """What the model allows and the strategy never gave."""

    def __bool__(self) -> bool:
        return bool(self.refused or self.unreached)

    def __str__(self) -> str:
        if not self:
            return f"{self.model} and the strategy agree ({self.samples} values)"
        lines = [f"the strategy and {self.model} have drifted apart ({self.samples} values):"]
        for value, why in self.refused[:REFUSED_SHOWN]:
            lines += [f"  refused by the model: {value!r}", f"    {why}"]
        if len(self.refused) > REFUSED_SHOWN:
            lines.append(f"  … and {len(self.refused) - REFUSED_SHOWN} more are refused")
        return "\n".join([*lines, *(f"  never reached: {what}" for what in self.unreached)])


def drift(strategy: st.SearchStrategy[Any], model: type, *, samples: int = SAMPLES) -> Drift:
    """Compare a hand-written strategy with a model: `assert not (found := drift(…)), found`.

    The strategy gives instances of the model or what the model validates: a request's JSON body.
    """
    if not isinstance(strategy, st.SearchStrategy):
        raise UsageError(f"drift(strategy, model) takes a strategy first; got {strategy!r}")
    if fields_of(model) is None:
        raise UsageError(f"drift(strategy, model) needs a Pydantic model; got {model!r}")
    check_whole("samples", samples, at_least=1, example=SAMPLES)
    found = Drift(model.__name__)
    build, reached = builder_of(model), Reached(model)
    for value in _values(strategy, samples):
        found.samples += 1
        try:
            valid = build(value.model_dump() if hasattr(value, "model_dump") else value)
        except ValueError as error:
            found.refused.append((value, _first_line(error)))
        else:
            reached.add(valid, value)
    if not found.samples:
        raise UsageError(f"drift: the strategy {strategy!r} gave no value in {samples} tries")
    if len(found.refused) < found.samples:  # else it is all the model's no, and says nothing more
        found.unreached = list(reached.missing())
    return found


def _values(strategy: st.SearchStrategy[Any], samples: int) -> Iterator[Any]:
    for number in range(samples):
        source: Any = CalmSource() if number == 0 else ExtremeSource(number)
        try:
            yield draw(strategy, source)
        except StepDiscarded:
            continue


class ExtremeSource:
    """Choices that are the smallest or the greatest ones, most of the time."""

    def __init__(self, seed: int) -> None:
        self._random: random.Random = generator_for(seed, "drift")
        self._p = (0.995, None, 0.1)[seed % 3]
        """How likely one more is: long lists, usual ones, short ones."""
        self._yes_left = 400
        """Lists end some time, whatever they ask."""

    def choose(self, n: int, label: str | None = None) -> int:
        """A number from 0 to n - 1."""
        return (0, n - 1, self._random.randrange(n))[self._random.randrange(3)]

    def between(self, low: int, high: int, label: str | None = None) -> int:
        """A number from `low` to `high`."""
        return low + self.choose(high - low + 1)

    def chance(self, p: float, label: str | None = None) -> bool:
        """Yes or no; in one source much oftener than asked for, in another more seldom."""
        self._yes_left -= 1
        return self._yes_left > 0 and self._random.random() < (self._p or p)


def _first_line(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if callable(errors) and (all_of_them := errors()):
        first = all_of_them[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
    return str(error).splitlines()[0]


# ---------------------------------------------------------------- what was reached


@dataclass
class SeenField:
    """What a field has been, in all values."""

    declared: Field
    given: bool = False
    values: list[Any] = field(default_factory=list)
    inner: Reached | None = None


class Reached:
    """What values of a class have reached, field by field."""

    def __init__(self, model: Any, depth: int = 0) -> None:
        self.fields = {f.name: SeenField(f) for f in fields_of(model) or ()}
        self.depth = depth

    def add(self, valid: Any, given: Any) -> None:
        """A value that the model has taken, and as it was given."""
        for name, seen in self.fields.items():
            value = valid.get(name, MISSING) if isinstance(valid, Mapping) else getattr(valid, name)
            seen.given |= _was_given(given, seen.declared)
            if value is MISSING:
                continue
            seen.values.append(value)
            for part in value if isinstance(value, list | tuple | set | frozenset) else (value,):
                if fields_of(type(part)) is not None and self.depth < 4:
                    self._inner(seen, type(part)).add(part, part)

    def _inner(self, seen: SeenField, kind: type) -> Reached:
        if seen.inner is None or not set(seen.inner.fields) >= {
            f.name for f in fields_of(kind) or ()
        }:
            known = seen.inner.fields if seen.inner is not None else {}
            seen.inner = Reached(kind, self.depth + 1)
            seen.inner.fields |= known
        return seen.inner

    def missing(self, path: str = "") -> Iterator[str]:
        """What a field may be and never was, in words."""
        for name, seen in self.fields.items():
            where = path + name
            if not seen.given and not path:
                yield f"{where} (it was never given)"
                continue
            yield from (f"{where} {what}" for what in _missing_of(seen))
            if seen.inner is not None:
                yield from seen.inner.missing(f"{where}.")


def _was_given(given: Any, declared: Field) -> bool:
    set_by_hand = getattr(given, "model_fields_set", None)
    if set_by_hand is not None:
        return declared.name in set_by_hand
    if isinstance(given, Mapping):
        return declared.key in given or declared.name in given
    return True


def _missing_of(seen: SeenField) -> Iterator[str]:
    arms = list(_arms(seen.declared.kind, seen.declared.limits))
    for kind, limits in arms:
        if kind is type(None):
            if None not in seen.values:
                yield "= None"
        elif typing.get_origin(kind) is Literal:
            yield from _never(typing.get_args(kind), seen.values)
        elif isinstance(kind, type) and issubclass(kind, enum.Enum):
            yield from _never(list(kind), seen.values)
        elif kind is bool:
            yield from _never([False, True], seen.values)
        elif len(arms) == 1 or kind in (int, float, str, list):
            yield from _bounds_missed(limits, [v for v in seen.values if v is not None])
        is_class = len(arms) > 1 and fields_of(kind) is not None
        if is_class and not any(isinstance(value, kind) for value in seen.values):
            yield f"as {kind.__name__}"


def _arms(kind: Any, limits: Limits) -> Iterator[tuple[Any, Limits]]:
    """The types that a union is made of, each with its limits; of any other type, itself."""
    kind = unwrapped(kind)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        inner, *metadata = typing.get_args(kind)
        yield from _arms(inner, limits.within(metadata))
    elif origin is typing.Union or type(kind).__name__ == "UnionType":
        for arm in typing.get_args(kind):
            yield from _arms(arm, limits)
    else:
        yield kind, limits


def _never(wanted: Any, values: list[Any]) -> Iterator[str]:
    for each in wanted:
        if not any(value == each and type(value) is type(each) for value in values):
            yield f"= {each!r}"


def _bounds_missed(limits: Limits, values: list[Any]) -> Iterator[str]:
    if not values:
        return
    if limits.ge is not None and min(values) > limits.ge:
        yield f"= {limits.ge}, its lower bound (the least was {min(values)})"
    if limits.le is not None and max(values) < limits.le:
        yield f"= {limits.le}, its upper bound (the greatest was {max(values)})"
    sizes = [len(value) for value in values if isinstance(value, Sized)]
    if sizes and limits.min_length is not None and min(sizes) > limits.min_length:
        yield f"of length {limits.min_length}, its least (the shortest was {min(sizes)})"
    if sizes and limits.max_length is not None and max(sizes) < limits.max_length:
        yield f"of length {limits.max_length}, its greatest (the longest was {max(sizes)})"
