"""What the trace and the story hold about the database: statements, waits, commits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from foretold.errors import PostgresError, ServiceError
from foretold.kernel.waiting import running_stack, users_callers, users_place
from foretold.services.postgres import catalogue
from foretold.services.postgres.given import cells_of
from foretold.services.postgres.kept import DATABASE
from foretold.services.postgres.protocol import (
    COMMAND_COMPLETE,
    ERROR,
    IDLE,
    IN_TRANSACTION,
    READY,
    fields_of,
    tag_of,
)
from foretold.services.postgres.statements import chains_rollback, shown, whole
from foretold.trace.events import Event, Executed, LockWait, Looked, Schema, Visited, Who
from foretold.world import errands
from foretold.world.omens import BOUND

if TYPE_CHECKING:
    from foretold.services.postgres.gateway import Gateway
    from foretold.services.postgres.session import Session

_READS = ("SELECT", "BEGIN", "SET", "SHOW", "FETCH", "DECLARE", "CLOSE", "SAVEPOINT", "RELEASE")
_KEEPS_NOTHING = (*_READS, "ROLLBACK", "PREPARE TRANSACTION")
_ROWS_ONLY = (
    "SELECT INSERT UPDATE DELETE MERGE BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE SET RESET SHOW FETCH"
    " MOVE DECLARE CLOSE LOCK LISTEN NOTIFY UNLISTEN COPY PREPARE EXECUTE DEALLOCATE DISCARD"
    " EXPLAIN VACUUM ANALYZE TRUNCATE START CHECKPOINT"
)
_KEEPS_SCHEMA = frozenset(_ROWS_ONLY.split())
"""How the tags of commands begin that make, change or drop nothing but rows."""


_OF_THE_SERVER = (
    "ALTER SYSTEM", "CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE", "ALTER ROLE",
    "CREATE ROLE", "DROP ROLE", "GRANT ROLE", "REVOKE ROLE", "CREATE TABLESPACE", "DROP TABLESPACE",
)  # fmt: skip
_SNAPSHOT = "select pg_current_snapshot()"
_COMMITTED = (
    "select 1 from unnest(array{}) number"
    " where pg_xact_status(number::text::xid8) = 'committed' limit 1"
)
_BEGIN, _COMMIT, _ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
_ENDS = frozenset((_COMMIT, _ROLLBACK))


@dataclass(frozen=True)
class Commit:
    session: str
    host: str
    statements: tuple[str, ...]
    number: int
    """Of this session, from 1."""
    party: str = ""
    """Which of several calls it was made for, if these are told apart."""


class Telling:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.on_commit: list[Callable[[Commit], object]] = []
        self.schema_changed = False
        self.server_changed = False
        """Something that belongs to the whole server, not to its database alone."""
        self._snapshot = ""
        """Which transactions had ended at the last look."""
        self.statements = 0
        self.waited = 0
        self._followers: set[Who] = set()
        """Tasks that still work after the request is over that has begun them."""

    def note(self, session: Session, what: str, about: str) -> None:
        self.gateway.world.trace.note(f"{self.gateway.host.name} {session.name}", what, about)

    def _keep(self, kind: Callable[..., Event], session: Session, **facts: Any) -> None:
        """For the story: what a session does for whom, and the line that has asked for it."""
        trace, host = self.gateway.world.trace, self.gateway.host
        if trace.detail:
            told = partial(kind, asked_by=session.asked_by, sent_by=session.sent_by, **facts)
            where = (self.statements, session.sent_at, session.sent_from)
            trace.keep(told(host.kernel.clock.ns, host.name, session.name, *where))

    def follow(self, session: Session) -> None:
        """Know which call it is that sends statements over this connection; for the story, which
        task it is as well."""
        world, peer = self.gateway.world, session.client.end.peer
        if peer is None:
            return

        def binds() -> None:
            session.bound = BOUND.get()

        def is_known() -> bool:
            binds()
            kernel = world.acting_host.kernel
            if kernel.current is kernel.callbacks:
                return False
            session.sent_by = (kernel.host, kernel.current.name)
            return True

        trace = world.trace
        peer.on_send = binds if trace.accesses is None else is_known
        session.statements.keeps_given = trace.detail or trace.accesses is not None
        if not trace.detail:
            return

        def sends() -> None:
            if is_known() and session.sent_by is not None:
                session.asked_by = self._on_whose_errand(session.sent_by)
                stack = running_stack(sys._getframe(1))
                session.sent_at, session.sent_from = users_place(stack), users_callers(stack)

        peer.on_send = sends

    def _on_whose_errand(self, sender: Who) -> Who:
        """The task of the request that it works for. What goes on after that is over is known by
        its own name, and by the request that has begun it."""
        errand = errands.current.get()
        if errand is None or errand.who[0] != sender[0]:
            return sender
        if errand.is_open:
            return errand.who
        if sender not in self._followers:
            self._followers.add(sender)
            kernel = self.gateway.world.acting_host.kernel
            told = partial(Visited, client=errand.client, asks=errand.asks, is_after=True)
            self.gateway.world.trace.keep(told(kernel.clock.ns, *sender))
        return sender

    def waits(self, session: Session, blockers: list[Session]) -> None:
        """A session waits for a lock that others hold."""
        self.waited += 1
        sql = "; ".join(map(shown, session.executes))
        others = ", ".join(f"{s.name} ({s.host})" for s in blockers) or "another one"
        self.note(session, "waits for a lock", f"of {others}: {sql}")
        in_full = "; ".join(map(whole, session.executes))
        given = session.statements.given[0] if len(session.executes) == 1 else ()
        names = tuple(each.name for each in blockers)
        self._keep(LockWait, session, sql=in_full, blockers=names, values=given)

    def answered(self, session: Session, answer: list[bytes]) -> bool:
        """A group was executed. Returns whether something was committed by it."""
        tags = [tag_of(m) for m in answer if m[:1] == COMMAND_COMPLETE]
        error = next((m for m in answer if m[:1] == ERROR), None)
        for tag in tags:
            word = tag.split(" ", 1)[0]
            if word not in _KEEPS_SCHEMA:
                self.schema_changed = True
                self.server_changed |= tag.startswith(_OF_THE_SERVER)
            elif word == "LISTEN":
                session.listens = True
        if session.statements.keeps_given and session.group is not None:
            session.statements.learn(session.group, answer)
        if error is not None and session.bound is not None:
            fields = fields_of(error)
            session.bound.database_said(fields.get("C", ""), fields.get("M", ""))
        if session.executes:
            self._statements(session, tags, error, answer)
        session.since_ready += tags
        session.failed_since_ready |= error is not None
        if not answer or answer[-1][:1] != READY:
            return False  # what it has done is not committed before Sync, or before a COPY ends
        tags, session.since_ready = session.since_ready, []
        failed, session.failed_since_ready = session.failed_since_ready, False
        committed = self._end_of_transaction(session, tags, failed)
        if committed and session.bound is not None:
            session.bound.has_ended(is_aborted=False)
        return committed

    def _statements(
        self, session: Session, tags: list[str], error: bytes | None, answer: list[bytes]
    ) -> None:
        self.statements += len(session.executes)
        session.transaction += session.executes
        outcome, failed = ", ".join(tags), ""
        if error is not None:
            fields = fields_of(error)
            failed = f"{fields.get('C')} {fields.get('M')}"
            outcome = f"{outcome}, " * bool(tags) + f"error {failed}"
        for sql in session.executes:
            self.note(session, "executes", f"{shown(sql)} → {outcome}")
        if self.gateway.world.trace.detail:
            self._keep_statements(session, tags, failed, answer)

    def _keep_statements(
        self, session: Session, tags: list[str], failed: str, answer: list[bytes]
    ) -> None:
        """Each with its own part of the answer. Of a text of several statements it is one."""
        given = session.statements.given
        alone = len(session.executes) == 1
        found = cells_of(answer, session.statements.expected)
        for number, sql in enumerate(session.executes):
            its = given[number] if number < len(given) else ()
            its_tags = tuple(tags) if alone else tuple(tags[number : number + 1])
            error = failed if alone or number == len(tags) else ""
            cells = found[number] if number < len(found) else None
            told = {"values": its, "tags": its_tags, "error": error, "cells": cells}
            self._keep(Executed, session, sql=whole(sql), **told)

    def _end_of_transaction(self, session: Session, tags: list[str], failed: bool) -> bool:
        """Whether something was committed since the server was last ready for a query."""
        was_open, session.was_open = session.was_open, session.state == IN_TRANSACTION
        if session.was_open and (was_open or tags == [_BEGIN]) and not _ENDS.intersection(tags):
            return False  # it goes on: most statements of a program need no look at transactions
        ended = self._look_at_transactions()
        if not session.transaction:
            return False
        if _COMMIT in tags:  # also if the next transaction has begun: COMMIT AND CHAIN
            committed = True
        elif session.state != IDLE:
            if any(map(chains_rollback, session.executes)):
                session.transaction = []
            return False
        else:
            since_rollback = tags[_last(_ROLLBACK, tags) + 1 :]
            says_so = any(not tag.startswith(_KEEPS_NOTHING) for tag in since_rollback)
            committed = (says_so and not failed) or self._is_one_committed(ended)
        self.server_changed |= committed and session.database != DATABASE
        if not committed:
            session.transaction = []
        return committed

    def has_to_wait(self, session: Session) -> None:
        """A statement that may run a procedure stands still: others see by now what that has
        committed."""
        if self._is_one_committed(self._look_at_transactions()):
            session.transaction += session.executes
            self.committed(session)

    def _look_at_transactions(self) -> list[int]:
        """The numbers of transactions that have ended since the last look. Whatever changes
        something has a number, also a SELECT that calls a function, and what a procedure commits
        on its way."""
        if not self.on_commit:
            return []
        before, self._snapshot = self._snapshot, self.gateway.look_again(_SNAPSHOT)[0][0]
        if before in ("", self._snapshot):
            return []
        _, begun, open_before = _numbers(before)
        _, begun_now, open_now = _numbers(self._snapshot)
        return sorted((open_before | set(range(begun, begun_now))) - open_now)

    def _is_one_committed(self, numbers: list[int]) -> bool:
        return bool(numbers and self.gateway.look(_COMMITTED.format(numbers)))

    def looked(self) -> None:
        """The test itself has changed something: what it has committed is no program's."""
        self._look_at_transactions()

    def keep_look(self, sql: str) -> None:
        """For the story: what the test asks for may be what its assertion is about."""
        trace, host = self.gateway.world.trace, self.gateway.world.acting_host
        if trace.detail:
            host.kernel.keep(Looked, sql=whole(sql))

    def keep_schema(self) -> None:
        """For the story, when the run is over: which tables there are, and their keys."""
        trace, host = self.gateway.world.trace, self.gateway.host
        if any(isinstance(event, Executed) for event in trace.events):
            with contextlib.suppress(PostgresError, ServiceError):
                tables = catalogue.tables(self.gateway.kept.side)
                trace.events.append(Schema(0, host.name, "", tables=tables))

    def at_each_commit(self, callback: Callable[[Commit], object]) -> None:
        """Call `callback` after every commit from now on."""
        self.on_commit.append(callback)
        self._look_at_transactions()

    def committed(self, session: Session) -> None:
        """A transaction was committed: tell those who want to look at the state."""
        statements, session.transaction = tuple(session.transaction), []
        session.transactions += 1
        party = "" if session.bound is None else session.bound.party
        commit = Commit(session.name, session.host, statements, session.transactions, party)
        for told in list(self.on_commit):
            told(commit)
        for strikes in list(self.gateway.world.at_commit):
            strikes(session.host)


def _numbers(snapshot: str) -> tuple[int, int, set[int]]:
    """What PostgreSQL writes as `10:20:10,14`: the first number that is open, the first that is not
    in use yet, and all between them that are open."""
    first, begun, still_open = snapshot.split(":")
    return int(first), int(begun), set(map(int, filter(None, still_open.split(","))))


def _last(word: str, words: list[str]) -> int:
    """Where a word stands last; -1 if nowhere."""
    return max((place for place, each in enumerate(words) if each == word), default=-1)
