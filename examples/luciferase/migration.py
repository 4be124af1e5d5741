"""Migration in two phases between two processes: an entity is removed first and added then.

    source                              destination
    lock: OWNED -> MIGRATING_OUT
    journal `out`, remove
    prepare(ticket)         ->          reserve: MIGRATING_IN, in this view
    add(ticket, entity)     ->          journal `in`, OWNED, or journal `no`
    journal `gone`, done    ->          the ticket may be forgotten some day

The destination decides, once for each ticket, and answers every later request with its decision.
If the source does not hear the decision, it asks for an abort: the answer is the decision then, be
it new or old. Until it is known, the entity is in the source's journal and in no store: an orphan,
which the sweep resolves. A token names what a caller wants; each attempt has a ticket of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import foretold
from examples.luciferase.bugs import planted
from examples.luciferase.clock import NANOS_PER_MILLI, Clock, RateLimiter
from examples.luciferase.entity import checked_id
from examples.luciferase.fsm import EntityMigrationStateMachine, State
from examples.luciferase.ghosts import GhostStateManager
from examples.luciferase.journal import ABORTED, APPLIED, Journal, Leaving
from examples.luciferase.results import Migrated, Profile, Result
from examples.luciferase.store import EntityStore
from examples.luciferase.views import ViewMonitor
from examples.luciferase.wire import Address, Endpoint, Message

READY, REFUSED = "ready", "refused"
TOKEN_LIFETIME_MS = 300_000
MIGRATIONS_PER_S = 5
BURST = 5
Key = tuple[str, str]


@dataclass(slots=True)
class Parts:
    """What both sides of a migration share in one bubble."""

    name: str
    clock: Clock
    profile: Profile
    endpoint: Endpoint
    journal: Journal
    store: EntityStore
    fsm: EntityMigrationStateMachine
    views: ViewMonitor
    ghosts: GhostStateManager
    changed: Callable[[str], None]
    """Called after each step that changes where an entity is."""


@dataclass(slots=True)
class Migration:
    """One that is under way at its source."""

    entity: str
    destination: str
    token: str
    address: Address = ("", 0)
    view_id: int = 0
    began_ns: int = 0
    ticket: str = ""


class Departures:
    """The source's side."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.limiter = RateLimiter(parts.clock, MIGRATIONS_PER_S, BURST)
        self.running: dict[str, Migration] = {}
        """By token."""
        self._keys: dict[Key, str] = {}
        """Which token moves this entity to this destination now."""
        for ticket in parts.journal.ledger.leaving.values():
            parts.fsm.initialize(ticket.entity.id, State.MIGRATING_OUT)

    async def migrate(self, entity: str, destination: str, token: str) -> Migrated:
        """Move an entity. The same token moves it once, however often it is used."""
        checked_id(entity)
        if destination == self.parts.name:
            raise ValueError(f"{entity} is to migrate from {destination} to itself")
        key = (entity, destination)
        known = self._known(key, token)
        if known is not None:
            return known
        if not self.limiter.take():
            return Migrated(Result.PREPARE_FAILED, "rate limited")
        migration = self.running[token] = Migration(entity, destination, token)
        self._keys[key] = token
        ended: Migrated | None = None
        try:
            ended = await self._run(migration)
            return ended
        finally:
            self._end(migration, key, ended)

    def _known(self, key: Key, token: str) -> Migrated | None:
        """The answer to a call that has nothing to do."""
        ledger = self.parts.journal.ledger
        if token in ledger.applied:
            if planted("applied_forgets_token"):
                del ledger.applied[token]
            return Migrated(Result.ALREADY_APPLIED)
        if planted("key_without_time") and self._keys.get(key) in ledger.applied:
            return Migrated(Result.ALREADY_APPLIED)
        if token in self.running or any(token == it.token for it in ledger.leaving.values()):
            return Migrated(Result.ALREADY_MIGRATING, "this token")
        if self._keys.get(key) in self.running:
            return Migrated(Result.ALREADY_MIGRATING, "another token")
        return None

    def _end(self, migration: Migration, key: Key, ended: Migrated | None) -> None:
        if not planted("key_without_time"):
            self._keys.pop(key, None)
        if planted("migration_leak") and ended is not None and ended.is_rolled_back:
            return
        del self.running[migration.token]

    async def _run(self, migration: Migration) -> Migrated:
        failed = await self._lock(migration)
        if failed is not None:
            return failed
        try:
            self._remove(migration)
            failed = await self._prepare(migration)
            if failed is not None:
                return failed
            return await self._commit(migration)
        except OSError as error:
            # The journal cannot be written: the entity stays in it, and the sweep comes back to it.
            return Migrated(Result.ROLLBACK_FAILED, str(error))

    # --- the phases ------------------------------------------------------------------------------

    async def _lock(self, migration: Migration) -> Migrated | None:
        """OWNED -> MIGRATING_OUT, on a worker thread: the workers of a tick use the same states."""
        parts, profile = self.parts, self.parts.profile
        until_ns = parts.clock.nanos() + profile.lock_ms * NANOS_PER_MILLI
        failed = Migrated(Result.ALREADY_MIGRATING, "locked")
        for _ in range(profile.retries):
            view = parts.views.view
            if migration.destination not in view.members:
                return Migrated(Result.UNREACHABLE, "not in the view")
            if not parts.views.is_stable:
                failed = Migrated(Result.PREPARE_FAILED, "the view is not stable")
            elif parts.fsm.state(migration.entity) in (None, State.DEPARTED, State.GHOST):
                return Migrated(Result.PREPARE_FAILED, "not here")
            elif await asyncio.to_thread(
                parts.fsm.transition, migration.entity, State.MIGRATING_OUT, view.id
            ):
                migration.address = view.members[migration.destination]
                migration.view_id = view.id
                migration.began_ns = parts.fsm.contexts[migration.entity].began_ns
                return None
            if parts.clock.nanos() >= until_ns:
                break
            await asyncio.sleep(profile.retry_ms / 1_000)
        return failed

    def _remove(self, migration: Migration) -> None:
        """The entity leaves the store for the journal."""
        parts, ledger = self.parts, self.parts.journal.ledger
        entity = parts.store.get(migration.entity)
        attempt = ledger.attempts.get(migration.token, 0) + 1
        migration.ticket = f"{migration.token}.{attempt}"
        parts.journal.write(
            op="out",
            ticket=migration.ticket,
            token=migration.token,
            to=migration.destination,
            at=migration.address,
            entity=entity.to_list(),
        )
        parts.store.remove(entity.id)
        parts.changed(entity.id)

    async def _prepare(self, migration: Migration) -> Migrated | None:
        """Ask the destination for a reservation."""
        answer = await self._ask(
            migration.address,
            "prepare",
            migration.ticket,
            entity=migration.entity,
            view=migration.view_id,
        )
        if answer is None or self._left_ms(migration) <= 0:
            if planted("prepare_timeout_loses"):
                self._arrived(migration.ticket)
                return Migrated(Result.TIMEOUT, "prepare")
            self._restore(migration.ticket)
            return Migrated(Result.TIMEOUT, "prepare", is_rolled_back=True)
        if answer["state"] != READY:
            self._restore(migration.ticket)
            return Migrated(Result.PREPARE_FAILED, answer["state"], is_rolled_back=True)
        if not planted("view_checked_early") and not self._is_same_view(migration):
            foretold.reachable("a view changes while an entity is in flight")
            self._restore(migration.ticket, by_view=True)
            return Migrated(Result.PREPARE_FAILED, "the view has changed", is_rolled_back=True)
        return None

    async def _commit(self, migration: Migration) -> Migrated:
        """Hand the entity over; if there is no answer, ask what became of it."""
        foretold.always(
            self._is_same_view(migration),
            "an entity is committed in another view than it was prepared in",
            entity=migration.entity,
            prepared_in=migration.view_id,
        )
        decision = await self._add(migration)
        if decision is None:
            if planted("commit_timeout_doubles"):
                self._restore(migration.ticket)
                return Migrated(Result.COMMIT_TIMEOUT, is_rolled_back=True)
            decision = await self._abort(migration.address, migration.ticket)
            if decision == ABORTED:
                self._restore(migration.ticket)
                return Migrated(Result.COMMIT_TIMEOUT, is_rolled_back=True)
        if decision is None:
            return Migrated(Result.ABORT_TIMEOUT, "the sweep will ask again")
        if decision == ABORTED:
            self._restore(migration.ticket)
            return Migrated(Result.COMMIT_FAILED, is_rolled_back=True)
        self._arrived(migration.ticket)
        self.parts.endpoint.tell(migration.address, "done", ticket=migration.ticket)
        return Migrated(Result.SUCCESS)

    async def _add(self, migration: Migration) -> str | None:
        """The destination's decision, or None if it is not heard within the total time."""
        leaving = self.parts.journal.ledger.leaving[migration.ticket]
        entity = leaving.entity.to_list()
        if planted("sent_means_delivered"):
            address, ticket = migration.address, migration.ticket
            sent = self.parts.endpoint.tell(address, "add", ticket=ticket, entity=entity)
            return APPLIED if sent else None
        while self._left_ms(migration) > 0 and self._is_same_view(migration):
            if planted("total_timeout_never_fires"):
                migration.began_ns = self.parts.clock.nanos()
            answer = await self._ask(migration.address, "add", migration.ticket, entity=entity)
            if answer is not None:
                return str(answer["state"])
        return None

    async def _abort(self, address: Address, ticket: str) -> str | None:
        answer = await self._ask(address, "abort", ticket)
        return None if answer is None else str(answer["state"])

    async def _ask(
        self, address: Address, kind: str, ticket: str, **body: object
    ) -> Message | None:
        profile = self.parts.profile
        return await self.parts.endpoint.ask(
            address,
            kind,
            within_s=profile.phase_ms / 1_000,
            every_s=profile.retry_ms / 250,
            ticket=ticket,
            **body,
        )

    # --- how it ends -----------------------------------------------------------------------------

    def _arrived(self, ticket: str) -> None:
        leaving = self._leaving(ticket)
        if leaving is None:
            return
        self.parts.journal.write(op="gone", ticket=ticket)
        self.parts.fsm.transition(leaving.entity.id, State.DEPARTED)
        self.parts.changed(leaving.entity.id)

    def _restore(self, ticket: str, *, by_view: bool = False) -> None:
        leaving = self._leaving(ticket)
        if leaving is None:
            return
        parts, entity = self.parts, leaving.entity
        parts.journal.write(op="back", ticket=ticket)
        parts.store.add(entity)
        if by_view:
            parts.fsm.view_changed([entity.id])
        else:
            parts.fsm.transition(entity.id, State.ROLLBACK_OWNED)
        foretold.reachable("a migration is rolled back")
        parts.changed(entity.id)

    def _leaving(self, ticket: str) -> Leaving | None:
        return self.parts.journal.ledger.leaving.get(ticket)

    def _left_ms(self, migration: Migration) -> float:
        age_ns = self.parts.clock.nanos() - migration.began_ns
        return self.parts.profile.total_ms - age_ns / NANOS_PER_MILLI

    def _is_same_view(self, migration: Migration) -> bool:
        views = self.parts.views
        return views.view.id == migration.view_id and views.is_stable

    # --- orphans ---------------------------------------------------------------------------------

    @property
    def orphans(self) -> list[Leaving]:
        """Entities in flight that no call attends to any more."""
        attended = {migration.ticket for migration in self.running.values()}
        leaving = self.parts.journal.ledger.leaving.values()
        return [each for each in leaving if each.ticket not in attended]

    async def sweep(self) -> None:
        """Ask again about each orphan."""
        for orphan in self.orphans:
            members = self.parts.views.view.members
            # One that has left still answers where it was.
            address = members.get(orphan.destination, orphan.address)
            decision = await self._abort(address, orphan.ticket)
            if decision == ABORTED:
                self._restore(orphan.ticket)
            elif decision == APPLIED:
                self._arrived(orphan.ticket)
                self.parts.endpoint.tell(address, "done", ticket=orphan.ticket)
            if decision is not None:
                foretold.reachable("an orphan is recovered")
