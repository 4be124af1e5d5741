"""A correct program: what it is, which faults apply to it, and the mistake that it could have made.

Each is written as an engineer would write it, checks its own invariants, and takes `broken`: with
it the program has one planted mistake, which proves that the checks are alive and that its runs
differ in something that matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foretold.world.faults import FaultSet

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True, slots=True)
class Program:
    """One of them."""

    name: str
    main: Callable[..., Any]
    faults: FaultSet | None
    runs_max: int
    """Within so many runs a search finds the planted mistake."""
    slow: bool
    """That takes seconds: it is looked for in `make soak` alone."""

    def target(self, *, broken: bool) -> Callable[..., Any]:
        """What a search runs."""
        return functools.partial(self.main, broken=broken)


def program(
    *, faults: FaultSet | None = None, runs_max: int = 150, slow: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a program to the list."""

    def add(main: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[main.__name__] = Program(main.__name__, main, faults, runs_max, slow)
        return main

    return add
