"""Strategies for type annotations, constraints included: `Annotated[int, Field(ge=1)]` and so on.

Values are made valid, not filtered, wherever an annotation says what is valid. All are such as a
JSON document can carry: no NaN, no infinity, no lone surrogates, and no NUL, which PostgreSQL and
C libraries refuse in any text.
"""

from __future__ import annotations

import datetime
import enum
import ipaddress
import json
import pathlib
import re
import types
import typing
import uuid
from collections import abc, deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, Union

from hypothesis import strategies as st

from foretold.spec.hypothesis_filters import Persistent
from foretold.spec.limits import Impossible, Limits
from foretold.spec.patterns import TEXT, in_python, matching

Strategy = st.SearchStrategy[Any]

PAST, FUTURE = datetime.datetime(1999, 12, 31), datetime.datetime(2100, 1, 1)
DECIMAL_PLACES, WHOLE_DIGITS = 2, 9
"""Of a Decimal of which nothing is said."""
LIST_MAX = 8
"""How many elements a list has at most, if nothing is said: bodies, not bulk data."""
LONG = 12
"""Hypothesis nearly never fills a text or a list that may be longer than this."""
USUAL = 8
"""For each value of the greatest length, so many of a usual one."""


class NoStrategy(Exception):
    """There is no strategy for this type; the message says which one."""


class Annotations:
    """Makes strategies for annotations. `nested` makes those of classes with fields."""

    def __init__(self, nested: Callable[[type, int], Strategy | None]) -> None:
        self._nested = nested

    def strategy(self, kind: Any, limits: Limits | None = None, depth: int = 0) -> Strategy:
        """Values of an annotation. Raises `NoStrategy`."""
        limits = limits or Limits()
        if limits.is_json:
            inner = Limits(**{**vars(limits), "is_json": False})
            return self.strategy(kind, inner, depth).map(json.dumps)
        found = self._of(kind, limits, depth)
        for predicate in limits.predicates:
            found = Persistent(found, predicate)
        return found

    def _of(self, kind: Any, limits: Limits, depth: int) -> Strategy:
        kind = unwrapped(kind)
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            inner, *metadata = typing.get_args(kind)
            return self.strategy(inner, limits.within(metadata), depth)
        if origin in (Union, types.UnionType):
            return self._union(kind, limits, depth)
        if origin is Literal:
            return st.sampled_from(typing.get_args(kind))
        if kind is None or kind is type(None):
            return st.none()
        if kind is Any or kind is object:
            return st.none() | st.booleans() | st.integers(-99, 99) | st.text(TEXT, max_size=9)
        if (made := self._collection(kind, origin, limits, depth)) is not None:
            return made
        if isinstance(kind, type):
            made = self._nested(kind, depth)
            made = _of_class(kind, limits) if made is None else made
            if made is not None:
                return made
        raise NoStrategy(getattr(kind, "__name__", None) or repr(kind))

    def _union(self, kind: Any, limits: Limits, depth: int) -> Strategy:
        """None first: it is the calm one. A branch that goes too deep is left out."""
        arms = sorted(typing.get_args(kind), key=lambda arm: arm is not type(None))
        made, missing = [], []
        for arm in arms:
            try:
                made.append(self.strategy(arm, limits, depth))
            except NoStrategy as unknown:
                missing.append(unknown)
        if not made:
            raise missing[0]
        return st.one_of(made)

    def _collection(self, kind: Any, origin: Any, limits: Limits, depth: int) -> Strategy | None:
        bare, arms = origin or kind, typing.get_args(kind)
        low = limits.min_length or 0
        high = max(low, LIST_MAX) if limits.max_length is None else limits.max_length
        if bare in (tuple,) and arms and arms[-1] is not Ellipsis:
            return st.tuples(*(self.strategy(arm, None, depth) for arm in arms))
        if bare in _MAPPINGS:
            key, value = arms or (str, Any)
            made = self._parts([key, value], low, depth)
            return st.dictionaries(*made, min_size=low, max_size=high) if made else st.just({})
        if bare in _SETS or bare in _LISTS:
            made = self._parts([arms[0] if arms else Any], low, depth)
            if not made:
                return st.just(bare() if bare in (list, set, frozenset, tuple, deque) else [])
            if bare in _SETS:
                return st.sets(made[0], min_size=low, max_size=high).map(_SETS[bare])
            lists = st.lists(made[0], min_size=low, max_size=high)
            return or_full(lists, high).map(_LISTS[bare])
        return None

    def _parts(self, kinds: list[Any], low: int, depth: int) -> list[Strategy]:
        """Strategies of elements; none where they go too deep and there need not be any."""
        try:
            return [self.strategy(kind, None, depth) for kind in kinds]
        except TooDeep:
            if low:
                raise
            return []


