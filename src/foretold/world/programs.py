"""What else than a function can be run: classes of machines, for instance.

The world runs functions. Who stands above it and knows other things that can be run says here how
such a thing becomes a function, so that `run`, `explore`, `replay` and all commands take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Adopter = Callable[[Any], Callable[..., Any] | None]
_adopters: list[Adopter] = []


def adopt(adopter: Adopter) -> None:
    """From now on ask `adopter`, too: it gives a function for what it knows, and None otherwise."""
    if adopter not in _adopters:
        _adopters.append(adopter)


def program_of(given: Any) -> Any:
    """The function that stands for `given`; `given` itself if nobody knows it."""
    for adopter in _adopters:
        program = adopter(given)
        if program is not None:
            return program
    return given
