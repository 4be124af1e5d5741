"""Where the small buggy programs enter themselves. `catalogue.py` has all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Program = Callable[[bool], Coroutine[Any, Any, None]]
"""Called with False it has its bug, with True the bug is repaired."""

BUGS: dict[str, Program] = {}


def bug(program: Program) -> Program:
    """Enter a program into the list."""
    BUGS[program.__name__] = program
    return program


async def step(count: int = 1) -> None:
    """Let others go on: a database, a cache or a disk would be asked here."""
    for _ in range(count):
        await asyncio.sleep(0)
