"""Where the programs of this folder are entered, and the steps that most of them take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

Program = Callable[..., Any]

PROGRAMS: dict[str, Program] = {}
FREE: set[str] = set()
PLANTED: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Enter a function among the programs."""
    PROGRAMS[function.__name__] = function
    return function


def free(function: Program) -> Program:
    """A program in which the order of steps shows in the result."""
    FREE.add(function.__name__)
    return program(function)


def planted(function: Program) -> Program:
    """A program that leaks on purpose: the checks here must notice."""
    PLANTED[function.__name__] = function
    return function


async def pace(log: list[Any], name: object, steps: int = 3) -> object:
    """Take some steps, and write each of them down."""
    for step in range(steps):
        await asyncio.sleep(0)
        log.append((name, step))
    return name


async def nap(log: list[Any], name: object, seconds: float) -> object:
    """Sleep, and write down the end of it."""
    await asyncio.sleep(seconds)
    log.append(name)
    return name
