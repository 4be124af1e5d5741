"""A host: one simulated computer with a loop of its own.

To the patched standard library it is the `Computer`: whoever reads a clock, sleeps or asks for
randomness inside a run is answered here.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from foretold import handles
from foretold.arguments import signature_of
from foretold.errors import EscapedWorld, UsageError
from foretold.kernel.clock import to_ns
from foretold.kernel.computer import Answers, running
from foretold.kernel.hashes import tasks_in
from foretold.kernel.kernel import Kernel
from foretold.kernel.threads import start
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.crew import Crew
from foretold.kernel.threads.strand import BLOCKED, ENDED, IDLE, NEVER_NS, READY, Strand
from foretold.tape import Stream
from foretold.world import serving
from foretold.world.agenda import NEVER
from foretold.world.answers import answer_of
from foretold.world.clock import WorldClock
from foretold.world.disk.disk import Disk
from foretold.world.disk.nodes import File
from foretold.world.ending import GRACE_S, ProcessEnding, begin_ending, check_grace, one_has_ended
from foretold.world.environment import Environment
from foretold.world.hostloop import HostLoop
from foretold.world.hosttask import HostTask, wake
from foretold.world.identity import PID, Identity
from foretold.world.mainthread import call_plain, live
from foretold.world.modules import OwnModules
from foretold.world.net.answers import IGNORED_SIGNALS, end_by_signal
from foretold.world.net.descriptors import Descriptors
from foretold.world.net.stack import Stack
from foretold.world.omens import BOUND
from foretold.world.services import Appliance

if TYPE_CHECKING:
    from foretold.world.world import World

PORT_MAX = 65_535
_NODE = 0x02_00_5E_00_00_00  # locally administered: no real card has it


@handles.shown_as(handles.Host)
class Host:
    """A host with all that the engine needs of it. `handles.Host` says what is for users."""

    def __init__(self, world: World, name: str, kernel: Kernel) -> None:
        self.world = world
        self.name = name
        self.kernel = kernel
        self.descriptors = Descriptors()
        self.environment = Environment()
        """Its environment variables, `os.environ` to its programs."""
        self.signals: dict[int, Any] = {}
        self.in_plain_main = False
        """Its main thread is in a plain main, and its loop can do nothing."""
        self.stack = world.network.add_host(name, kernel)
        self.loop = HostLoop(self)
        self.loops = [self.loop]
        self.clock = WorldClock(self)
        self.paused = False
        self.turns = 0
        """How often its process was begun, ended, paused or resumed: whoever wants to undo what it
        did sees whether somebody else has come between."""
        self.programs: list[Callable[..., Any] | str] = []
        """The mains of this process, or of the last one, that can be started again, in order."""
        self.modules = OwnModules(())
        self._entropy = world.tape.stream("entropy", name)
        self.entropy_drawn = 0
        """How often the program asked for randomness. (The run's start asks once itself.)"""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.mains: list[HostTask] = []
        self.ending: ProcessEnding | None = None
        """How far its process is on its way out, if it was asked to end."""
        self.buried: list[Any] = []
        """What dead processes were doing. If it were collected now, their `finally` would run."""
        self._choices: Stream | None = None
        self._disk: Disk | None = None
        self.calls = Answers(functools.partial(answer_of, self))
        """Who answers the calls of its process."""
        self.appliance: Appliance | None = None
        """What runs here if it is no Python program."""
        self.reserve: Callable[..., Any] | str | None = None
        """The main that it waits to be started with, if it stands by."""

    def __repr__(self) -> str:
        return f"<host {self.name}>"

    @property
    def main(self) -> Callable[..., Any] | str | None:
        """The main that was started last, of those that can be started again."""
        return self.programs[-1] if self.programs else None

    @property
    def is_alive(self) -> bool:
        """Its process has not ended, or has not begun."""
        return bool(self.loops) and not self.stack.dead

    @property
    def ip(self) -> str:
        return self.stack.ipv4

    @property
    def disk(self) -> Disk:
        if self._disk is None:
            self._disk = Disk(self)
            self.world.comes_into_use("disk")
        return self._disk

    def has_file(self, path: str) -> bool:
        """Whether a program has made this file; who asks makes no disk."""
        if self._disk is None:
            return False
        process = self._disk.process
        return isinstance(process.fs.plain_node(path, process.cwd), File)

    @functools.cached_property
    def identity(self) -> Identity:
        """What its process is to the system: its user, its numbers, its limits."""
        return Identity(self)

    @property
    def has_disk(self) -> bool:
        """Whether anything on this host has used a file yet."""
        return self._disk is not None

    def network_choices(self) -> Stream:
        """Choices of this host's kernel about what arrives first."""
        if self._choices is None:
            self._choices = self.world.tape.stream("net", self.name)
        return self._choices

    def another_loop(self) -> HostLoop:
        """A loop for whoever calls `asyncio.run` inside the run."""
        loop = HostLoop(self)
        self.loops.append(loop)
        return loop

    def keep_task(self, task: asyncio.Task[Any]) -> None:
        """Keep a strong reference until the task has ended, as asyncio asks its users to."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- its life --------------------------------------------------------------------------------

    def start(self, main: Any) -> HostTask:
        if self.stack.dead:
            raise UsageError(f"{self.name} has crashed: host.restart() starts it again")
        if not self.loops:
            self._begin_process()
        self.wake()
        self.reserve = None
        program = main
        if isinstance(main, str):
            with self._acting():
                main = self.modules.find(main)
        if inspect.iscoroutine(main):
            coro = main
        else:
            _check_program(main)
            coro = self._begin(main)
            self.programs.append(program)
        task = self.loop.create_task(coro)
        started = HostTask(self, task)
        self.mains.append(started)
        self.world.host_started(self)
        return started

    def standby(self, main: Any) -> None:
        self._not_the_tests_own("standby")
        if not isinstance(main, str):
            _check_program(main)
        if self.mains or self.programs:
            raise UsageError(f"{self.name} was started already: standby is for hosts that were not")
        self.reserve = main

    def _begin(self, main: Callable[[], Any]) -> Any:
        """A coroutine that is the process' main."""
        if inspect.iscoroutinefunction(main):
            with self._acting(), self.modules.in_place():
                return main()
        coro: Any = call_plain(main, self.loop)
        name = getattr(main, "__name__", None)
        coro.__name__ = name if isinstance(name, str) else "main"
        return coro

    @contextmanager
    def _acting(self) -> Iterator[None]:
        """What a program does before its first step, such as importing, it does on this host."""
        ident = get_ident()
        former = running.get(ident)
        if former is not None:
            running[ident] = self
        try:
            yield
        finally:
            if former is not None:
                running[ident] = former

    def wake(self) -> None:
        """Something happens to this host now: its clock is not behind that."""
        self.kernel.clock.wait_until(self.world.now_ns())
        self.stir()

    def stir(self) -> None:
        """It may have something to do sooner than it said."""
        self.world.outside.agenda.stir(self)

    def next_ns(self) -> int:
        """When this host next has something to do, in its own time."""
        if self.paused or self.stack.dead:
            return NEVER
        earliest, crew = NEVER, self.kernel.crew
        if crew is not None and (crew.threaded or crew.main.state is not IDLE):
            earliest = min(earliest, crew.next_ns())
            if crew.main.state is not IDLE:
                return earliest
        for loop in self.loops:
            if loop.is_closed() or loop.runner is not None:
                continue
            scheduler = loop.scheduler
            if loop._ready or loop.selector.stirred or (scheduler is not None and scheduler.size):
                return self.kernel.clock.ns
            alarm_ns = loop.first_alarm_ns()  # its threads were looked at above
            if alarm_ns < earliest:
                earliest = alarm_ns
        return max(earliest, self.kernel.clock.ns) if earliest < NEVER else NEVER

    def wakes_late(self, now_ns: int) -> bool:
        """Something wakes this host, which is not the one that drives. Whether it sleeps on for a
        while; then its clock shows until when."""
        crew = self.kernel.crew
        if not self.kernel.pace.can_wake_late or len(self.loops) != 1 or crew is None:
            return False
        loop = self.loops[0]
        if crew.threaded or crew.main.state is not IDLE or loop.is_closed() or loop.has_ready():
            return False
        return loop.wakes_late(max(now_ns, self.kernel.clock.ns))

    async def stop(self, grace_s: float = GRACE_S) -> bool:
        self._not_the_tests_own("stop")
        check_grace(grace_s)
        self.turns += 1
        if self.stack.dead or not self.loops:
            return True
        self.world.note_fault(f"stop {self.name}", self.name)
        ending = begin_ending(self, grace_s)
        await one_has_ended([ending])
        return ending.by_itself

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.kill()
        elif number == signal.SIGSTOP:
            self.pause()
        else:
            if number == signal.SIGCONT and self.paused:
                self.resume()
            self.deliver(number)

    def deliver(self, number: int) -> None:
        """A signal that a program can handle reaches the process, if there is one."""
        handler = self.signals.get(number, signal.SIG_DFL)
        is_default = handler in (signal.SIG_DFL, signal.default_int_handler, None)
        if not self.loops or handler == signal.SIG_IGN:
            return
        if is_default and number in IGNORED_SIGNALS:
            return
        self.wake()
        crew = self.kernel.crew
        if crew is not None and self._is_stuck(crew.main):
            end = functools.partial(end_by_signal, self.name)
            crew.interrupt(functools.partial(end if is_default else handler, number, None))
        elif not is_default:
            self.loop.call_soon(handler, number, None)
        else:
            for started in self.mains:
                started.task.cancel()

    def _is_stuck(self, main: Strand) -> bool:
        """Whether its main thread is in a blocking call, so that its loop can't handle signals."""
        return main.state is BLOCKED or (self.in_plain_main and main.state is READY)

    def kill(self) -> None:
        self._not_the_tests_own("kill")
        self.world.note_fault(f"kill {self.name}", self.name)
        self.die()
        self.world.was_killed(self)

    def die(self) -> None:
        """The process is gone, and its kernel closes its sockets."""
        self.turns += 1
        self._bury()
        self.stack.close_all()

    def crash(self) -> None:
        self._not_the_tests_own("crash")
        self.turns += 1
        self.world.note_fault(f"crash {self.name}", self.name)
        self._bury()
        self.stack.lose_power()
        if self._disk is not None:
            self._disk.lose_power()
        self.world.was_killed(self)

    def restart(self, main: Any = None) -> HostTask:
        self._not_the_tests_own("restart")
        programs = [main] if main is not None else self.programs
        if self.appliance is not None:
            return self._restart_appliance(self.appliance)
        if not programs:
            raise UsageError(f"{self.name} has no main to restart with: restart(main=…)")
        if not self.loop.is_closed() and self.mains:
            self.kill()
        self._boot()
        return [self.start(program) for program in programs][-1]

    def _restart_appliance(self, appliance: Appliance) -> HostTask:
        if self.loops:
            self.kill()
        self._boot()
        appliance.begin_again()
        # It has no main; whoever awaits the answer does so on the test's own loop.
        return HostTask(self, self.world.home.loop.create_task(asyncio.sleep(0)))

    def _boot(self) -> None:
        self.world.note_fault(f"restart {self.name}", self.name, is_over=True)
        if self.stack.dead:
            self.stack.regain_power(self.world.now_ns())
        self.wake()
        self._begin_process()

    def _begin_process(self) -> None:
        self.turns += 1
        self.programs = []
        self._end_files()
        self.signals.clear()
        self.environment.begin_process()
        self.modules.forget()
        self.descriptors = Descriptors()
        self.calls.clear()
        vars(self).pop("identity", None)
        self.loop = HostLoop(self)
        self.loops = [self.loop]
        self.mains = []
        self.stir()

    def _end_files(self) -> None:
        if self._disk is not None:
            self._disk.end_process()

    def pause(self) -> None:
        self._not_the_tests_own("pause")
        if self.loops:
            self.turns += 1
            self.paused = True
            self.world.note_fault(f"pause {self.name}", self.name)

    def resume(self) -> None:
        if self.paused:
            self.turns += 1
            self.paused = False
            self.wake()
            self.world.note_fault(f"resume {self.name}", self.name, is_over=True)
            if self.appliance is not None:
                self.appliance.resumed()

    def _not_the_tests_own(self, verb: str) -> None:
        if self is self.world.home:
            raise UsageError(
                f"{verb}: the test itself runs on host {self.name} and would end with it. "
                f'Start the program on another host:\n  right: api = world.host("api"); '
                f"api.start(main); api.{verb}()"
            )

    def _bury(self) -> None:
        """What the process was doing is kept, unseen, until the run is over."""
        self.paused = False
        if self.appliance is not None:
            self.appliance.died()
        self.world.graves.extend(self.loops)
        self.descriptors.process_is_over = True
        self._end_files()
        if self.kernel.crew is not None and self is not self.world.home:
            self.world.dead_threads += self.kernel.crew.die()
        if self.kernel.scheduler is not None:
            left = self.kernel.scheduler.drain()
            self.buried += left
            if self.kernel.recorder is not None:
                for handle in left:
                    self.kernel.recorder.never_picked(handle.arrival, handle.actor)
        for loop in self.loops:
            loop.abandon()
            self.buried += tasks_in(loop)
            for handle in loop._ready:  # it may be one of them that brings the end about
                handle.cancel()
        for started in self.mains:
            started.died()
        self.mains = []
        self.loops = []
        self.kernel.failed = []
        ending, self.ending = self.ending, None
        if ending is not None:
            ending.process_is_gone()

    async def listening(self, port: int) -> None:
        _check_port(port)
        if self.stack.is_listening(port):
            return
        loop = asyncio.get_running_loop()
        found: asyncio.Future[None] = loop.create_future()

        def told(stack: Stack) -> None:
            if stack is self.stack and stack.is_listening(port) and not found.done():
                wake(found)

        self.world.network.on_listening.append(told)
        try:
            await found
        finally:
            self.world.network.on_listening.remove(told)

    def serve(self, app: Any, port: int = 8000, **config: Any) -> HostTask:
        settings = {"host": "0.0.0.0", "port": port, "log_config": None, "lifespan": "auto"}

        def serve() -> Any:
            found = self.modules.find(app) if isinstance(app, str) else app
            return serving.serve(self, found, {**settings, **config})

        return self.start(serve)

    # --- its threads -----------------------------------------------------------------------------

    @property
    def crew(self) -> Crew:
        if self.kernel.crew is None:
            world = self.world
            baton = None if self is world.home else world.home.crew.baton
            crew = Crew(self.kernel, self, world.outside, baton)
            crew.main_has_work = self.has_work
            if baton is not None:
                start.begin_main(crew, functools.partial(live, self))
        assert self.kernel.crew is not None, "a crew enters itself there"
        return self.kernel.crew

    def has_work(self) -> bool:
        """Whether a loop of this host has something to do now."""
        return any(
            loop.has_work() or (loop.scheduler is not None and loop.scheduler.size)
            for loop in self.loops
            if loop.runner is None and not loop.is_closed()
        )

    def block_until(self, ready: Callable[[], bool], timeout_s: float | None) -> None:
        """A blocking call waits: the calling thread stands still, all others go on."""
        strand = strand_of(get_ident())
        if strand is not None:
            crew = strand.crew
            end_ns = NEVER_NS if timeout_s is None else crew.clock.ns + to_ns(timeout_s)
            if not ready() and not crew.block(strand, "a socket or a file", ready, end_ns):
                raise TimeoutError("timed out")
            return
        self.world.outside.block(self, ready, timeout_s)

    def catch_up(self) -> None:
        """What happens outside by now has happened, for who looks without waiting."""
        strand = strand_of(get_ident())
        if strand is not None:
            strand.crew.point(strand)
        if strand is not None and strand is not strand.crew.baton.driver:
            return  # the driver lets it happen, when it is its turn
        if self is self.world.outside.driver:
            self.world.outside.happen_until(self.kernel.clock.ns)

    def give_way(self, steps: int = 0) -> None:
        """The calling thread is about to change its disk. What lies earlier elsewhere happens
        first, the death of this host perhaps: so it may come between any two changes. If the call
        takes so many steps' time, the tape may let another thread of this host go on meanwhile."""
        strand, crew = strand_of(get_ident()), self.kernel.crew
        if strand is None or crew is not strand.crew or strand.quiet or crew.baton.closing:
            return
        until_ns = crew.clock.ns + steps * crew.clock.step_ns
        if self is not self.world.home and self.world.outside.is_due(self, until_ns):
            crew.block(strand, "the disk", deadline_ns=until_ns + 1)
        elif steps:
            crew.point(strand)

    # The Computer that the patched standard library asks

    def wall_ns(self) -> int:
        if self.kernel.crew is not None:
            self.spin()
        return self.kernel.clock.read_wall_ns()

    def monotonic_ns(self) -> int:
        if self.kernel.crew is not None:
            self.spin()
        return self.kernel.clock.read_monotonic_ns()

    def spin(self) -> None:
        """A thread asks for something that costs nothing, perhaps in a loop."""
        if self.kernel.crew is not None:
            strand = strand_of(get_ident())
            if strand is not None and strand.crew.threaded:
                strand.crew.spin(strand)

    def cpu_ns(self) -> int:
        return self.kernel.clock.read_cpu_ns()

    def sleep_ns(self, ns: int) -> None:
        strand = strand_of(get_ident())
        if strand is not None and strand.state is ENDED:
            self.kernel.stall(ns)  # its last objects are being freed
            return
        if strand is not None and (self is not self.world.home or strand.crew.living()):
            crew = strand.crew
            crew.block(strand, "the end of time.sleep", deadline_ns=crew.clock.ns + ns)
            return
        outside = self.world.outside
        if self is outside.driver:
            outside.happen_until(self.kernel.clock.ns + ns)
        self.kernel.stall(ns)  # nobody else of this host could use the time

    def entropy(self, n: int) -> bytes:
        if self.kernel.crew is not None:
            self.spin()
        bound = BOUND.get()
        source = self._entropy
        if bound is not None and bound.party:  # the same in each order of the calls
            source = self.world.tape.stream("entropy", self.name, bound.party + bound.salt)
        data = source.bytes(n, "entropy")
        self.entropy_drawn += 1
        self.kernel.trace.note(f"entropy {n}")
        return data

    def pid(self) -> int:
        return PID

    def node(self) -> int:
        return _NODE

    is_importing = False

    def answer(self, call: str) -> Callable[..., Any] | None:
        return self.calls[call]

    def escaped(self, call: str, why: str, instead: str) -> NoReturn:
        error = EscapedWorld(f"{call} would leave the simulated world.\n{why}\nInstead: {instead}")
        self.world.fail(error)
        raise error


def _named(main: Any) -> str:
    """Without the address that a repr has: the message is part of the run."""
    return getattr(main, "__qualname__", None) or type(main).__qualname__


def _check_port(port: object) -> None:
    """One that somebody can listen on."""
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
        raise UsageError(
            f"a port is a whole number from 1 to {PORT_MAX}, such as host.listening(8000); "
            f"got {port!r}"
        )


def _check_program(main: Any) -> None:
    if not callable(main):
        raise UsageError(
            f"host.start needs an async function, its name or a coroutine; got {main!r}.\n"
            '  right: host.start(serve), host.start("myapp.run:main"), host.start(serve(8000))'
        )
    try:
        signature = signature_of(main)
    except (TypeError, ValueError):
        return  # a builtin that does not say what it wants
    try:
        signature.bind()
    except TypeError as error:
        raise UsageError(
            f"host.start calls {_named(main)} without arguments: {error}.\n"
            "  right: host.start(serve(8000)), host.start(functools.partial(serve, 8000))"
        ) from None