class TooDeep(NoStrategy):
    """A class that contains itself: this branch ends here."""


_LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.Iterable: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    tuple: tuple,
    deque: deque,
}
_SETS: dict[Any, Callable[[set[Any]], Any]] = {
    set: set,
    frozenset: frozenset,
    abc.Set: set,
    abc.MutableSet: set,
}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


def unwrapped(kind: Any) -> Any:
    """The type that a name stands for: `NewType`, `type X = …`, `Required[…]`, a type variable."""
    while True:
        origin = typing.get_origin(kind)
        if hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        elif origin in _QUALIFIERS:
            kind = typing.get_args(kind)[0]
        elif isinstance(kind, typing.TypeVar):
            kind = kind.__bound__ or Any
        else:
            return kind


_QUALIFIERS = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def _of_class(kind: type, limits: Limits) -> Strategy | None:
    """Values of a class that has no fields of its own."""
    if issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    for base in kind.__mro__:
        maker = _SPECIAL.get(base.__name__) if base.__module__.startswith("pydantic") else None
        maker = maker or _PLAIN.get(base)
        if maker is not None:
            return maker(limits)
    return None


# ---------------------------------------------------------------- numbers


def integers(limits: Limits) -> Strategy:
    """Whole numbers within the limits."""
    step = limits.multiple_of or 1
    least, most = limits.whole(step)
    _check(least, most, limits)
    found = st.integers(least, most)
    return found if step == 1 else found.map(lambda n: n * step)


def floats(limits: Limits) -> Strategy:
    """Finite floats within the limits."""
    if limits.multiple_of is not None:
        step = limits.multiple_of
        least, most = limits.whole(step)
        _check(least, most, limits)
        return st.integers(least, most).map(lambda n: n * step)
    low, high = limits.least, limits.most
    return st.floats(
        None if low is None else float(low),
        None if high is None else float(high),
        allow_nan=False,
        allow_infinity=False,
        exclude_min=limits.gt is not None,
        exclude_max=limits.lt is not None,
    )


def decimals(limits: Limits) -> Strategy:
    """Decimals: so many units of the last place that may be used."""
    digits = limits.max_digits
    places = limits.decimal_places
    if places is None:
        places = DECIMAL_PLACES if digits is None else min(DECIMAL_PLACES, digits)
    unit = Decimal(1).scaleb(-places)
    step = Decimal(str(limits.multiple_of)) if limits.multiple_of is not None else unit
    least, most = limits.whole(step)
    largest = 10 ** (places + WHOLE_DIGITS if digits is None else digits) - 1
    largest = int(largest * unit / step)
    low = -largest if least is None else max(least, -largest) if digits is not None else least
    high = largest if most is None else min(most, largest) if digits is not None else most
    low, high = (min(low, high), high) if least is None else (low, max(low, high))
    return st.integers(low, high).map(lambda n: n * step)


def _check(least: int | None, most: int | None, limits: Limits) -> None:
    if least is not None and most is not None and least > most:
        said = {name: v for name, v in vars(limits).items() if v not in (None, (), False)}
        raise Impossible(f"no number can keep all of these limits: {said}")


# ---------------------------------------------------------------- texts


def texts(limits: Limits) -> Strategy:
    """Texts of an allowed length, or such as the pattern describes."""
    low, high = limits.min_length or 0, limits.max_length
    if limits.pattern is None:
        return or_full(st.text(TEXT, min_size=low, max_size=high), high)
    pattern = getattr(limits.pattern, "pattern", limits.pattern)
    found, matches = matching(pattern, low, high), re.compile(in_python(pattern)).search
    return or_full(found, high, lambda text: matches(text) is not None)


