"""Sessions that can't go on, and what lets them: a lock, a timer, a cancellation, a notification.

A process of the server that waits for a lock is stopped (SIGSTOP): one commit may free several of
them at once, and in which order they go on is the tape's choice, not that of the machine. Timers of
the server (`lock_timeout`, `statement_timeout`, ...) and `pg_sleep` are due in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import real
from foretold.services.postgres import session as doing
from foretold.services.postgres.backend import DONE
from foretold.services.postgres.protocol import (
    IDLE,
    NOTIFICATION,
    READY,
    SYNC,
    UNASKED,
    WORK,
    message,
)
from foretold.services.postgres.session import Untold
from foretold.services.postgres.statements import may_commit_inside, shown

if TYPE_CHECKING:
    from foretold.services.postgres.backend import Backend
    from foretold.services.postgres.gateway import Gateway
    from foretold.services.postgres.session import Session
    from foretold.world.net.wire import Timer

MS: Final = 1_000_000
RESUME_NS: Final = (MS // 20, MS // 5, MS, 3 * MS)
"""How long a session takes to go on when its lock is free."""
NOTIFY_NS: Final = (MS // 10, MS, 5 * MS)
US: Final = 1_000
_BLOCKED: Final = (
    "cardinality(pg_blocking_pids(pid)) > 0 or cardinality(pg_safe_snapshot_blocking_pids(pid)) > 0"
)
SETTLE_NS: Final = 2 * MS
"""How long locks may go unnoticed that a statement within a transaction has given back."""
CANCELLED: Final = ("57014", "canceling statement due to user request")


class Waits:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.blocked: dict[Session, None] = {}
        self._settles: Timer | None = None

    # --- locks -----------------------------------------------------------------------------------

    def is_blocked(self, session: Session) -> bool:
        """Whether the server says that a session waits for a lock; asked if it says nothing."""
        return self.is_stuck(_pid(session))

    def is_stuck(self, pid: int) -> bool:
        """The same of any process of the server. That it has been silent for some real time says
        nothing: the machine may have been busy with others."""
        rows = self.gateway.look(
            "select 1 from pg_stat_activity where "
            f"pid = {pid} and (wait_event_type = 'BufferPin' or {_BLOCKED})"
        )
        return bool(rows)

    def block(self, session: Session) -> None:
        session.doing = doing.BLOCKED
        backend, page = _backend(session), self.gateway.page
        while page is not None and not page.is_waiting(backend.pid):
            real.sleep(0)  # it has said so, and needs some microseconds to get there
        backend.stop()
        self.gateway.telling.waits(session, self._blockers(session))
        self.blocked[session] = None
        self.arm(session)
        if session.on_wait is not None:
            session.on_wait()
        self.settle_soon()
        self._look_at_procedure(session)

    def _look_at_procedure(self, session: Session) -> None:
        """A session stands still in a statement: what a procedure has committed by then is there
        for others, and its notifications are on their way."""
        if any(map(may_commit_inside, session.executes)):
            self.notify()
            self.gateway.telling.has_to_wait(session)

    def _blockers(self, session: Session) -> list[Session]:
        rows = self.gateway.look(f"select unnest(pg_blocking_pids({_pid(session)}))")
        pids = {int(row[0] or 0) for row in rows}
        return [s for s in self.gateway.sessions if s.backend is not None and s.backend.pid in pids]

    def lines_about(self, session: Session) -> list[str]:
        """What a session waits for, in words."""
        sql = "; ".join(map(shown, session.executes))
        lines = [f"{self.gateway.host.name} {session.name} ({session.host}) waits in: {sql}"]
        for other in self._blockers(session):
            did = "; ".join(map(shown, other.transaction[-3:]))
            lines.append(f"  for a lock of {other.name} ({other.host}), which did: {did}")
        return lines

    def settle(self) -> None:
        """Some locks may be free now: those who waited for them go on, each in its own time."""
        waiting = {_pid(s): s for s in self.blocked if not s.resuming}
        if not waiting:
            return
        pids = ",".join(map(str, waiting))
        rows = self.gateway.look(
            f"select pid from unnest('{{{pids}}}'::int[]) pid where not ({_BLOCKED})"
        )
        free = sorted((waiting[int(row[0] or 0)] for row in rows), key=lambda s: s.number)
        for session in free:
            session.resuming = True
            wait_ns = session.choices.pick(RESUME_NS, "time to go on with a lock")
            session.due = self.gateway.later(wait_ns, self._resume, session)

    def settle_soon(self) -> None:
        """A statement was executed, and its transaction goes on: it hardly ever frees a lock
        (`pg_advisory_unlock`, a savepoint that is rolled back), so nobody asks after each."""
        if self.blocked and self._settles is None:
            self._settles = self.gateway.later(SETTLE_NS, self._settle_now)

    def _settle_now(self) -> None:
        self._settles = None
        self.settle()

    def _resume(self, session: Session) -> None:
        self.gateway.tick()
        self.gateway.telling.note(session, "has its lock", "")
        self._go_on(session)

    def _go_on(self, session: Session) -> None:
        """Whatever a session waited for, it need not any more."""
        self.blocked.pop(session, None)
        session.resuming = False
        for timer in (session.due, session.alarm):
            if timer is not None:
                timer.called_off = True
        session.due = session.alarm = None
        _backend(session).go_on()
        self.gateway.go_on(session)

    def forget(self, session: Session) -> None:
        """The session is over."""
        self.blocked.pop(session, None)
        for untold in session.untold:
            untold.timer.called_off = True

    # --- time ------------------------------------------------------------------------------------

    def sleep(self, session: Session) -> None:
        """A session sleeps inside the server: it wakes in virtual time."""
        session.doing = doing.SLEEPING
        page = self.gateway.page
        until_us = page.sleep_of(_pid(session)) if page is not None else None
        self.gateway.telling.note(session, "sleeps in the server", "")
        self.arm(session)
        if until_us is not None:
            session.due = self._at(until_us, self._wake, session, until_us)
        self.settle()
        self._look_at_procedure(session)

    def _at(self, wall_us: int, callback: Callable[..., object], *args: Any) -> Timer:
        """A timer for an instant of the server's clock."""
        gateway = self.gateway
        when_ns = wall_us * US - gateway.wall_offset_ns()
        return gateway.at(max(when_ns, gateway.now_ns()), callback, *args)

    def _wake(self, session: Session, until_us: int) -> None:
        page = self.gateway.page
        assert page is not None, "it has told when to wake up"
        self.gateway.tick(until_us)
        page.fire(_pid(session))
        self._go_on(session)

    def arm(self, session: Session) -> None:
        """If the server has set a timer for this session, see to it that it goes off."""
        page, backend = self.gateway.page, session.backend
        if page is None or backend is None:
            return
        if session.doing != doing.QUIET:
            due_us = page.timer_of(backend.pid)
        elif session.state == IDLE or session.is_in_copy:
            return  # no statement, no transaction: nothing that could take too long
        else:
            due_us = page.idle_timer_of(backend.pid)
        if due_us is not None:
            session.alarm = self._at(due_us, self._alarm, session, due_us)

    def _alarm(self, session: Session, due_us: int) -> None:
        session.alarm = None
        page, backend = self.gateway.page, _backend(session)
        if page is None or session.doing == doing.DUE:
            return
        self.gateway.tick(due_us)
        page.fire(backend.pid)
        if session.doing == doing.QUIET:  # idle in a transaction for too long
            _, session.answer = backend.read(lambda message: False)
            self.gateway.lost(session)
        else:
            self._go_on(session)

    # --- what the server says unasked ------------------------------------------------------------

    def _look(self, session: Session) -> list[bytes] | None:
        """What the server has said meanwhile, to a session that asked for nothing."""
        backend = _backend(session)
        backend.send(message(SYNC))
        outcome, messages = backend.read(lambda m: m[:1] == READY)
        if outcome != DONE:
            session.answer = messages
            self.gateway.lost(session)
            return None
        return messages[:-1]

    def notify(self) -> None:
        """Somebody has committed: whoever listens is told what it was told by that."""
        for session in list(self.gateway.sessions):
            if session.listens:
                self._ask(session)

    def _ask(self, session: Session) -> None:
        backend = session.backend
        if backend is None or not backend.is_clean:
            return
        if session.doing not in (doing.QUIET, doing.DUE, doing.SENDING):
            return
        told = [m for m in self._look(session) or () if self._gets_through(session, m)]
        if told:
            # One session is told of commits in their order, and of one commit all at once.
            wait_ns = session.choices.pick(NOTIFY_NS, "time to notify")
            when_ns = self.gateway.now_ns() + wait_ns
            if session.untold:
                when_ns = max(when_ns, session.untold[-1].when_ns)
            timer = self.gateway.at(when_ns, self._send, session)
            said = b"".join(map(self.gateway.scrub, told))
            session.untold.append(Untold(when_ns, timer, said))

    def _gets_through(self, session: Session, told: bytes) -> bool:
        if told[:1] == NOTIFICATION:
            return not self.gateway.injection.loses(session)
        return told[:1] in UNASKED

    def come_to_a_standstill(self) -> None:
        """Whoever waits for a lock is to see signals when it goes on, and none before."""
        for session in self.blocked:
            _backend(session).come_to_a_standstill()

    def called(self) -> None:
        """Somebody may have ended other sessions, or cancelled their statements: who was meant
        finds that out now."""
        for session in list(self.gateway.sessions):
            if session.doing == doing.BLOCKED:
                if not session.resuming and _backend(session).is_called():
                    self._go_on(session)
            elif session.doing == doing.SLEEPING:
                if self.gateway.page is not None:
                    self.gateway.page.fire(_pid(session))  # it looks up, and sleeps on if it may
                    self._go_on(session)
            else:
                self._ask(session)

    def _send(self, session: Session) -> None:
        self.gateway.now_ns()
        session.client.send(session.untold.popleft().said)

    def send_all(self, session: Session) -> None:
        """The server answers: what it has said before comes first."""
        while session.untold:
            session.untold[0].timer.called_off = True
            self._send(session)

    # --- cancelling ------------------------------------------------------------------------------

    def cancel(self, pid: int, key: bytes) -> None:
        """A client asks for a statement to be cancelled. If it is over, nothing happens."""
        gateway = self.gateway
        session = next((s for s in gateway.sessions if s.pid == pid and s.key == key), None)
        if session is None:
            return
        gateway.now_ns()
        gateway.telling.note(session, "is asked to cancel", "")
        if session.doing in (doing.BLOCKED, doing.SLEEPING):
            gateway.tick()
            _backend(session).cancel()
            self._go_on(session)
        elif session.is_in_copy or session.is_skipping:
            pass  # its client sends on, or has ended it: it is over before the request is seen
        elif session.doing != doing.DUE or session.backend is None:
            pass  # it does nothing, or has not begun
        elif session.queue and any(map(session.queue[0].has, WORK)):
            gateway.injection.fail_now(session, *CANCELLED)


def _backend(session: Session) -> Backend:
    assert session.backend is not None, "it waits for something, so it has begun"
    return session.backend


def _pid(session: Session) -> int:
    return _backend(session).pid
