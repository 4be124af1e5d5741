"""What makes two failures the same failure: the kind of exception and the user's line.

Nobody raises a deadlock, so it has no line: there it is the lines at which somebody waits for ever.
How many wait at one line, and what they are called, makes no other deadlock of it.
"""

from __future__ import annotations

from typing import NamedTuple

from foretold.errors import Deadlock, PropertyViolated
from foretold.kernel.waiting import raised_at
from foretold.trace import Place


class Signature(NamedTuple):
    """The identity of a failure."""

    kind: str
    place: str
    """`file:line` of the innermost line of the user's own; empty if there is none. Of a deadlock
    all lines at which somebody waits, with `; ` between them."""


def place_of(error: BaseException) -> Place | None:
    """The innermost line of the user's own in a traceback, or that of a property."""
    if isinstance(error, PropertyViolated) and error.place is not None:
        return Place(*error.place)
    return raised_at(error)


TEXT_MAX = 10_000


def text_of(error: BaseException) -> str:
    """What an exception says, even if asking it raises another; not without end."""
    try:
        text = str(error)
    except Exception as broken:
        return f"({type(error).__name__}.__str__ raised {type(broken).__name__})"
    left = len(text) - TEXT_MAX
    return text if left <= 0 else f"{text[:TEXT_MAX]}… and {left:,} characters more"


def signature_of(error: BaseException) -> Signature:
    """The identity of a failure."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, Deadlock):
        lines = {f"{each.place[0]}:{each.place[1]}" for each in error.waiting if each.place}
        return Signature(name, "; ".join(sorted(lines)))
    place = place_of(error)
    return Signature(name, str(place) if place else "")
