"""Which line says where somebody is."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from foretold.trace import Place
from foretold.trace.events import Event


def with_telling_places(events: list[Event]) -> list[Event]:
    """A helper to which somebody comes from several lines (`await asyncio.sleep(0)` in `pause`)
    does not say where they are: for its line stands the one from which it was called."""
    helpers = _helpers(events)
    return [
        replace(event, place=_telling(event, helpers)) if event.place in helpers else event
        for event in events
    ]


def _helpers(events: list[Event]) -> set[Place]:
    """Lines that one task or thread reaches from more than one other line."""
    callers: dict[tuple[str, str, Place], set[Place | None]] = {}
    for event in events:
        for place, caller in zip_longest((event.place, *event.callers), event.callers):
            if place is not None:
                callers.setdefault((event.host, event.actor, place), set()).add(caller)
    return {place for (_, _, place), known in callers.items() if len(known) > 1}


def _telling(event: Event, helpers: set[Place]) -> Place | None:
    return next((caller for caller in event.callers if caller not in helpers), event.place)
