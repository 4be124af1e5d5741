"""Exactly one owner: each thing belongs to one host, or is on its way from one to another once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from foretold.errors import PropertyViolated, UsageError

SHOWN_MAX = 5


def unique(
    owners: Mapping[Any, Iterable[Hashable]],
    *,
    in_flight: Iterable[Hashable] = (),
    things: Iterable[Hashable] | None = None,
    message: str = "",
) -> int:
    """Each thing has exactly one owner, or none and is in flight exactly once; else
    `PropertyViolated` is raised. Returns how many things there are.

        @foretold.invariant(when="instant")
        def one_owner(self):
            owned = {bubble.name: bubble.entities for bubble in self.bubbles}
            return foretold.unique(owned, in_flight=self.journals(), things=self.entities)

    `owners` says what each host has. A host that lists a thing twice counts as two owners. Without
    `things`, one that is lost everywhere cannot be missed.
    """
    if not isinstance(owners, Mapping):
        raise UsageError(
            "unique takes a mapping from each host to the things that it owns, such as "
            f"unique({{'a': a.entities, 'b': b.entities}}); got {type(owners).__name__}"
        )
    held: dict[Hashable, list[str]] = {}
    for owner, owned in owners.items():
        for thing in owned:
            held.setdefault(thing, []).append(str(getattr(owner, "name", owner)))
    flying: dict[Hashable, int] = {}
    for thing in in_flight:
        flying[thing] = flying.get(thing, 0) + 1
    found = dict.fromkeys((*held, *flying))
    expected = found if things is None else dict.fromkeys(things)
    every = dict.fromkeys((*expected, *found))
    wrong = [
        f"{thing!r} {said}"
        for thing in every
        if (said := _wrong(held.get(thing, []), flying.get(thing, 0), thing in expected))
    ]
    if wrong:
        more = len(wrong) - SHOWN_MAX
        lines = [*wrong[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]
        words = message or "each thing has one owner, or is in flight once"
        told = "".join(f"\n  {line}" for line in lines)
        raise PropertyViolated(f"{words}: not so for {len(wrong)} of {len(every)}{told}")
    return len(every)


def _wrong(owners: list[str], flights: int, is_expected: bool) -> str:
    """What is wrong with one thing, or nothing."""
    if not is_expected:
        return "is not one of the things"
    flight = "" if not flights else "in flight" if flights == 1 else f"in flight {flights} times"
    if len(owners) > 1:
        also = f", and is {flight}" if flight else ""
        return f"has {len(owners)} owners: {', '.join(owners)}{also}"
    if owners:
        return f"is owned by {owners[0]}, and is {flight} as well" if flight else ""
    if flights > 1:
        return f"is {flight}"
    return "" if flight else "has no owner, and is not in flight"
