"""`foretold.event`: the program says what has happened. Outside a run it does nothing."""

from __future__ import annotations

from foretold.errors import UsageError
from foretold.trace import encode
from foretold.world.current import world_or_none


def event(name: str, /, **data: object) -> None:
    """Something has happened: `foretold.event("TicketCreated", ticket="ticket-1")`.

    It stands in `world.log`, with the virtual time, the event that has caused it and the
    conversation that it belongs to. It may stay in production code: outside a run it does nothing.
    """
    world = world_or_none()
    if world is None or world.sealed:
        return
    given: object = name
    if not isinstance(given, str) or not given:
        raise UsageError(f"an event has a name, such as event('TicketCreated'); got {name!r}")
    world.log_event(name, data)
    world.trace.note("event", name, encode(data))
