"""What an annotation says besides the type: bounds, lengths, patterns, digits.

Pydantic's own metadata, that of annotated-types and fields inside of `Annotated` differ in class
and agree in names, so they are read by name; none of these packages need be installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any


class Impossible(Exception):
    """No value can be given: limits that contradict each other, a pattern that nobody can read. It
    is caught where it is known what the value is for."""

    field: str | None = None
    """Of which field, if it is one."""


@dataclass(frozen=True)
class Limits:
    """Bounds that a value has to keep. None: nothing was said."""

    ge: Any = None
    gt: Any = None
    le: Any = None
    lt: Any = None
    multiple_of: Any = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: Any = None
    max_digits: int | None = None
    decimal_places: int | None = None
    allow_inf_nan: bool | None = None
    uuid_version: int | None = None
    predicates: tuple[Callable[[Any], bool], ...] = field(default=())
    is_json: bool = False
    """The value is given as a JSON text."""

    def within(self, metadata: Iterable[Any]) -> Limits:
        """These limits and those that the metadata of an annotation adds."""
        found = self
        for each in metadata:
            found = found._with(each)
        return found

    def _with(self, metadata: Any) -> Limits:
        inner = getattr(metadata, "metadata", None)
        if isinstance(inner, list):  # a Field(…) inside of Annotated
            return self.within(inner)
        said = {
            f.name: value
            for f in fields(self)
            if f.name not in ("predicates", "is_json")
            and (value := getattr(metadata, f.name, None)) is not None
        }
        predicate = getattr(metadata, "func", None)
        if type(metadata).__name__ in ("Predicate", "Not") and callable(predicate):
            said["predicates"] = (*self.predicates, predicate)
        if "Json" in (getattr(metadata, "__name__", ""), type(metadata).__name__):
            said["is_json"] = True
        return replace(self, **said)

    # As closed bounds

    @property
    def least(self) -> Any:
        """The lower bound, whether it is included or not."""
        return self.ge if self.gt is None else self.gt

    @property
    def most(self) -> Any:
        """The upper bound, whether it is included or not."""
        return self.le if self.lt is None else self.lt

    def whole(self, step: Any = 1) -> tuple[int | None, int | None]:
        """The least and the greatest n for which n * step keeps the bounds."""
        low, high = _parts(self.least, step), _parts(self.most, step)
        least = None if low is None else math.ceil(low)
        most = None if high is None else math.floor(high)
        if self.gt is not None and least is not None and least == low:
            least += 1
        if self.lt is not None and most is not None and most == high:
            most -= 1
        return least, most


def _parts(bound: Any, step: Any) -> Any:
    """How many steps a bound is, exactly: 0.1 is taken as it is written."""
    return None if bound is None else Decimal(str(bound)) / Decimal(str(step))
