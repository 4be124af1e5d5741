"""The world of one run: its hosts, its tape, its trace, and what went wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import re
from _thread import get_ident
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretold.arguments import printable
from foretold.errors import BackgroundFailure, Deadlock, UsageError
from foretold.kernel.clock import VirtualClock
from foretold.kernel.computer import running
from foretold.kernel.entropy_patches import random_was_used
from foretold.kernel.kernel import Kernel
from foretold.kernel.schedulers.profile import Profile
from foretold.kernel.threads.strand import Strand
from foretold.kernel.waiting import place_of_task
from foretold.tape import Tape
from foretold.trace import NOBODY, Event, Trace
from foretold.world.clock import WorldClock
from foretold.world.faults import fault_kinds
from foretold.world.faults.nemesis import Nemesis
from foretold.world.host import Host
from foretold.world.hosttask import HostTask
from foretold.world.importtime import ImportTime
from foretold.world.modules import OwnModules
from foretold.world.net.dns import Dns, check_host_name
from foretold.world.net.network import Network
from foretold.world.net.wire import Wire
from foretold.world.outside import Outside
from foretold.world.services import maker_of
from foretold.world.settings import Settings
from foretold.world.tally import Tally

if TYPE_CHECKING:
    from foretold.world.net.native import NativeSockets

DEFAULT_HOST = "main"
FAILURES_MAX = 100
HUNG_UP = (ConnectionError, EOFError)
"""What a server that does not catch it says of a client that is gone. When the test is over its own
clients are, and that is no failure of the program."""


CALL: contextvars.ContextVar[str] = contextvars.ContextVar("foretold_call", default="")
"""The call of a machine that a task is part of, as a key for streams; empty elsewhere. What is
drawn for a call from a stream of its own stays when the shrinker leaves other calls out."""


class World:
    """Everything that surrounds the program in one run."""

    def __init__(self, tape: Tape, trace: Trace, settings: Settings) -> None:
        self.tape = tape
        self.trace = trace
        self.settings = settings
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
        self.services: dict[str, list[Any]] = {}
        """The services that this run has started, by sort."""
        self.opening: Callable[[], str] | None = None
        self.names: Callable[[], dict[str, str]] | None = None
        """How a story calls ids and tasks, if somebody has better names for them."""
        """Who has something to say that goes first in the story of this run."""
        self.at_commit: list[Callable[[str], object]] = []
        """Called when a database has committed a transaction of the host of that name, while the
        answer is on its way: the moment at which a failure does most harm."""
        self.at_end: list[Callable[[], object]] = []
        """Called when the run is over."""
        self.ending = False
        """Main has returned; what is left is being cancelled."""
        self._alarms_left = False
        self._home_is_gone = False
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
        self.graves: list[Any] = []
        self.threads_left: list[str] = []
        """Daemon threads that had not ended when their process did, and where they stood."""
        self.dead_threads: list[Strand] = []
        """Threads of dead processes: they never go on, and are freed when the run is over."""
        self.home = self._make_host(DEFAULT_HOST)
        """The host that the test itself runs on."""
        self.hosts[DEFAULT_HOST] = self.home
        self.outside = Outside(self.wire, self.home)

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
        return Host(self, name, kernel)

    def host(
        self,
        name: str,
        *,
        isolate: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Host:
        """The host of that name; it is made when it is first asked for.

        With `isolate=["myapp"]` it imports a copy of its own of these modules, so that two replicas
        of one application share no globals. Name its program then: `host.start("myapp.run:main")`.
        `environment={"PORT": "80"}` adds to its `os.environ`, which no other host shares.
        """
        asked: object = name
        own_modules = OwnModules(isolate) if isolate else None
        found = self.hosts.get(name) if isinstance(asked, str) else None
        if found is None:
            check_host_name(asked, self.hosts)
            found = self.hosts[name] = self._make_host(name)
            found.kernel.clock.ns = self.now_ns()
            self.outside.join(found)
        if own_modules is not None:
            found.modules = own_modules
        if environment is not None:
            found.environment.give(environment)
        return found

    async def postgres(self, schema: Any = None, **settings: Any) -> Any:
        """A real PostgreSQL server at host `postgres`, with this schema in it; its `dsn` says where
        programs find it. See docs/postgres.md for the settings."""
        return await maker_of("postgres")(self, schema, **settings)

    async def web(self, app: Any, **settings: Any) -> Any:
        """An ASGI application at host `web`; its `client(actor)` is an `httpx.AsyncClient`. See
        docs/web.md for the settings."""
        return await maker_of("web")(self, app, **settings)

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
        return [host for host in self.outside.others if host.loops and not host.stack.dead]

    def living_loops(self) -> list[Any]:
        """The loops of all processes that are not dead."""
        return [loop for host in self.hosts.values() for loop in host.loops]

    def keep_dead(self, host: Host) -> None:
        """Keep what a dead process was doing until the run is over."""
        self.graves.extend(host.loops)

    def forget_the_dead(self) -> None:
        """Let go of all that dead processes were doing."""
        for loop in self.graves:
            loop.forget()
        self.graves.clear()
        self.dead_threads.clear()
        for host in self.hosts.values():
            host.buried.clear()

    def home_exits(self) -> None:
        """The test's own program is over: its loop is closed, and its kernel closes its sockets."""
        self._alarms_left, self._home_is_gone = self._has_alarms(), True
        self.home.loop.abandon()
        self.home.loop.close()
        self.home.descriptors.process_is_over = True
        self.home.stack.close_all()

    def main_failed(self, started: HostTask) -> None:
        """A host's main raised and nobody awaits it."""
        error = started.task.exception()
        if error is not None:
            error.add_note(f"foretold: raised by the main of host {started.host.name}")
            self.fail(error)

    def forgive(self, error: BaseException | None) -> None:
        """A host's main had failed before the test awaited it: the test has the error now."""
        self.failures = [failure for failure in self.failures if failure is not error]

    def note_fault(self, text: str) -> None:
        """A fault was injected: it stands in the trace and in the story."""
        self.trace.note("fault", text)
        self._keep_fault(text)

    def _keep_fault(self, text: str) -> None:
        self.faults_noted += 1
        if self.trace.detail:
            host = self.acting_host
            time_ns = max(self.now_ns(), self.wire.now_ns)
            self.trace.keep(Event(time_ns, host.name, "(world)", 0, "fault", text, None))

    def begin_faults(self) -> None:
        """From here on faults may strike, those that the settings ask for."""
        if self.settings.faults:
            self.nemesis = Nemesis(self, fault_kinds(self.settings.faults))
            self.nemesis.go_on()
            self.network.on_first_talk = functools.partial(self.comes_into_use, "network")
            self.at_end.append(self.nemesis.finish)

    def comes_into_use(self, what: str) -> None:
        """The network, a host or a disk is there to be struck from now on."""
        if self.nemesis is not None:
            self.nemesis.open(what)

    async def heal(self) -> None:
        """Stop all faults, repair the network, let hosts go on that were paused. Dead hosts stay
        dead, and clocks that the test has set wrong stay wrong."""
        self.healed = True
        if self.nemesis is not None:
            self.nemesis.stop()
        self.network.heal()
        for host in self.hosts.values():
            host.resume()
        self.note_fault("heal")

    @property
    def clock(self) -> WorldClock:
        """The clock of the host that the test runs on."""
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
        """How many choices mattered: about order, and what the program drew itself, be it from
        the tape or as plain randomness. Asked for while the run is active."""
        drawn = self.tape.draws
        by_program = sum(n for name, n in drawn.items() if not name.startswith(_OWN_STREAMS))
        random = max(0, self.home.entropy_drawn - 1) + random_was_used()
        left = self._alarms_left or self._has_alarms()
        crews = sum(crew.decisions for crew in self.outside.crews())
        return by_program + random + left + self.home.kernel.decisions + crews

    def _has_alarms(self) -> bool:
        return any(not handle._cancelled for handle in self.home.loop._alarm_of.values())

    def drive(self, seconds: float) -> None:
        """In a plain (not async) test: let virtual time pass."""
        self._not_inside_a_loop("drive", "await world.clock.advance(seconds)")
        self.home.loop.run_until_complete(self.clock.advance(seconds))

    def drive_until_idle(self) -> None:
        """In a plain test: let time pass until nothing is scheduled any more."""
        self._not_inside_a_loop("drive_until_idle", "await world.clock.run_until_idle()")
        self.home.loop.run_until_complete(self.clock.run_until_idle())

    def _not_inside_a_loop(self, method: str, instead: str) -> None:
        if self.home.loop.is_running():
            raise UsageError(
                f"world.{method}() is for plain tests; in an async one write {instead}"
            )

    @contextlib.asynccontextmanager
    async def calm(self) -> AsyncIterator[None]:
        """No faults inside: for set-up and final checks."""
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
                self.acting_host.kernel.keep("failed", said, None)
            else:
                seen_ns = at.kernel.clock.ns
                self.trace.keep(Event(seen_ns, at.name, NOBODY, 0, "failed", said, None))

    def note_background(self, context: dict[str, Any]) -> None:
        """asyncio reports something that nobody caught."""
        if self.sealed or len(self.background) >= FAILURES_MAX:
            return
        if self.ending and isinstance(context.get("exception"), asyncio.CancelledError):
            return  # asyncio.streams of 3.11 and 3.12 trips over its own handler being cancelled
        if self._home_is_gone and isinstance(context.get("exception"), HUNG_UP):
            self.trace.note("background", "somebody hung up while all were being ended")
            return
        message = str(context.get("message") or "unhandled error in the event loop")
        message = _ADDRESS.sub("", message)  # asyncio names generators by their repr
        self.background.append(_background_error(context, message))
        self.trace.note("background", message.split("\n")[0])


_OWN_STREAMS = ("pace/", "schedule/", "threads/", "entropy/", "fault")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


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


_current: World | None = None
_owner: int | None = None


def enter(world: World) -> None:
    """This thread is inside `world` from here on."""
    global _current, _owner
    _current, _owner = world, get_ident()


def leave() -> None:
    """The run is over."""
    global _current, _owner
    _current = _owner = None


def world_or_none() -> World | None:
    """The world of this run, if this thread is inside one."""
    if _current is None or (get_ident() != _owner and get_ident() not in running):
        return None
    return _current


def current_world() -> World:
    """The world of this run."""
    world = world_or_none()
    if world is None:
        raise UsageError(
            "there is no world here: current_world() works inside foretold.run, foretold.explore "
            "and tests decorated with @foretold.simulate"
        )
    return world
