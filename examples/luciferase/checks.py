"""Checks of distributed systems that the machine needs: liveness without polling by hand, and
exactly one place for each thing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import foretold

STEP_S = 0.01


async def eventually(
    predicate: Callable[[], bool], *, within_s: float, message: str = "it never became true"
) -> None:
    """Wait in virtual time until the predicate is true; fail if that takes too long."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while not predicate():
        foretold.always(loop.time() < until_s, message, within_s=within_s)
        await asyncio.sleep(STEP_S)


def unique(
    owners: Mapping[str, Iterable[str]], *, in_flight: Iterable[str] = (), things: Iterable[str]
) -> int:
    """Each thing has exactly one owner, or none and is in flight once. How many there are."""
    held = [(thing, owner) for owner, owned in owners.items() for thing in owned]
    held += [(thing, "in flight") for thing in in_flight]
    count = 0
    for thing in things:
        count += 1
        places = [place for it, place in held if it == thing]
        foretold.always(len(places) == 1, f"{thing} must be in exactly one place", places=places)
    return count
