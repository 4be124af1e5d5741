"""The destination's side of a migration: it decides about each ticket once, and never changes its
mind. Every handler may be called again with the same message, at any later time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from examples.luciferase.clock import NANOS_PER_MILLI
from examples.luciferase.entity import Entity
from examples.luciferase.fsm import State
from examples.luciferase.journal import ABORTED, APPLIED
from examples.luciferase.migration import READY, REFUSED, TOKEN_LIFETIME_MS, Parts
from examples.luciferase.wire import Message

FREE = (None, State.DEPARTED, State.GHOST)


@dataclass(slots=True)
class Reservation:
    """An entity that is about to arrive."""

    entity: str
    view_id: int
    until_ns: float


class Arrivals:
    """Tickets and reservations of one bubble."""

    def __init__(self, parts: Parts, is_open: Callable[[], bool]) -> None:
        self.parts = parts
        self.is_open = is_open
        self.fails_on_add = False
        self.reserved: dict[str, Reservation] = {}
        self._known_since_ns: dict[str, int] = {}
        parts.endpoint.handlers |= {
            "prepare": self.prepare,
            "add": self.add,
            "abort": self.abort,
            "done": self.done,
        }

    # --- messages --------------------------------------------------------------------------------

    def prepare(self, message: Message) -> Message:
        """A place for the entity in the present view, or not."""
        ticket, entity = message["ticket"], message["entity"]
        decision = self.parts.journal.ledger.tickets.get(ticket)
        if decision is not None:
            return {"state": decision}
        if ticket in self.reserved:
            return {"state": READY}
        views, fsm = self.parts.views, self.parts.fsm
        if not self.is_open() or not views.is_stable or views.view.id != message["view"]:
            return {"state": REFUSED}
        self._drop(*(old for old, place in self.reserved.items() if place.entity == entity))
        state = fsm.state(entity)
        if state not in FREE:
            return {"state": REFUSED}
        if state is not State.GHOST:
            fsm.initialize(entity, State.GHOST)
        fsm.transition(entity, State.MIGRATING_IN, views.view.id)
        until_ns = self.parts.clock.nanos() + 2 * self.parts.profile.total_ms * NANOS_PER_MILLI
        self.reserved[ticket] = Reservation(entity, views.view.id, until_ns)
        return {"state": READY}

    def add(self, message: Message) -> Message:
        """Take the entity over, if its place is still reserved."""
        ticket, parts = message["ticket"], self.parts
        decision = parts.journal.ledger.tickets.get(ticket)
        if decision is not None:
            return {"state": decision}
        place = self.reserved.get(ticket)
        if place is None or self.fails_on_add or not self.is_open():
            return self._refuse(ticket)
        if place.view_id != parts.views.view.id or not parts.views.is_stable:
            return self._refuse(ticket)
        parts.journal.write(op="in", ticket=ticket, entity=message["entity"])
        del self.reserved[ticket]
        entity: Entity = parts.journal.ledger.owned[place.entity]
        parts.store.add(entity)
        parts.fsm.transition(entity.id, State.OWNED)
        parts.ghosts.forget(entity.id, entity.stamp)
        parts.changed(entity.id)
        return {"state": APPLIED}

    def abort(self, message: Message) -> Message:
        """The source wants to know; what was not applied never will be."""
        decision = self.parts.journal.ledger.tickets.get(message["ticket"])
        return self._refuse(message["ticket"]) if decision is None else {"state": decision}

    def done(self, message: Message) -> None:
        ledger, ticket = self.parts.journal.ledger, message["ticket"]
        if ticket in ledger.tickets and ticket not in ledger.confirmed:
            self.parts.journal.write(op="done", ticket=ticket)

    def _refuse(self, ticket: str) -> Message:
        self.parts.journal.write(op="no", ticket=ticket)
        self._drop(ticket)
        return {"state": ABORTED}

    # --- time and views --------------------------------------------------------------------------

    def view_changed(self) -> None:
        """MIGRATING_IN -> GHOST: what was reserved in the old view is void."""
        self.parts.fsm.view_changed([place.entity for place in self.reserved.values()])
        self.reserved.clear()

    def tick(self) -> None:
        now_ns = self.parts.clock.nanos()
        self._drop(*(t for t, place in self.reserved.items() if now_ns > place.until_ns))

    def forget_old(self) -> None:
        """Tokens and confirmed tickets live for five minutes, counted anew after a restart."""
        ledger, now_ns = self.parts.journal.ledger, self.parts.clock.nanos()
        for name in [*ledger.applied, *ledger.confirmed]:
            since_ns = self._known_since_ns.setdefault(name, now_ns)
            if now_ns - since_ns > TOKEN_LIFETIME_MS * NANOS_PER_MILLI:
                self.parts.journal.write(op="forget", name=name)
                del self._known_since_ns[name]

    def _drop(self, *tickets: str) -> None:
        for ticket in tickets:
            place = self.reserved.pop(ticket, None)
            if place is not None:
                self.parts.fsm.transition(place.entity, State.GHOST)
