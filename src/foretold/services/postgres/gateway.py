"""The server as the world sees it: a host that answers PostgreSQL's protocol on its port.

Each group of messages is executed by the real server at one instant, which the tape chooses; while
it is, virtual time stands still. So statements happen one after the other, in an order that
repeats, and everything that PostgreSQL does between them (locks, snapshots, deadlocks) is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from foretold.errors import PostgresError, ServiceError
from foretold.kernel.conflicts import ACCESSES_MAX
from foretold.services.postgres import moment as moments
from foretold.services.postgres import protocol
from foretold.services.postgres.accesses import access_of
from foretold.services.postgres.backend import BLOCKED, GONE, SLEEPING, ExpectedAnswer
from foretold.services.postgres.client import Client
from foretold.services.postgres.datadir import SUPERUSER
from foretold.services.postgres.injection import DatabaseFailure, DatabaseInjection
from foretold.services.postgres.login import Login, LoginRefused
from foretold.services.postgres.look import look
from foretold.services.postgres.protocol import (
    COPY_IN,
    ERROR,
    KEY_DATA,
    NOTICE,
    NOTIFICATION,
    Group,
    Opening,
    error_response,
)
from foretold.services.postgres.scrub import Scrubber, key_data
from foretold.services.postgres.session import (
    AHEAD,
    COPIED,
    DUE,
    EXTENDED,
    LOGIN,
    OVER,
    QUIET,
    SENDING,
    SIMPLE,
    Session,
)
from foretold.services.postgres.side import SideConnection
from foretold.services.postgres.sqltext import every_word, only_reads
from foretold.services.postgres.statements import calls_others, looks_at_sessions, makes_settings
from foretold.services.postgres.telling import Telling
from foretold.services.postgres.values import Rows
from foretold.services.postgres.waits import Waits
from foretold.world.net.stack import BoundAddress

if TYPE_CHECKING:
    from ssl import SSLContext

    from foretold.services.postgres.kept import KeptServer
    from foretold.world.host import Host
    from foretold.world.net.wire import Timer

T = TypeVar("T")

MS: Final = 1_000_000
STATEMENT_NS: Final = (MS // 5, MS // 2, MS, 2 * MS, 5 * MS, 20 * MS)
"""How long the server takes for a group, as the tape picks. The first is the calm one."""
CONNECT_NS: Final = (2 * MS, 5 * MS, 20 * MS)
BACKLOG = 200
KEEP_ALIVE = (7_200, 75, 9)
"""As Linux has it, which PostgreSQL asks for: idle and interval in seconds, and how many probes."""


class Access(NamedTuple):
    """Who may begin a session, and how."""

    tls: SSLContext | None = None
    """Clients that ask for TLS get it, with this certificate."""
    password: str | None = None
    """What clients have to know; None: they are trusted."""


class Gateway:
    """Serves the sessions of one database in one run."""

    def __init__(self, host: Host, kept: KeptServer, port: int, access: Access) -> None:
        self.host = host
        self.world = host.world
        self.pool = kept.pool
        self.kept = kept
        self.page = kept.cluster.page
        self.access = access
        self.port = port
        self.wire = host.world.wire
        self.choices = host.world.tape.stream("postgres", host.name)
        self.sessions: list[Session] = []
        self.begun = 0
        """How many sessions there ever were."""
        self.groups = 0
        self.scrub = Scrubber()
        self.telling = Telling(self)
        self.waits = Waits(self)
        self.injection = DatabaseInjection(self)
        self.gate: Callable[[Session], bool] | None = None
        """Asked before a session executes something; it may keep it until `carry_out`."""
        self.closed = False
        self._postponed: list[tuple[Timer, Callable[[], None]]] = []
        """What was due while the host stood still."""
        self._seed = self.choices.choose(1 << 48, "the server's randomness")
        self._listener = self._listen()

    def _listen(self) -> Any:
        stack, network = self.host.stack, self.world.network
        end = network.new_end(stack, "s")
        stack.bind(end, self.port, BoundAddress("0.0.0.0", False, True, False))
        listener = stack.listen(end, "0.0.0.0", self.port, BACKLOG)
        listener.on_change = self._accept
        return listener

    def look(self, sql: str) -> list[Any]:
        """Ask the server something of our own; at any time, also while it works for others."""
        return self._ask(SideConnection.simple, sql)

    def look_again(self, sql: str) -> list[Any]:
        """As `look`, for one query that is asked often; what it finds is always of one kind."""
        return self._ask(SideConnection.again, sql)

    def look_at_all(self, queries: list[str]) -> list[list[Any]]:
        """The same for several of them, in one round trip."""
        return self._ask(SideConnection.all_again, queries)

    def _ask(self, ask: Callable[[SideConnection, T], list[Any]], sql: T) -> list[Any]:
        self._advance_clock()
        try:
            return ask(self.kept.side, sql)
        except (PostgresError, ServiceError):  # the program has just ended all sessions but its own
            self.kept.look_after()
            return ask(self.kept.side, sql)

    words_of = staticmethod(every_word)
    only_reads = staticmethod(only_reads)
    """For whoever looks at the database, and must not know SQL: machines do."""

    def moment(self) -> moments.DatabaseContents:
        """What is committed now; `restore` comes back to it."""
        return moments.taken(self.kept.side)

    def restore(
        self, moment: moments.DatabaseContents, now: moments.DatabaseContents | None = None
    ) -> None:
        """Come back to a moment, from another one if that is known. No session may be in a
        transaction."""
        self._advance_clock()
        moments.restore(self.kept.side, moment, now)

    def layout(self) -> moments.Layout:
        """The columns of all tables, to read a moment by."""
        return moments.layout(self.kept.side)

    def skip_numbers(self, by: int) -> None:
        """Leave out so many numbers of each sequence."""
        moments.skip_numbers(self.kept.side, by)

    def tables(self) -> list[moments.TableContents]:
        """All rows of all tables."""
        return moments.tables(self.kept.side)

    def rows(self, sql: str) -> Rows:
        """The same as Python values, for whoever looks at the database: machines do."""
        return look(self, sql, ())

    # --- time ------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The instant at which the server acts; its host's clock is never behind it."""
        clock = self.host.kernel.clock
        clock.ns = max(clock.ns, self.wire.now_ns)
        return clock.ns

    def later(self, ns: int, callback: Callable[..., object], *args: Any) -> Timer:
        """Act after so much time, unless that is called off."""
        return self.at(self.now_ns() + ns, callback, *args)

    def at(self, when_ns: int, callback: Callable[..., object], *args: Any) -> Timer:
        """Act at an instant; while the server is paused, when it goes on."""

        def act() -> None:
            if timer.called_off:  # while the host stood still
                return
            if self.host.paused:
                self._postponed.append((timer, act))
            else:
                callback(*args)

        timer = self.wire.timer(when_ns, act)
        return timer

    def tick(self, wall_us: int | None = None) -> None:
        """The server is about to act: it sees the time of its host, and new randomness."""
        self.groups += 1
        self._set_clock(wall_us or 0)
        if self.page is not None:
            self.page.set_seed((self._seed + self.groups * 0x9E3779B97F4A7C15) % (1 << 64) | 1)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks that are made within change nothing of what the server draws later."""
        groups = self.groups
        try:
            yield
        finally:
            self.groups = groups

    def _advance_clock(self) -> None:
        """For a look of our own; not back: somebody may just have been told that its time is up."""
        if self.page is not None:
            self._set_clock(self.page.now_us)

    def _set_clock(self, wall_us: int) -> None:
        now_ns = self.now_ns()
        if self.page is not None:
            wall_ns = now_ns + self.wall_offset_ns()
            self.page.set_clock(max(wall_ns // 1_000, wall_us))

    def wall_offset_ns(self) -> int:
        """What the host's wall clock shows beyond its monotonic time."""
        clock = self.host.kernel.clock
        return clock.wall_now_ns() - clock.ns

    # --- connections -----------------------------------------------------------------------------

    def _accept(self) -> None:
        while self._listener.queue:
            end = self._listener.queue.popleft()
            end.keep_alive(*KEEP_ALIVE)
            Client(end, self._opened)

    def _opened(self, client: Client, opening: Opening) -> None:
        if opening.code == protocol.SSL_REQUEST and self.access.tls is not None:
            self.now_ns()
            client.begin_tls(self.access.tls)
        elif opening.code in (protocol.SSL_REQUEST, protocol.GSS_REQUEST):
            self.now_ns()
            client.send(b"N")
        elif opening.code == protocol.CANCEL_REQUEST:
            self.waits.cancel(*opening.key)
            client.close()
        elif opening.code < protocol.PROTOCOL_3:
            client.send(protocol.too_old(opening.code))
            client.close()
        else:
            session = self.admit(client, opening, client.sender)
            self.telling.follow(session)
            session.asks_password = self.access.password is not None
            client.on_gone = lambda: self._client_gone(session)
            client.expect_groups(lambda group: self.enqueue(session, group))

    def admit(self, client: Client, opening: Opening, host: str) -> Session:
        """Somebody wants a session; it begins when the server has made a process for it."""
        self.begun += 1
        choices = self.world.tape.stream("postgres", f"{self.host.name} session {self.begun}")
        session = Session(self.begun, client, host, choices)
        session.doing = DUE
        self.sessions.append(session)
        wait_ns = session.choices.pick(CONNECT_NS, "time to connect")
        wait_ns += self.injection.slow_connect_ns(session)
        session.due = self.later(wait_ns, self._begin, session, opening)
        return session

    def _begin(self, session: Session, opening: Opening) -> None:
        """Give the session a process of the server."""
        refusal = self.injection.refusal()
        if refusal is not None:
            session.client.send(refusal)
            self._part(session)
        elif opening.parameters.get("user") == SUPERUSER:
            self.dismiss(session, "28000", f'role "{SUPERUSER}" is not permitted to log in')
        elif session.asks_password:
            self._ask_password(session, opening)
        else:
            self._start(session, opening)

    def _ask_password(self, session: Session, opening: Opening) -> None:
        user = opening.parameters.get("user", "")
        login = Login(user, self.access.password or "", session.choices)
        session.doing = LOGIN
        session.client.send(login.begin())

        def answer(said: bytes) -> None:
            try:
                session.client.send(login.receive(said))
            except LoginRefused as error:
                self.dismiss(session, error.code, error.words)
                return
            if login.is_done:
                session.on_login = None
                self._start(session, opening)

        session.on_login = answer
        if session.leaving:
            self.end(session)

    def _start(self, session: Session, opening: Opening) -> None:
        self.tick()
        parameters = opening.parameters
        session.database = parameters.get("database") or parameters.get("user", "")
        parameters = self.injection.parameters(session, parameters)
        backend = self.pool.take(opening.code, parameters)
        session.backend = backend
        if not backend.accepted:
            session.client.send(b"".join(map(self.scrub, backend.greeting)))
            backend.close()
            self._part(session)
            return
        self.scrub.know(backend.pid, session.pid)
        seed = session.choices.choose(1 << 30, "seed of random()") / (1 << 30)
        backend.ask(protocol.query(f"SELECT setseed({seed!r})"))
        greeting = (
            key_data(session.pid, session.key) if m[:1] == KEY_DATA else self.scrub(m)
            for m in backend.greeting
        )
        self.telling.note(session, "connects", f"from {session.host}")
        session.client.send(b"".join(greeting))
        self._rest(session)

    def _client_gone(self, session: Session) -> None:
        """The client has hung up. The server sees it when it next reads, or can't write."""
        session.leaving = True
        if session.doing in (QUIET, LOGIN):
            self.end(session)

    # --- groups ----------------------------------------------------------------------------------

    def enqueue(self, session: Session, group: Group) -> None:
        if session.on_login is not None:
            self.now_ns()
            session.on_login(group.data)
            return
        session.queue.append(group)
        if session.doing == QUIET:
            self._schedule(session)

    def _schedule(self, session: Session) -> None:
        session.doing = DUE
        if session.alarm is not None:  # the client has gone on, in time
            session.alarm.called_off = True
            session.alarm = None
        wait_ns = STATEMENT_NS[0]
        if session.queue[0].last != protocol.TERMINATE:
            place = session.choices.draws
            wait_ns = session.choices.pick(STATEMENT_NS, "time for a statement")
            session.waits_ns[place] = wait_ns
        session.due = self.later(wait_ns, self._execute, session)

    def _execute(self, session: Session) -> None:
        """The instant of the next group has come."""
        session.due = None
        group = session.group = session.queue.popleft()
        if group.last == protocol.TERMINATE:
            self.end(session)
            return
        session.executes = session.statements.executed_by(group)
        if session.backend is not None and any(map(makes_settings, session.executes)):
            session.backend.has_own_settings = True
        if self.gate is not None and self.gate(session):
            return
        self.carry_out(session)

    def carry_out(self, session: Session) -> None:
        """Have the group executed that a session has come to; or what strikes it."""
        group = session.group
        assert group is not None, "its instant has come"
        self.tick()
        if not self.injection.strike(session, group):
            self.send(session, group)

    def send(self, session: Session, group: Group) -> None:
        """Have the real server execute a group."""
        backend = session.backend
        assert backend is not None, "a session that has begun"
        session.expected = ExpectedAnswer(backend, group, session)
        session.answer = []
        backend.is_clean = False
        self.show_sessions(session.executes)
        if any(map(calls_others, session.executes)):
            self.waits.come_to_a_standstill()
        backend.send(group.data)
        self.go_on(session)

    def show_sessions(self, executes: Iterable[str]) -> None:
        """Whoever asks for the server's sessions must not see processes that wait for a next one:
        their sessions are over."""
        if any(map(looks_at_sessions, executes)):
            self.pool.close()

    def go_on(self, session: Session) -> None:
        """Read on until the group is answered, or the server can't go on with it."""
        backend, expected = session.backend, session.expected
        assert backend is not None, "as above"
        assert expected is not None, "a group was sent"
        if not expected.is_empty:
            outcome, messages = backend.read(expected, lambda: self.waits.is_blocked(session))
            session.answer += messages
            if outcome == BLOCKED:
                self.waits.block(session)
                return
            if outcome == SLEEPING:
                self.waits.sleep(session)
                return
            if outcome == GONE:
                self.lost(session)
                return
        self._answered(session, session.answer)

    def _answered(self, session: Session, answer: list[bytes]) -> None:
        backend, group = session.backend, session.group
        assert backend is not None, "as above"
        assert group is not None, "as above"
        backend.is_clean = bool(answer) and answer[-1][:1] == protocol.READY
        session.copying = _copy_after(session, group, answer)
        calls = any(map(calls_others, session.executes))
        committed = self.telling.answered(session, answer)
        accesses = self.world.trace.accesses
        if accesses is not None and session.executes and len(accesses) < ACCESSES_MAX:
            accesses.append(access_of(session, self.now_ns(), STATEMENT_NS))
            session.waits_ns = {}
        ended, goes_on = backend.state == protocol.IDLE, backend.state == protocol.IN_TRANSACTION
        self.reply(session, answer)
        if ended or committed:
            self.waits.notify()
        if committed:
            self.telling.committed(session)
        if calls:
            self.waits.called()
            self.kept.look_after()
        if goes_on and not committed:
            self.waits.settle_soon()
        else:
            self.waits.settle()

    def reply(self, session: Session, answer: list[bytes]) -> None:
        """Send the answer to the client, and turn to its next group."""
        session.group = session.expected = None
        session.answer = []
        if session.drop_after:
            session.client.abort()
            self.end(session)
            return
        if session.untold:
            self.waits.send_all(session)
        scrub = self.scrub
        session.client.send(b"".join([scrub(m) if m[:1] in _SCRUBBED else m for m in answer]))
        self._rest(session)

    def _rest(self, session: Session) -> None:
        if session.client.is_stuck:  # the server waits with its next deed until all is sent
            session.doing = SENDING
            session.client.on_sent = lambda: self._rest(session)
            return
        session.doing = QUIET
        if session.queue:
            self._schedule(session)
        elif session.leaving:
            self.end(session)
        else:
            self.waits.arm(session)

    # --- what happens to the host ----------------------------------------------------------------

    def resumed(self) -> None:
        """The host goes on after a pause."""
        postponed, self._postponed = self._postponed, []
        for timer, act in postponed:
            if not timer.called_off:
                self.wire.timer(self.now_ns(), act)

    def died(self) -> None:
        """The server's process is gone, or its power: what was not committed never happened."""
        for session in list(self.sessions):
            session.client.gone = True
            self.end(session)

    def begin_again(self) -> None:
        """The server is started again, and has recovered what was committed."""
        self._listener = self._listen()

    def waiting(self) -> list[str]:
        """For a deadlock: the sessions that wait for a lock, and who holds it."""
        return [line for session in self.waits.blocked for line in self.waits.lines_about(session)]

    # --- the end of a session --------------------------------------------------------------------

    def lost(self, session: Session) -> None:
        """The server has ended the session by itself. If it did not say why, its process has died,
        and the server ends all others: that is no doing of the program's."""
        if not self.kept.cluster.alive():
            self.world.fail(self.kept.cluster.death())
        elif not protocol.is_farewell(session.answer):
            self.kept.is_spoiled = True
            self.kept.side.wait_for_end(_CRASH_S_MAX)  # the server logs the death before it does so
            self.world.fail(self.kept.cluster.death_of_process())
        session.client.send(b"".join(map(self.scrub, session.answer)))
        if session.backend is not None:
            session.backend.close()
            session.backend = None
        self._part(session)
        self.waits.settle()

    def dismiss(self, session: Session, code: str, words: str) -> None:
        """End a session from outside, with a last word."""
        if not session.client.gone:
            session.client.send(error_response(code, words, severity="FATAL"))
        self.end(session)

    def end(self, session: Session) -> None:
        """The session is over: its locks are free, its transaction is rolled back."""
        if session.doing == OVER:
            return
        self.telling.note(session, "disconnects", "")
        self._part(session)
        backend, session.backend = session.backend, None
        if backend is not None:
            self.tick()
            if backend.stopped:
                backend.is_clean = False
            self.pool.give_back(backend)
        if not self.closed:
            self.waits.settle()

    def _part(self, session: Session) -> None:
        for timer in (session.due, session.alarm):
            if timer is not None:
                timer.called_off = True
        session.due = session.alarm = None
        session.doing = OVER
        self.waits.forget(session)
        self.sessions.remove(session)
        session.client.on_gone = session.client.on_sent = session.on_login = None
        session.client.close()

    def arm(self, failure: str, lasts_ns: int, told: Callable[[], object]) -> DatabaseFailure:
        """From now on a failure waits for its occasion; `told` is called when it has struck."""
        armed = DatabaseFailure(failure, None, lasts_ns, told=told)
        self.injection.arm(armed)
        return armed

    def disarm(self, failure: DatabaseFailure) -> None:
        self.injection.disarm(failure)

    def close(self) -> None:
        """The run is over: every process of the server is as before."""
        self.closed = True
        for session in list(self.sessions):
            session.client.gone = True
            self.end(session)
        if self.page is not None:
            self.page.real_time()
        self.telling.keep_schema()


def _copy_after(session: Session, group: Group, answer: list[bytes]) -> str | None:
    """How far a COPY is when a group was answered."""
    if answer and answer[-1][:1] == COPY_IN:
        is_simple = group.last == protocol.QUERY or session.copying == SIMPLE
        return SIMPLE if is_simple else EXTENDED
    if answer or group.last in (protocol.QUERY, protocol.FUNCTION_CALL):
        return None
    if group.last in protocol.COPY_ENDS:
        return AHEAD if group.has(protocol.EXECUTE) else COPIED
    return session.copying


_CRASH_S_MAX: Final = 5.0
"""A server ends all of its sessions soon after one of its processes has crashed."""
_SCRUBBED: Final = (ERROR, NOTICE, NOTIFICATION)
