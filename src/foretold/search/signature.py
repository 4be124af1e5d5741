"""What makes two failures the same failure: the kind of exception and the user's line.

Nobody raises a deadlock, so it has no line: there it is the lines at which somebody waits for ever.
How many wait at one line, and what they are called, makes no other deadlock of it.
"""

from __future__ import annotations

import re
import types
from typing import NamedTuple

from foretold.errors import Deadlock, PropertyViolated
from foretold.kernel.waiting import is_library
from foretold.trace import Place

_WAITS = re.compile(r"^  .+ waits at (.+:\d+) for ", re.MULTILINE)


class Signature(NamedTuple):
    """The identity of a failure."""

    kind: str
    place: str
    """`file:line` of the innermost line of the user's own; empty if there is none. Of a deadlock
    all lines at which somebody waits, with `; ` between them."""


def place_of(error: BaseException) -> Place | None:
    """The innermost line of the user's own in a traceback; else the innermost of all."""
    if isinstance(error, PropertyViolated) and error.place is not None:
        return Place(*error.place)
    places = []
    traceback: types.TracebackType | None = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(Place(code.co_filename, traceback.tb_lineno, code.co_qualname))
        traceback = traceback.tb_next
    for place in reversed(places):
        if not is_library(place.file):
            return place
    return None


def text_of(error: BaseException) -> str:
    """What an exception says, even if asking it raises another."""
    try:
        return str(error)
    except Exception as broken:
        return f"({type(error).__name__}.__str__ raised {type(broken).__name__})"


def signature_of(error: BaseException) -> Signature:
    """The identity of a failure."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, Deadlock):
        return Signature(name, "; ".join(sorted(set(_WAITS.findall(text_of(error))))))
    place = place_of(error)
    return Signature(name, str(place) if place else "")
