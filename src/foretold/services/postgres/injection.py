"""Failures that are chosen: the server, or the way to it, fails as it does in production.

A failure that the server itself would report (a cancelled statement, a serialization failure) is
given to the client in the server's words, and the transaction is really aborted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from string import ascii_letters
from typing import TYPE_CHECKING, Final

from foretold.services.postgres.backend import BLOCKED, DONE, SLEEPING, ExpectedAnswer
from foretold.services.postgres.protocol import (
    ERROR,
    EXECUTE,
    FAILED,
    FLUSH,
    FUNCTION_CALL,
    FUNCTION_RESULT,
    IDLE,
    QUERY,
    READY,
    SYNC,
    UNASKED,
    Group,
    error_response,
    message,
    query,
    ready,
)
from foretold.services.postgres.session import DUE
from foretold.services.postgres.sqltext import every_word, first_word, read
from foretold.services.postgres.statements import is_commit
from foretold.world.omens import POSTGRES, Omen

if TYPE_CHECKING:
    from foretold.services.postgres.gateway import Gateway
    from foretold.services.postgres.session import Session

INT4DIV: Final = 154
_ONE, _NULL_DIVISOR = struct.pack("!ii", 4, 1), struct.pack("!ii", 4, 0)
FAIL: Final = message(
    FUNCTION_CALL,
    struct.pack("!ihhh", INT4DIV, 1, 1, 2),
    _ONE,
    _NULL_DIVISOR,
    struct.pack("!h", 1),
)
"""Divides by zero, without touching what the session has prepared: its transaction has failed."""

CURRENT_SETTING: Final = 2077
_UNITS_NS: Final = {
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}

STATEMENT, COMMIT, CONNECT, NOTIFY, SERVER = "statement", "commit", "connect", "notify", "server"
S: Final = 1_000_000_000
SLOW_S: Final = 5.0
DOWN_S: Final = 2.0
TOLD_CHARS_MAX: Final = 100

ERRORS: Final = {
    "cancelled": ("57014", "canceling statement due to statement timeout"),
    "serialization": ("40001", "could not serialize access due to concurrent update"),
    "deadlock": ("40P01", "deadlock detected"),
}
MOMENTS: Final = {
    "cancelled": STATEMENT,
    "serialization": STATEMENT,
    "deadlock": STATEMENT,
    "lost_before": STATEMENT,
    "lost_after": STATEMENT,
    "lost_before_commit": COMMIT,
    "lost_after_commit": COMMIT,
    "slow_query": STATEMENT,
    "slow_connect": CONNECT,
    "too_many_connections": CONNECT,
    "lost_notification": NOTIFY,
    "restart": SERVER,
    "read_only": SERVER,
}
"""Every kind of failure, and when it strikes."""
CODES: Final = {
    "57014": "cancelled",
    "40001": "serialization",
    "40P01": "deadlock",
    "53300": "too_many_connections",
    "57P01": "restart",
    "25006": "read_only",
}
"""Failures by the SQLSTATE that programs see."""
_TRANSACTION_WORDS: Final = (
    "BEGIN", "START", "SET", "SHOW", "ROLLBACK", "SAVEPOINT", "RELEASE", "COMMIT", "END", "DISCARD",
    "DEALLOCATE",
)  # fmt: skip
_LOCK_WORDS: Final = ("insert", "update", "delete", "merge", "lock", "truncate", "alter")


@dataclass(slots=True)
class DatabaseFailure:
    """A failure that waits for its occasion."""

    kind: str
    sql: str | None
    """Only statements in which this stands, in small letters or capitals."""
    lasts_ns: int
    by_hand: bool = False
    """The test has asked for this one, wherever it strikes."""
    told: Callable[[], object] | None = None
    """Called when it has struck."""
    omen: Omen | None = None
    """It was foretold for the call that the statement belongs to."""


def _may_lock(sql: str) -> bool:
    """Whether a statement takes locks that another one may wait for."""
    words = every_word(sql)
    if not words.isdisjoint(_LOCK_WORDS):
        return True
    return "share" in words and any(each.follows("for", "share") for each in read(sql))


def _current_setting(name: bytes) -> bytes:
    return message(
        FUNCTION_CALL,
        struct.pack("!ihhi", CURRENT_SETTING, 0, 1, len(name)),
        name,
        struct.pack("!h", 0),
    )


class DatabaseInjection:
    """The failures of one run that are still to strike."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.armed: list[DatabaseFailure] = []
        self.struck: list[str] = []
        self._down_until_ns = 0
        self._read_only_until_ns = 0

    # --- arming ----------------------------------------------------------------------------------

    def arm(self, failure: DatabaseFailure) -> None:
        """From now on it strikes at the first occasion."""
        if MOMENTS[failure.kind] == SERVER:
            self._strike_server(failure)
        else:
            self.armed.append(failure)

    def disarm(self, failure: DatabaseFailure) -> None:
        if failure in self.armed:
            self.armed.remove(failure)

    def _take(self, moment: str, sql: list[str] | None = None) -> DatabaseFailure | None:
        for failure in self.armed:
            if MOMENTS[failure.kind] != moment:
                continue
            if failure.sql is not None and not any(
                failure.sql in each.lower() for each in sql or ()
            ):
                continue
            self.armed.remove(failure)
            return failure
        return None

    def _note(self, failure: DatabaseFailure, session: Session | None, sql: str = "") -> None:
        self.struck.append(failure.kind)
        whom = f" {session.name} of {session.host}" if session is not None else ""
        what = f": {_on_a_line(sql)}" if sql else ""
        if failure.omen is not None:
            what = f", as foretold by {failure.omen.prophecy} = {failure.omen.outcome}{what}"
        host, named = self.gateway.host.name, "" if session is None else session.name
        self.gateway.world.note_fault(
            f"{host} {failure.kind}{whom}{what}", what=failure.kind, whom=f"{host} {named}"
        )
        if failure.told is not None:
            failure.told()

    # --- connections -----------------------------------------------------------------------------

    def slow_connect_ns(self, session: Session) -> int:
        """How much longer than usual it takes to connect."""
        slow = next((f for f in self.armed if f.kind == "slow_connect"), None)
        if slow is None:
            return 0
        self.armed.remove(slow)
        self._note(slow, session)
        return slow.lasts_ns

    def refusal(self) -> bytes | None:
        """What the server says instead of beginning a session, if it does not want to."""
        if self.gateway.now_ns() < self._down_until_ns:
            return error_response("57P03", "the database system is starting up", severity="FATAL")
        full = next((f for f in self.armed if f.kind == "too_many_connections"), None)
        if full is None:
            return None
        self.armed.remove(full)
        self._note(full, None)
        return error_response("53300", "sorry, too many clients already", severity="FATAL")

    def parameters(self, session: Session, asked: dict[str, str]) -> dict[str, str]:
        """What a session begins with: on a server that is read-only for now, that too. (As an
        option, so that RESET ALL does not change it.)"""
        if self.gateway.now_ns() >= self._read_only_until_ns:
            return asked
        session.read_only = True
        options = f"{asked.get('options', '')} -c default_transaction_read_only=on"
        return {**asked, "options": options.strip()}

    def _strike_server(self, failure: DatabaseFailure) -> None:
        """All sessions end; for a while no new one can begin, or none that writes."""
        gateway = self.gateway
        self._note(failure, None)
        self._down_until_ns = gateway.now_ns() + failure.lasts_ns
        if failure.kind == "read_only":
            self._read_only_until_ns = self._down_until_ns
            self._down_until_ns = 0
            gateway.later(failure.lasts_ns, self._end_read_only)
        for session in list(gateway.sessions):
            gateway.dismiss(session, "57P01", "terminating connection due to administrator command")

    def _end_read_only(self) -> None:
        """The failover is over: sessions of the former standby end, new ones may write."""
        for session in [s for s in self.gateway.sessions if s.read_only]:
            self.gateway.dismiss(
                session, "57P01", "terminating connection due to administrator command"
            )

    # --- statements ------------------------------------------------------------------------------

    def strike(self, session: Session, group: Group) -> bool:
        """A group is about to be executed. Returns whether that is taken care of."""
        if session.skipping:
            self._skip(session, group)
            return True
        is_foretold = session.bound is not None and bool(session.bound.due(POSTGRES))
        nothing_waits = not self.armed and not is_foretold
        if nothing_waits or not session.executes or session.is_skipping:
            return False
        executes = session.executes
        commits = any(map(is_commit, executes))
        moment = COMMIT if commits else STATEMENT
        failure = self._foretold(session, moment) or self._take(moment, executes)
        if failure is None:
            return False
        if not self._fits(session, failure, commits):
            self._put_back(failure)  # it waits for a better occasion
            return False
        return self._fail(session, group, failure)

    def _foretold(self, session: Session, moment: str) -> DatabaseFailure | None:
        """What was foretold for the call that this statement belongs to."""
        for omen in session.bound.due(POSTGRES) if session.bound is not None else ():
            kind = omen.kind.removeprefix("db_")
            aim = omen.aim.lower()
            if MOMENTS[kind] == moment and any(aim in sql.lower() for sql in session.executes):
                omen.is_taken = True
                lasts_ns = round(SLOW_S * S)
                return DatabaseFailure(
                    kind, aim or None, lasts_ns, by_hand=True, told=omen.fulfil, omen=omen
                )
        return None

    def _put_back(self, failure: DatabaseFailure) -> None:
        if failure.omen is not None:
            failure.omen.is_taken = False
        else:
            self.armed.insert(0, failure)

    def _fits(self, session: Session, failure: DatabaseFailure, commits: bool) -> bool:
        """Whether PostgreSQL could fail in this way here."""
        if session.state == FAILED and (failure.sql is None or failure.kind in ERRORS):
            return False
        if failure.sql is not None:
            return True  # the test has chosen the statement
        executes = session.executes
        if not commits and all(first_word(each) in _TRANSACTION_WORDS for each in executes):
            return False
        if failure.kind == "deadlock":
            return any(map(_may_lock, (*executes, *session.transaction)))
        if failure.kind == "serialization" and not failure.by_hand:
            return self._setting(session, b"transaction_isolation") != "read committed"
        return True

    def _fail(self, session: Session, group: Group, failure: DatabaseFailure) -> bool:
        kind, sql = failure.kind, "; ".join(session.executes)
        if kind in ERRORS:
            struck = partial(self._note, failure, session, sql)
            if not self.abort(session, group, *ERRORS[kind], struck):
                self._put_back(failure)  # the statement has failed by itself
            return True
        self._note(failure, session, sql)
        if kind == "slow_query":
            self._slow(session, group, failure.lasts_ns)
        elif kind in ("lost_before", "lost_before_commit"):
            session.client.abort()
            self.gateway.end(session)
        else:
            session.drop_after = True
            return False
        return True

    def _slow(self, session: Session, group: Group, lasts_ns: int) -> None:
        """The statement takes long: so long that the server gives up, if it was told to."""
        session.queue.appendleft(group)
        session.doing = DUE
        limit_ns = self._statement_timeout_ns(session)
        if 0 < limit_ns < lasts_ns:
            timeout = ERRORS["cancelled"]
            session.due = self.gateway.later(limit_ns, self.fail_now, session, *timeout)
        else:
            session.due = self.gateway.later(lasts_ns, self._after_all, session)

    def _statement_timeout_ns(self, session: Session) -> int:
        backend = session.backend
        if backend is None or not backend.is_clean or backend.state == FAILED:
            return 0
        found = self._setting(session, b"statement_timeout")
        size = found.rstrip(ascii_letters)  # as PostgreSQL writes it: `250ms`
        return int(size) * _UNITS_NS.get(found.removeprefix(size), 0)

    def _setting(self, session: Session, name: bytes) -> str:
        backend = session.backend
        if backend is None or not backend.is_clean or backend.state == FAILED:
            return "0"
        answer = backend.ask(_current_setting(name))
        return next((m[9:].decode() for m in answer if m[:1] == FUNCTION_RESULT), "0")

    def _after_all(self, session: Session) -> None:
        session.due = None
        group = session.group = session.queue.popleft()
        self.gateway.tick()
        self.gateway.send(session, group)

    def loses(self, session: Session) -> bool:
        """Whether a notification does not reach its listener."""
        failure = self._take(NOTIFY)
        if failure is not None:
            self._note(failure, session)
        return failure is not None

    # --- failing a statement in the server's words -----------------------------------------------

    def fail_now(self, session: Session, code: str, words: str) -> None:
        """The statement that a session is about to execute fails at this instant."""
        if session.due is not None:
            session.due.called_off = True
            session.due = None
        group = session.group = session.queue.popleft()
        session.executes = session.statements.executed_by(group)
        self.gateway.tick()
        self.abort(session, group, code, words)

    def abort(
        self,
        session: Session,
        group: Group,
        code: str,
        words: str,
        struck: Callable[[], object] = lambda: None,
    ) -> bool:
        """Fail a group at the first message that executes something; abort the transaction. False
        if the server has something else to say before that: an error of its own, say."""
        backend = session.backend
        assert backend is not None, "it executes something"
        answer: list[bytes] = []
        if group.last != QUERY:
            head, rest = _before_execution(group)
            outcome, answer = self._begin(session, head)
            if outcome != DONE or backend.skipping:
                self._go_on(session, group, rest, answer, outcome)
                return False
        struck()
        commits = is_commit(next(iter(session.executes), ""))
        if commits and backend.state != IDLE:
            said = backend.ask(query("ROLLBACK"))  # a COMMIT that fails ends its transaction
        else:
            said = backend.ask(FAIL)
        answer.append(error_response(code, words))
        answer += (m for m in said if m[:1] in UNASKED)
        if group.last in (SYNC, QUERY, FUNCTION_CALL):
            answer.append(ready(backend.state))
        else:
            session.skipping = True
        backend.is_clean = True
        session.copying = None
        self.gateway.telling.answered(session, answer)
        self.gateway.reply(session, answer)
        self.gateway.waits.settle()
        return True

    def _begin(self, session: Session, head: list[bytes]) -> tuple[str, list[bytes]]:
        """Have the messages done that come before anything is executed."""
        backend = session.backend
        assert backend is not None, "as above"
        if not head:
            return DONE, []
        asked = Group([*head, message(FLUSH)])
        expected = ExpectedAnswer(backend, asked, session)
        backend.is_clean = False
        backend.send(asked.data)
        outcome, messages = backend.read(expected, lambda: self.gateway.waits.is_blocked(session))
        if outcome == BLOCKED:  # it would wait for a lock before it could fail: now it need not
            backend.cancel()
            backend.read(lambda m: m[:1] == ERROR)
            backend.send(message(SYNC))
            backend.read(lambda m: m[:1] == READY)
            return DONE, messages
        return outcome, messages

    def _go_on(
        self, session: Session, group: Group, rest: list[bytes], answer: list[bytes], outcome: str
    ) -> None:
        """The server takes its own way with this group: no failure of ours changes that."""
        backend = session.backend
        assert backend is not None, "as above"
        session.expected = ExpectedAnswer(backend, group, session)
        for said in answer:
            session.expected(said)
        session.answer = answer
        backend.send(b"".join(rest))
        if outcome == SLEEPING:
            self.gateway.waits.sleep(session)
        else:
            self.gateway.go_on(session)

    def _skip(self, session: Session, group: Group) -> None:
        """Messages after one that has failed, up to Sync, are not even looked at."""
        if group.last != SYNC:
            self.gateway.reply(session, [])
            return
        session.skipping = False
        session.executes = []
        answer = [ready(session.state)]
        self.gateway.telling.answered(session, answer)
        self.gateway.reply(session, answer)


def _before_execution(group: Group) -> tuple[list[bytes], list[bytes]]:
    """The messages up to the first that executes something, and the others."""
    kinds = [m[:1] for m in group.messages]
    first = kinds.index(EXECUTE) if EXECUTE in kinds else len(kinds) - 1
    return group.messages[:first], group.messages[first:]


def _on_a_line(sql: str) -> str:
    """What an ORM sends has many lines, and most of it says nothing about a fault."""
    text = " ".join(sql.split())
    return text if len(text) <= TOLD_CHARS_MAX else f"{text[: TOLD_CHARS_MAX - 1].rstrip()}…"
