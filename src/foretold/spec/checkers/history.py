"""What was observed: who did what, from when to when, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final


@final
class Unknown:
    """Nobody knows what came of it: perhaps it was done, perhaps it will be, perhaps never."""

    def __repr__(self) -> str:
        return "unknown"

    def __copy__(self) -> Unknown:
        return self

    def __deepcopy__(self, memo: object) -> Unknown:
        return self


UNKNOWN: Final = Unknown()
"""The result of an operation that is still going on, or that failed under a fault."""


@final
class Unheard:
    """It was done, as foretold; what it gave nobody has heard, so that any result will do."""

    def __repr__(self) -> str:
        return "nothing that anybody heard"

    def __deepcopy__(self, memo: object) -> Unheard:
        return self


UNHEARD: Final = Unheard()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The result of an operation that was refused properly, as a model refuses it."""

    why: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"refused ({self.why})" if self.why else "refused"


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One call of one actor."""

    actor: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    invoked: float = 0
    """When it began; any clock that all actors share, such as the number of an event."""
    returned: float | None = None
    """When its result was there; None if it never was."""
    result: Any = UNKNOWN

    @property
    def is_known(self) -> bool:
        """Whether its result is known; what came of the others is anybody's guess."""
        return self.returned is not None and self.result is not UNKNOWN

    def overlaps(self, other: Operation) -> bool:
        """Whether neither was over when the other began."""
        return not (_before(self, other) or _before(other, self))

    @property
    def call(self) -> str:
        """`buy(item=3)`."""
        told = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({told})"

    def __str__(self) -> str:
        return f"{self.actor}: {self.call} -> {self.result!r}"


def _before(one: Operation, other: Operation) -> bool:
    return one.is_known and one.returned is not None and one.returned < other.invoked
