"""What the trace and the story hold about the database: statements, waits, commits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretold.kernel.waiting import running_stack, users_callers, users_place
from foretold.services.postgres.kept import DATABASE
from foretold.services.postgres.protocol import COMMAND_COMPLETE, ERROR, IDLE, fields_of, tag_of
from foretold.services.postgres.statements import shown, whole
from foretold.trace import ASKED_BY, Event

if TYPE_CHECKING:
    from foretold.services.postgres.gateway import Gateway
    from foretold.services.postgres.session import Session

_READS = ("SELECT", "BEGIN", "SET", "SHOW", "FETCH", "DECLARE", "CLOSE", "SAVEPOINT", "RELEASE")
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
_FROM_A_LINE = ("executes", "waits for a lock")
"""What is told together with the line of code that has sent it."""
_NEXT_TRANSACTION = "select pg_snapshot_xmax(pg_current_snapshot())"


@dataclass(frozen=True)
class Commit:
    """One transaction that was committed."""

    session: str
    host: str
    statements: tuple[str, ...]
    number: int
    """Of this session, from 1."""


class Telling:
    """Tells what the sessions of a database do."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.on_commit: list[Callable[[Commit], object]] = []
        self.schema_changed = False
        self.server_changed = False
        """Something that belongs to the whole server, not to its database alone."""
        self._last_transaction = ""
        self.statements = 0
        self.waited = 0

    def note(
        self,
        session: Session,
        what: str,
        about: str,
        in_full: str = "",
        given: tuple[str, ...] = (),
    ) -> None:
        """Something happened to a session. `in_full`: for the story, which has more room; so are
        the values that were `given`."""
        trace, host = self.gateway.world.trace, self.gateway.host
        trace.note(f"{host.name} {session.name}", what, about)
        if trace.detail:
            if session.asked_by != session.told_asked_by:
                session.told_asked_by = session.asked_by
                self._keep(session, ASKED_BY, session.asked_by)
            self._keep(session, what, in_full or about, given)

    def _keep(self, session: Session, what: str, about: str, given: tuple[str, ...] = ()) -> None:
        host = self.gateway.host
        now_ns, place = host.kernel.clock.ns, session.sent_at if what in _FROM_A_LINE else None
        callers = session.sent_from if place is not None else ()
        self.gateway.world.trace.keep(
            Event(
                now_ns, host.name, session.name, self.statements, what, about, place, callers, given
            )
        )

    def follow(self, session: Session) -> None:
        """For the story: know which task it is that sends statements over this connection."""
        world, peer = self.gateway.world, session.client.end.peer
        if peer is None or not world.trace.detail:
            return

        def sends() -> None:
            kernel = world.acting_host.kernel
            if kernel.current is not kernel.callbacks:
                session.asked_by = f"{kernel.host}/{kernel.current.name}"
                stack = running_stack(sys._getframe(1))
                session.sent_at, session.sent_from = users_place(stack), users_callers(stack)

        peer.on_send = sends
        session.statements.keeps_given = True

    def waits(self, session: Session, blockers: list[Session]) -> None:
        """A session waits for a lock that others hold."""
        self.waited += 1
        sql = "; ".join(map(shown, session.executes))
        others = ", ".join(f"{s.name} ({s.host})" for s in blockers) or "another one"
        in_full = "; ".join(map(whole, session.executes))
        given = session.statements.given[0] if len(session.executes) == 1 else ()
        about = f"of {others}: {in_full}"
        self.note(session, "waits for a lock", f"of {others}: {sql}", about, given)

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
        if session.executes:
            self._statements(session, tags, error)
        return self._end_of_transaction(session, tags, error)

    def _statements(self, session: Session, tags: list[str], error: bytes | None) -> None:
        self.statements += len(session.executes)
        session.transaction += session.executes
        outcome = ", ".join(tags)
        if error is not None:
            fields = fields_of(error)
            outcome = f"{outcome}, " * bool(tags) + f"error {fields.get('C')} {fields.get('M')}"
        given = session.statements.given
        for number, sql in enumerate(session.executes):
            said = f" → {outcome}"
            its = given[number] if number < len(given) else ()
            self.note(session, "executes", shown(sql) + said, whole(sql) + said, its)

    def _end_of_transaction(self, session: Session, tags: list[str], error: bytes | None) -> bool:
        if session.state != IDLE or not session.transaction:
            return False
        wrote = any(not tag.startswith(_READS) and tag != "ROLLBACK" for tag in tags)
        self.server_changed |= wrote and session.database != DATABASE
        if self.on_commit and self._has_written() and error is None and "ROLLBACK" not in tags:
            wrote = True
        if not wrote or (error is not None and "COMMIT" not in tags):
            session.transaction = []
            return False
        return True

    def _has_written(self) -> bool:
        """Whether a transaction has changed something although it says SELECT: by a function, or
        by WITH. Whatever changes something has a number."""
        before = self._last_transaction
        self._last_transaction = str(self.gateway.look_again(_NEXT_TRANSACTION)[0][0])
        return self._last_transaction != before

    def tell(self, callback: Callable[[Commit], object]) -> None:
        """Call `callback` after every commit from now on."""
        self._has_written()
        self.on_commit.append(callback)

    def committed(self, session: Session) -> None:
        """A transaction was committed: tell those who want to look at the state."""
        statements, session.transaction = tuple(session.transaction), []
        session.transactions += 1
        commit = Commit(session.name, session.host, statements, session.transactions)
        for told in list(self.on_commit):
            told(commit)
        for strikes in list(self.gateway.world.at_commit):
            strikes(session.host)
