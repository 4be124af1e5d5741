"""The world of one run: its hosts, its tape, its trace, and what went wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from _thread import get_ident
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretold import handles
from foretold.arguments import printable
from foretold.errors import BackgroundFailure, Deadlock, UsageError
from foretold.kernel.clock import VirtualClock
from foretold.kernel.computer import running
from foretold.kernel.entropy_patches import random_was_used
from foretold.kernel.kernel import Kernel
from foretold.kernel.numbers import numbers
from foretold.kernel.schedulers.profile import Profile
from foretold.kernel.threads.strand import Strand
from foretold.kernel.waiting import place_of_task, raised_at
from foretold.tape import Tape
from foretold.trace import raised as outcome_of_error
from foretold.trace.content import without_addresses
from foretold.trace.events import NOBODY, WORLD, Failed, Fault, Logged, Uncaught
from foretold.trace.record import Trace
from foretold.world.aftermath import Aftermath
from foretold.world.clock import WorldClock
from foretold.world.faults import fault_kinds
from foretold.world.faults.nemesis import Nemesis
from foretold.world.host import Host
from foretold.world.hosttask import HostTask
from foretold.world.importtime import ImportTime
from foretold.world.knowledge import Knowledge, Known
from foretold.world.log import CAUSE, CORRELATION, EventLog, LoggedEvent, plain
from foretold.world.modules import OwnModules
from foretold.world.net.dns import Dns, check_host_name
from foretold.world.net.network import Network
from foretold.world.net.wire import Wire
from foretold.world.outside import Outside
from foretold.world.services import maker_of
from foretold.world.settings import Settings
from foretold.world.standing import standing
from foretold.world.supervisor import Supervisor
from foretold.world.tally import Tally

if TYPE_CHECKING:
    from typing import Unpack

    from foretold.keywords import PostgresSettings, WebSettings
    from foretold.services.external.server import External
    from foretold.services.postgres.server import Postgres
    from foretold.services.web.server import Web
    from foretold.world.net.native import NativeSockets

DEFAULT_HOST = "main"
FAILURES_MAX = 100

CALL: contextvars.ContextVar[str] = contextvars.ContextVar("foretold_call", default="")
"""The call of a machine that a task is part of, as a key for streams; empty elsewhere. What is
drawn for a call from a stream of its own stays when the shrinker leaves other calls out."""


@handles.shown_as(handles.World)
class World:
    """Everything that surrounds the program in one run. `handles.World` says what is for users."""

    def __init__(self, tape: Tape, trace: Trace, settings: Settings) -> None:
        self.tape = tape
        self.trace = trace
        self.settings = settings
        self.driver = get_ident()
        """The thread that runs the test's own host, and drives the others."""
        self.failures: list[BaseException] = []
        """Failed properties and escapes, in the order in which they happened."""
        self.background: list[BaseException] = []
        """What failed where nobody was looking."""
        self.reached: Counter[str] = Counter()
        """`sometimes` and `reachable` points that were hit."""
        self.expected: dict[str, bool] = {}
        """`sometimes` points that were passed, hit or not."""
        self.tally = Tally()
        """How often each rule, invariant and fault came to something."""
        self.faults_noted = 0
        self.sealed = False
        """The run is over; what still unwinds has no effect any more."""
        self.shared: dict[Any, Any] = {}
        """What draws of one run have in common (`st.shared()`)."""
        self.trusted: dict[str, Any] = {}
        """For hosts that have a script: the SSLContext whose authorities programs verify them
        by."""
        self.services: dict[str, list[Any]] = {}
        """The services that this run has started, by sort."""
        self.calls: Callable[[], Sequence[str]] | None = None
        """The calls of the program that a machine has made; for stories."""
        self.opening: Callable[[], str] | None = None
        """What goes first in the story of this run."""
        self.names: Callable[[], dict[str, str]] | None = None
        """How a story calls ids and tasks, if somebody has better names for them."""
        self.at_commit: list[Callable[[str], object]] = []
        """Called when a database has committed a transaction of the host of that name, while the
        answer is on its way: the moment at which a failure does most harm."""
        self.on_answer: list[Callable[[str, str, int], object]] = []
        """Called with method, path and status when a client of a server has a response."""
        self.at_end: list[Callable[[], object]] = []
        """Called when the run is over."""
        self.ending = False
        """Main has returned; what is left is being cancelled."""
        self.aftermath = Aftermath(self)
        """Which part of what goes wrong from then on fails the run."""
        self._calm_depth = 0
        self.healed = False
        """`world.heal()` was called: nothing is injected any more."""
        self.nemesis: Nemesis | None = None
        """Who injects faults, if the run has any."""
        self.wire = Wire()
        self.network = Network(tape, trace, self.wire)
        self.network.on_fault = self._keep_fault
        self.dns = Dns(self.network)
        self.native: NativeSockets | None = None
        """The sockets of C libraries, from the first on."""
        self.hosts: dict[str, Host] = {}
        self._started: dict[str, int] = {}
        """Hosts in the order in which they were first started."""
        self.starts = 0  # of all hosts
        self.graves: list[Any] = []
        self.threads_left: list[str] = []
        """Daemon threads that had not ended when their process did, and where they stood."""
        self.dead_threads: list[Strand] = []
        """Threads of dead processes: they never go on, and are freed when the run is over."""
        self.home = self._make_host(DEFAULT_HOST)
        """The host that the test itself runs on."""
        self.hosts[DEFAULT_HOST] = self.home
        self.outside = Outside(self.wire, self.home)
        self._supervisors: list[Supervisor] = []
        self.on_event: list[Callable[[LoggedEvent], object]] = []
        """Who wants to hear of what the program says has happened."""

    @functools.cached_property
    def log(self) -> EventLog:
        return EventLog()

    def log_event(self, name: str, data: Mapping[str, object]) -> None:
        """The program says what has happened."""
        host, number = self.acting_host, len(self.log) + 1
        if self.network.knowledge is None:
            self.network.knowledge = Knowledge()
        made = LoggedEvent(
            number,
            host.kernel.clock.elapsed_ns,
            name,
            plain(data),
            CAUSE.get(),
            CORRELATION.get(),
            host.name,
            self.network.knowledge.happened(host.name, number),
        )
        self.log.add(made)
        if self.trace.detail:
            told = tuple((key, repr(value)) for key, value in made.data.items())
            host.kernel.keep(Logged, name=name, data=told)
        for hear in list(self.on_event):
            hear(made)

    def _make_host(self, name: str) -> Host:
        settings = self.settings
        clock = VirtualClock(epoch_s=settings.epoch_s, monotonic_s=settings.monotonic_s)
        if settings.exact_time:
            clock.make_exact()
        kernel = Kernel(
            name,
            self.tape,
            self.trace,
            clock,
            order=settings.order,
            strategy=settings.strategy,
            profile=settings.profile,
            preempt=settings.preempt,
            limits=settings.limits(),
            on_background=self.note_background,
            on_deadlock=self.fail,
        )
        kernel.standing = lambda: standing(self)
        return Host(self, name, kernel)

    def host(
        self,
        name: str,
        *,
        isolate: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Host:
        asked: object = name
        own_modules = OwnModules(isolate) if isolate else None
        found = self.hosts.get(name) if isinstance(asked, str) else None
        if found is None:
            check_host_name(asked, self.network.by_name)
            found = self.hosts[name] = self._make_host(name)
            found.kernel.clock.wait_until(self.now_ns())
            self.outside.join(found)
        if own_modules is not None:
            found.modules = own_modules
        if environment is not None:
            found.environment.give(environment)
        return found

    async def postgres(self, schema: Any = None, **settings: Unpack[PostgresSettings]) -> Postgres:
        made: Postgres = await maker_of("postgres")(self, schema, **settings)
        return made

    async def web(self, app: Any, **settings: Unpack[WebSettings]) -> Web:
        made: Web = await maker_of("web")(self, app, **settings)
        return made

    def external(self, name: str, answers: Mapping[str, Any] | None = None) -> External:
        made: External = maker_of("external")(self, name, answers)
        return made

    @property
    def acting_host(self) -> Host:
        """The host whose code is running."""
        computer: Any = running.get(get_ident())
        if isinstance(computer, ImportTime):
            computer = computer.host
        return computer if isinstance(computer, Host) else self.home

    def now_ns(self) -> int:
        """The instant at which the acting host is."""
        return self.acting_host.kernel.clock.ns

    def live_hosts(self) -> list[Host]:
        """The other hosts that are still running something."""
        return [host for host in self.outside.others if host.is_alive]

    def living_loops(self) -> list[Any]:
        """The loops of all processes that are not dead."""
        return [loop for host in self.hosts.values() for loop in host.loops]

    def forget_the_dead(self) -> None:
        """Let go of all that dead processes were doing."""
        for loop in self.graves:
            loop.forget()
        self.graves.clear()
        self.dead_threads.clear()
        for host in self.hosts.values():
            host.buried.clear()

    def main_returned(self) -> None:
        """The test has its answer: no more faults strike, and all that is left is ended."""
        self.ending = True
        if self.nemesis is not None:
            self.nemesis.finish()
        self.aftermath.begin()

    def home_exits(self) -> None:
        """The test's own program is over: its loop is closed, and its kernel closes its sockets."""
        self.home.loop.abandon()
        self.home.loop.close()
        self.home.descriptors.process_is_over = True
        self.home.stack.close_all()

    def main_failed(self, started: HostTask) -> None:
        """A host's main raised and nobody awaits it."""
        error = started.task.exception()
        if error is not None and not self.aftermath.excuses(started.host, error):
            self.aftermath.mark_late(error)
            error.add_note(f"foretold: raised by the main of host {started.host.name}")
            self.fail(error)

    def forgive(self, error: BaseException | None) -> None:
        """A host's main had failed before the test awaited it: the test has the error now."""
        self.failures = [failure for failure in self.failures if failure is not error]

    def note_fault(self, text: str, *hosts: str, **facts: Any) -> None:
        """A fault was injected: it stands in the trace and in the story."""
        self.trace.note("fault", text)
        self._keep_fault(text, hosts, **facts)

    def _keep_fault(self, text: str, hosts: tuple[str, ...] = (), **facts: Any) -> None:
        self.faults_noted += 1
        if self.trace.detail and not self.ending:  # by then they are repairs, and part of no story
            host = self.acting_host
            time_ns = max(self.now_ns(), self.wire.now_ns)
            self.trace.keep(Fault(time_ns, host.name, WORLD, text=text, hosts=hosts, **facts))

    def supervise(self, *names: str, after_s: float = 1.0) -> None:
        self._supervisors.append(Supervisor(self, names, after_s))

    def was_killed(self, host: Host) -> None:
        """A host was killed, or has crashed."""
        for supervisor in self._supervisors:
            supervisor.was_killed(host)

    def begin_faults(self) -> None:
        """From here on faults may strike, those that the settings ask for."""
        if self.settings.faults:
            self.nemesis = Nemesis(self, fault_kinds(self.settings.faults))
            self.nemesis.go_on()
            self.network.on_first_talk = functools.partial(self.comes_into_use, "network")
            self.at_end.append(self.nemesis.finish)

    def known_to(self, host: Host) -> Known | None:
        """What this host knows of the events of all hosts."""
        knowledge = self.network.knowledge
        return None if knowledge is None else knowledge.of(host.name)

    def hears(self, host: Host, known: Known | None) -> None:
        """A host learns, other than over the network, what another knew of events."""
        if self.network.knowledge is not None:
            self.network.knowledge.learns(host.name, known)

    def host_started(self, host: Host) -> None:
        """A main was started there, perhaps not the first one."""
        self.hears(host, self.known_to(self.acting_host))
        self._started.setdefault(host.name, len(self._started))
        self.starts += 1
        self.comes_into_use("host")

    def start_number(self, host: Host) -> int:
        """How many hosts were started before this one; all of them, if it never was."""
        return self._started.get(host.name, len(self._started))

    def comes_into_use(self, what: str) -> None:
        """The network, a host or a disk is there to be struck from now on."""
        if self.nemesis is not None:
            self.nemesis.open(what)

    async def heal(self) -> None:
        self.healed = True
        if self.nemesis is not None:
            self.nemesis.stop()
        self.network.heal()
        for host in self.hosts.values():
            host.resume()
        self.trace.note("fault", "heal")
        self._keep_fault("no more faults (heal)", is_setting=True)

    @property
    def clock(self) -> WorldClock:
        return self.home.clock

    @property
    def virtual_s(self) -> float:
        """How much virtual time has passed."""
        return self.home.kernel.clock.elapsed_ns / 1e9

    def profile(self) -> Profile:
        """What this run has shown about the program; in each respect, the longest host."""
        profiles = [host.kernel.profile() for host in self.hosts.values()]
        return functools.reduce(Profile.joined, profiles)

    @property
    def choices(self) -> int:
        """How many choices could matter, on all hosts. 0: another tape could not change this run.
        Asked for while the run is active.

        All that was drawn from the tape counts, whoever drew it, but for what every run draws
        (`_SEEN_BY_EFFECT`). Each further host counts: it has a pace of its own, so who comes first
        is a choice.
        """
        hosts = self.hosts.values()
        drawn = self.tape.draws.items()
        drawn_n = sum(n for name, n in drawn if not name.startswith(_SEEN_BY_EFFECT))
        # The first is for the global `random`, used or not.
        random = max(0, sum(host.entropy_drawn for host in hosts) - 1) + random_was_used()
        decisions = sum(host.kernel.decisions for host in hosts)
        left = any(loop.has_alarms() for loop in self.living_loops())
        return drawn_n + random + decisions + numbers.are_asked + left + len(self.hosts) - 1

    @property
    def was_random(self) -> bool:
        """Whether the program drew what no enumeration goes through. Asked for while the run is
        active."""
        return self.home.entropy_drawn > 1 or random_was_used() or self.tape.drew_bytes

    def drive(self, seconds: float) -> None:
        self._not_inside_a_loop("drive", "await world.clock.advance(seconds)")
        self.home.loop.run_until_complete(self.clock.advance(seconds))

    def drive_until_idle(self) -> None:
        self._not_inside_a_loop("drive_until_idle", "await world.clock.run_until_idle()")
        self.home.loop.run_until_complete(self.clock.run_until_idle())

    def _not_inside_a_loop(self, method: str, instead: str) -> None:
        if self.home.loop.is_running():
            raise UsageError(
                f"world.{method}() is for plain tests; in an async one write {instead}"
            )

    @contextlib.asynccontextmanager
    async def calm(self) -> AsyncIterator[None]:
        self._calm_depth += 1
        if self._calm_depth == 1 and self.nemesis is not None:
            self.nemesis.stand_still()
        try:
            yield
        finally:
            self._calm_depth -= 1
            if not self._calm_depth and self.nemesis is not None and not self.sealed:
                self.nemesis.go_on()

    @property
    def is_calm(self) -> bool:
        return self._calm_depth > 0

    def fail(self, error: BaseException, *, at: Host | None = None) -> None:
        """Record that the run has failed, whatever becomes of `error` in the program. `at`: it was
        seen on that host, where no task of the program acts."""
        if self.sealed or len(self.failures) >= FAILURES_MAX:
            return
        self.failures.append(error)
        self.trace.note("failed", type(error).__name__)
        if self.trace.detail and not isinstance(error, Deadlock):  # which is nobody's step
            said = str(error).split("\n")[0]
            if at is None:
                self.acting_host.kernel.keep(Failed, said=said)
            else:
                seen_ns = at.kernel.clock.ns
                self.trace.keep(Failed(seen_ns, at.name, NOBODY, said=said))

    def note_background(self, context: dict[str, Any]) -> None:
        """asyncio reports something that nobody caught."""
        if self.sealed or len(self.background) >= FAILURES_MAX:
            return
        if self.ending and isinstance(context.get("exception"), asyncio.CancelledError):
            return  # asyncio.streams of 3.11 and 3.12 trips over its own handler being cancelled
        message = str(context.get("message") or "unhandled error in the event loop")
        message = without_addresses(message)  # asyncio names generators by their repr
        self.trace.note("background", message.split("\n")[0])
        host, raised, aftermath = self.acting_host, context.get("exception"), self.aftermath
        if raised is not None and aftermath.excuses(host, raised):
            return
        if aftermath.is_last_word(host, context, message):
            return
        ended = any(context.get(name) is not None for name in ("task", "future"))
        if self.trace.detail and raised is not None and not self.ending:
            facts = {"error": outcome_of_error(raised), "is_of_task": ended}
            host.kernel.keep(Uncaught, place=raised_at(raised), **facts)
        error = _background_error(context, message)
        aftermath.mark_late(error, "noticed" if ended else "raised")
        self.background.append(error)
        aftermath.complained(context, error)


_SEEN_BY_EFFECT = ("pace/", "schedule/", "threads/", "entropy/", "sets/")
"""Streams from which runs draw in advance, whether or not it changes anything. What they change is
counted instead: decisions of schedulers, timers that meet, looks at a clock, use of randomness,
sets of tasks."""


def _background_error(context: dict[str, Any], message: str) -> BaseException:
    task: Any = context.get("task") or context.get("future")
    name: str | None = task.get_name() if hasattr(task, "get_name") else None
    where = f" (task {printable(name)})" if name else ""
    error = context.get("exception")
    if isinstance(error, BaseException):
        note = f"foretold: nobody caught this: {message}{where}"
        if note not in getattr(error, "__notes__", ()):  # the same object may be raised again
            error.add_note(note)
        return error
    place = place_of_task(task) if name else None
    at = f" at {place}" if place else ""
    return BackgroundFailure(f"{message}{where}{at}")
