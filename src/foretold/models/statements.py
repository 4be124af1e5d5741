"""Conditions and changes, as SQL for the server and as functions for the model.

where = at("x")                 # id = 'x'
change = plus(5)                # v + 5
Where("v % 2 = 0", lambda key, value: value % 2 == 0)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Self


class _Statement:
    """It is what its SQL says: two with the same SQL are equal."""

    __slots__ = ("sql",)

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def __repr__(self) -> str:
        return self.sql

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.sql == other.sql

    def __hash__(self) -> int:
        return hash(self.sql)

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Where(_Statement):
    """Which rows: the condition in SQL, and the same as a function of key and value."""

    __slots__ = ("holds", "keys")

    def __init__(
        self, sql: str, holds: Callable[[Any, Any], bool], keys: tuple[Any, ...] | None = None
    ) -> None:
        super().__init__(sql)
        self.holds = holds
        self.keys = keys
        """If these keys alone can fit: there is no need to look at others."""

    def __call__(self, key: Any, value: Any) -> bool:
        return bool(self.holds(key, value))


class Change(_Statement):
    """What becomes of a value: the expression in SQL, and the same as a function."""

    __slots__ = ("becomes",)

    def __init__(self, sql: str, becomes: Callable[[Any], Any]) -> None:
        super().__init__(sql)
        self.becomes = becomes

    def __call__(self, value: Any) -> Any:
        return self.becomes(value)

    def __repr__(self) -> str:
        return f"v = {self.sql}"


@lru_cache(maxsize=1_000)
def at(key: str) -> Where:
    """The row with this key."""
    return Where(f"id = '{key}'", lambda its, _: bool(its == key), (key,))


@lru_cache(maxsize=1_000)
def above(number: int) -> Where:
    """All rows with so much at least."""
    return Where(f"v >= {number}", lambda _, value: bool(value >= number))


ALL = Where("true", lambda key, value: True)


@lru_cache(maxsize=1_000)
def plus(number: int) -> Change:
    """So much more."""
    return Change(f"v + {number}", lambda value: value + number)


@lru_cache(maxsize=1_000)
def to(number: int) -> Change:
    """This value, whatever it was."""
    return Change(str(number), lambda value: number)
