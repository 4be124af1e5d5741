"""`foretold.either`: where the real system may do several things, and who says which it does.

One model has three uses, which differ only in who decides. As a *specification* every way is
followed (`every_way`). As a *fake* the tape decides. As *foretold* a prophecy does. The model
itself does not know which of them it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from foretold.errors import UsageError
from foretold.spec.checkers.unseen import unseen
from foretold.tape.streams import Odometer

T = TypeVar("T")
Decide = Callable[[int], int]

_decides: ContextVar[Decide | None] = ContextVar("foretold_either", default=None)


def either(*options: T) -> T:
    """One of several things that the real system may do here. The first is the calm one.

    It stands in a method of a model: for the victim of a deadlock, for a queue that may drop a
    message, for a cache that may be stale.
    """
    if not options:
        raise UsageError(
            "foretold.either() has nothing to choose from.\n  right: foretold.either(True, False)"
        )
    decide = _decides.get()
    if decide is None:
        raise UsageError(
            "foretold.either was called outside of a specification and of a fake.\n"
            "  right: foretold.Spec(model).observe(…)   follows every option\n"
            "         foretold.Fake(model).method(…)    the tape decides"
        )
    return options[decide(len(options)) if len(options) > 1 else 0]


class decided_by:  # noqa: N801  # it is used as a function, and a fake enters it at each statement
    """Within, `decide(n)` says which of n options `either` takes."""

    __slots__ = ("_decide", "_token")

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def __enter__(self) -> None:
        self._token = _decides.set(self._decide)

    def __exit__(self, *error: object) -> None:
        _decides.reset(self._token)


def every_way(once: Callable[[], T]) -> Iterator[T]:
    """What `once()` gives, for each combination of options that it meets, the calm one first."""
    odometer = Odometer()
    while True:
        with decided_by(odometer.next), unseen():
            found: Any = once()
        yield found
        if not odometer.turn():
            return
