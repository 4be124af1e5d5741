"""The state of each entity in one bubble.

    OWNED -> MIGRATING_OUT -> DEPARTED -> GHOST -> MIGRATING_IN -> OWNED
                           -> ROLLBACK_OWNED -> OWNED            -> GHOST

A view change sends MIGRATING_OUT to ROLLBACK_OWNED and MIGRATING_IN to GHOST. Worker threads use
the machine, so a transition reads, validates and writes under one lock. A migrating entity has a
context, which says since when and in which view; it exists exactly as long as the migration.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from examples.luciferase.bugs import planted
from examples.luciferase.clock import Clock


class State(Enum):
    """Where an entity stands, seen from one bubble."""

    OWNED = "OWNED"
    MIGRATING_OUT = "MIGRATING_OUT"
    DEPARTED = "DEPARTED"
    ROLLBACK_OWNED = "ROLLBACK_OWNED"
    GHOST = "GHOST"
    MIGRATING_IN = "MIGRATING_IN"


S = State
ALLOWED = {
    S.OWNED: {S.MIGRATING_OUT},
    S.MIGRATING_OUT: {S.DEPARTED, S.ROLLBACK_OWNED},
    S.DEPARTED: {S.GHOST},
    S.ROLLBACK_OWNED: {S.OWNED},
    S.GHOST: {S.MIGRATING_IN},
    S.MIGRATING_IN: {S.OWNED, S.GHOST},
}
MIGRATING = (S.MIGRATING_OUT, S.MIGRATING_IN)


@dataclass(slots=True)
class Context:
    """A migration, as the state machine knows it."""

    began_ns: int
    view_id: int


class EntityMigrationStateMachine:
    """All entities that a bubble has heard of."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self.contexts: dict[str, Context] = {}

    # --- reading ---------------------------------------------------------------------------------

    def state(self, entity: str) -> State | None:
        with self._lock:
            return self._states.get(entity)

    def entity_count(self) -> int:
        with self._lock:
            return len(self._states)

    def entities_in_migration(self) -> int:
        with self._lock:
            return sum(state in MIGRATING for state in self._states.values())

    def in_state(self, wanted: State) -> list[str]:
        with self._lock:
            return [entity for entity, state in self._states.items() if state is wanted]

    def counts(self) -> dict[State, int]:
        """How many entities are in each state."""
        counted = dict.fromkeys(State, 0)
        if planted("counts_without_rollback"):
            del counted[State.ROLLBACK_OWNED]
        with self._lock:
            for state in self._states.values():
                counted[state] += 1
        return counted

    # --- writing ---------------------------------------------------------------------------------

    def initialize(self, entity: str, state: State = State.OWNED) -> None:
        """An entity appears here."""
        with self._lock:
            self._states[entity] = state

    def forget(self, entity: str) -> None:
        with self._lock:
            self._states.pop(entity, None)
            self.contexts.pop(entity, None)

    def transition(self, entity: str, to: State, view_id: int = 0) -> bool:
        """Whether the entity may change to this state; it has then."""
        if planted("transition_not_atomic"):
            return self._get_validate_put(entity, to, view_id)
        with self._lock:
            now = self._states.get(entity)
            if now is None or to not in ALLOWED[now]:
                return False
            self._enter(entity, to, view_id)
            return True

    def view_changed(self, entities: Iterable[str]) -> None:
        """Migrations of an old view end where they began."""
        back = {S.MIGRATING_OUT: S.ROLLBACK_OWNED, S.MIGRATING_IN: S.GHOST}
        with self._lock:
            for entity in entities:
                old = self._states.get(entity)
                if old not in back:
                    continue
                self._states[entity] = back[old]
                if not planted("view_change_leaves_context"):
                    self.contexts.pop(entity, None)

    def _enter(self, entity: str, to: State, view_id: int) -> None:
        self._states[entity] = to
        if to in MIGRATING:
            self.contexts.setdefault(entity, Context(self.clock.nanos(), view_id))
        else:
            self.contexts.pop(entity, None)

    def _get_validate_put(self, entity: str, to: State, view_id: int) -> bool:
        now = self.state(entity)
        if now is None or to not in ALLOWED[now]:
            return False
        with self._lock:
            self._enter(entity, to, view_id)
        return True