def or_full(
    values: Strategy, length_max: int | None, is_valid: Callable[[Any], bool] | None = None
) -> Strategy:
    """These values, and now and then one of the greatest length: the same again and again. A bound
    is where columns are too narrow and pages too small."""
    if length_max is None or length_max <= LONG:
        return values

    def filled(given: tuple[Any, int]) -> Any:
        value, kind = given
        full = (value * length_max)[:length_max] if kind == USUAL else value
        return full if is_valid is None or is_valid(full) else value

    # One of several equal branches would not do: Hypothesis takes these for one.
    return st.tuples(values, st.integers(0, USUAL)).map(filled)


_NAME = "[a-z][a-z0-9]{0,7}"
EMAILS = st.from_regex(rf"{_NAME}@(example\.com|example\.org|mail\.example\.net)", fullmatch=True)
URLS = st.from_regex(rf"https?://{_NAME}\.(com|org)(/{_NAME}){{0,2}}", fullmatch=True)


# ---------------------------------------------------------------- time


def datetimes(zones: Strategy, **bounds: Any) -> Callable[[Limits], Strategy]:
    """Instants within the limits."""

    def made(limits: Limits) -> Strategy:
        low, high = limits.least or bounds.get("low"), limits.most or bounds.get("high")
        zone = getattr(low or high, "tzinfo", None)
        only = zones if zone is None else st.just(zone)
        found = st.datetimes(
            _naive(low, datetime.datetime.min), _naive(high, datetime.datetime.max), timezones=only
        )
        return _open(found, limits)

    return made


def _naive(instant: Any, otherwise: datetime.datetime) -> datetime.datetime:
    return otherwise if instant is None else instant.replace(tzinfo=None)


def days(**bounds: Any) -> Callable[[Limits], Strategy]:
    """Dates within the limits."""

    def made(limits: Limits) -> Strategy:
        low = limits.least or bounds.get("low", datetime.date.min)
        high = limits.most or bounds.get("high", datetime.date.max)
        return _open(st.dates(low, high), limits)

    return made


def spans(limits: Limits) -> Strategy:
    """Lengths of time within the limits."""
    low = datetime.timedelta(days=-9_999) if limits.least is None else limits.least
    high = datetime.timedelta(days=9_999) if limits.most is None else limits.most
    return _open(st.timedeltas(low, high), limits)


def _open(found: Strategy, limits: Limits) -> Strategy:
    """Bounds that are not included themselves."""
    if limits.gt is None and limits.lt is None:
        return found
    return found.filter(lambda value: value not in (limits.gt, limits.lt))


_ANY_ZONE = st.none() | st.just(datetime.UTC)
_PLAIN: dict[type, Callable[[Limits], Strategy]] = {
    bool: lambda limits: st.booleans(),
    int: integers,
    float: floats,
    complex: lambda limits: st.complex_numbers(allow_nan=False, allow_infinity=False),
    Decimal: decimals,
    str: texts,
    bytes: lambda limits: st.binary(min_size=limits.min_length or 0, max_size=limits.max_length),
    datetime.datetime: datetimes(_ANY_ZONE),
    datetime.date: days(),
    datetime.time: lambda limits: st.times(),
    datetime.timedelta: spans,
    uuid.UUID: lambda limits: st.uuids(version=limits.uuid_version),  # type: ignore[arg-type]  # metadata of Pydantic has no others than 1 to 8
    ipaddress.IPv4Address: lambda limits: st.ip_addresses(v=4),
    ipaddress.IPv6Address: lambda limits: st.ip_addresses(v=6),
    pathlib.PurePath: lambda limits: st.from_regex(rf"{_NAME}(/{_NAME}){{0,2}}", fullmatch=True),
}
_SPECIAL: dict[str, Callable[[Limits], Strategy]] = {
    "EmailStr": lambda limits: EMAILS,
    "NameEmail": lambda limits: EMAILS,
    "AnyUrl": lambda limits: URLS,
    "_BaseUrl": lambda limits: URLS,
    "SecretStr": texts,
    "SecretBytes": lambda limits: _PLAIN[bytes](limits),
    "AwareDatetime": datetimes(st.just(datetime.UTC)),
    "NaiveDatetime": datetimes(st.none()),
    "FutureDatetime": datetimes(_ANY_ZONE, low=FUTURE),
    "PastDatetime": datetimes(_ANY_ZONE, high=PAST),
    "FutureDate": days(low=FUTURE.date()),
    "PastDate": days(high=PAST.date()),
    "IPvAnyAddress": lambda limits: st.ip_addresses(),
}
