"""What happens outside the loop that is running: the wire, and the other hosts.

Each host has its own time, which only moves forward; the loop that runs the test drives them all.
Before it takes an iteration, everything that lies earlier happens: segments arrive, other hosts
take their iterations, always the earliest first. So hosts run side by side as on real machines; a
step that takes long makes its own host late and no other.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from foretold.kernel.clock import to_ns
from foretold.kernel.computer import running
from foretold.kernel.threads.stacks import blocked_of
from foretold.kernel.threads.strand import IDLE, Strand
from foretold.kernel.waiting import deadlock_of
from foretold.world.agenda import NEVER, Agenda
from foretold.world.stillness import FIRST_LOOK_NS, Stillness, tasks_of

if TYPE_CHECKING:
    from foretold.kernel.kernel import Kernel
    from foretold.kernel.threads.crew import Crew
    from foretold.world.host import Host
    from foretold.world.hostloop import HostLoop
    from foretold.world.net.wire import Wire

TURN_NS = 10_000_000
"""So much of its time the threads of a host may use before all others are looked at again."""


class _Until(NamedTuple):
    """How far the others may go on before the driver has to look at something."""

    limit_ns: int
    loop: HostLoop | None = None
    """The driver's own, if it waits until it has something to do."""

    def is_not_reached(self) -> bool:
        loop = self.loop
        return loop is None or not (loop._ready or loop.selector.stirred)


class Outside:
    def __init__(self, wire: Wire, driver: Host) -> None:
        self.wire = wire
        self.driver = driver
        self.others: list[Host] = []
        self.agenda = Agenda()
        """Which of them is due next."""
        self.watchers: list[Callable[[Host], object]] = []
        """Told after everything that happens, with the host to which it did."""
        wire.at_first = self.open

    def open(self) -> None:
        """There is an elsewhere from now on: a host, something on the wire, a socket that a loop
        watches. Until then the loop that drives pays nothing for it."""
        self.driver.kernel.outside = self

    def join(self, host: Host) -> None:
        self.others.append(host)
        self.agenda.add(host)
        self.open()

    def watch(self, watcher: Callable[[Host], object]) -> None:
        """Tell this one from now on, after each turn of a host and whatever the wire brings."""
        self.watchers.append(watcher)
        self.open()

    def _look(self, host: Host) -> None:
        if self._looking:
            return  # a watcher waits, and lets things happen by that
        self._looking = True
        try:
            for watcher in tuple(self.watchers):
                watcher(host)
        finally:
            self._looking = False

    _looking = False

    def leave(self, host: Host) -> None:
        """This one acts on the wire alone: it has no loop to look after."""
        self.others.remove(host)
        self.agenda.remove(host)

    def catch_up(self, loop: HostLoop) -> None:
        """Before an iteration of `loop`: let happen what lies earlier, then see what arrived."""
        if loop.runner is not None or loop.host is not self.driver:
            if loop.selector.stirred:
                loop.poll()
            return
        if self.watchers:
            self._look(self.driver)
        now_ns = loop._clock.ns
        queue = self.wire.queue
        if self.others:
            self.happen_until(now_ns)
        elif queue and queue[0][0] <= now_ns:
            self.wire.happen(now_ns)
        if loop.selector.stirred:
            loop.poll()

    def happen_until(self, now_ns: int) -> None:
        """Let happen what lies before this instant, unless it is just being done: so that what the
        driver does next does not happen in the past of the others."""
        if self._busy:
            return
        while (following := self._next())[0] <= now_ns:
            self._until = _Until(now_ns)
            self._do(*following)
        self._until = None

    def wait(self, loop: HostLoop) -> bool:
        """`loop` has nothing to do: go on elsewhere until it has. False if nothing ever happens."""
        look_ns, stillness = loop._clock.ns + FIRST_LOOK_NS, None
        crew = loop.kernel.crew
        while not loop._ready and (crew is None or not crew.can_go_on()):
            alarm_ns = loop.next_alarm_ns()
            next_ns, host = self._next()
            if alarm_ns is None and host is None and self._is_over(next_ns):
                return False
            first_ns = next_ns if alarm_ns is None else min(next_ns, alarm_ns)
            idlers = loop.kernel.idlers
            if idlers and first_ns > idlers[0][1]:
                loop._give_up_on_rest()
                return True
            if alarm_ns is not None and alarm_ns < next_ns:
                if not loop.wakes_late(alarm_ns):
                    loop.kernel.jump_to(alarm_ns)
                    loop._collect_due_timers()
                return True
            loop.kernel._check_virtual_time(next_ns)
            if next_ns > look_ns and alarm_ns is None and not idlers:
                stillness = stillness or Stillness(self.driver, self.others, self.wire)
                look_ns = stillness.look(next_ns)
            if crew is None or not crew.threaded:
                limit_ns = min(NEVER - 1, loop.kernel.virtual_ns_max)
                if alarm_ns is not None:
                    limit_ns = min(limit_ns, alarm_ns)
                elif not idlers:
                    limit_ns = min(limit_ns, look_ns)
                if idlers:
                    limit_ns = min(limit_ns, idlers[0][1])
                self._until = _Until(limit_ns, loop)
            self._do(next_ns, host)
            self._until = None
            if loop.selector.stirred:
                self._follow(loop)
                if loop.wakes_late(loop._clock.ns):
                    return True  # it looks at what has arrived by then
                loop.poll()
        self._follow(loop)
        return True

    def carry_on(self, crew: Crew) -> Strand | None:
        """What the driver would do next, on the thread of a host that has made its iteration."""
        until, own = self._until, crew.computer
        if self.watchers:
            return None  # they are to see each turn
        try:
            while until is not None and until.is_not_reached():
                next_ns, host = self._next()
                if next_ns > until.limit_ns or crew.main.state is not IDLE:
                    return None
                if host is None:
                    if until.loop is not None and self._is_over(next_ns):
                        return None
                elif host.kernel.crew is None or self._has_modules(own, host):
                    return None
                self._now_ns = max(self._now_ns, next_ns)
                running[get_ident()] = self.driver
                # What happens is not this host's doing: its locks are no points of the thread.
                crew.main.quiet += 1
                try:
                    if host is None:
                        self.wire.happen(next_ns)
                        following = None
                    else:
                        following = self._begin_turn(host, crew.main)
                finally:
                    crew.main.quiet -= 1
                running[get_ident()] = own
                if following is not None:
                    return following
        except BaseException as error:
            crew.baton.thrown = error
        finally:
            running[get_ident()] = own
        return None

    def _begin_turn(self, host: Host, me: Strand | None = None) -> Strand | None:
        """Which thread of `host` goes on now. None: none can, or it sleeps on for a while, and its
        turn comes at the time at which it wakes."""
        if host.wakes_late(self._now_ns):
            return None
        clock, crew = host.kernel.clock, host.crew
        clock.wait_until(self._now_ns)
        self.agenda.stir(host)
        if crew.threaded:
            crew.until_ns = self._next_besides(host, clock.ns)
        return crew.begin_turn(me or crew.baton.driver)

    def _has_modules(self, *hosts: Any) -> bool:
        """Whether one of them has copies of modules, which the driver puts in their place."""
        return any(host.modules.is_isolated for host in hosts)

    def block(self, host: Host, ready: Callable[[], bool], timeout_s: float | None) -> None:
        """A blocking call stalls `host`, which is the one that drives: nothing of it runs, and the
        rest of the world goes on until the call can return."""
        clock = host.kernel.clock
        end_ns = NEVER if timeout_s is None else clock.ns + to_ns(timeout_s)
        look_ns, stillness = clock.ns + FIRST_LOOK_NS, None
        while not ready():
            next_ns, other = self._next()
            if next_ns > end_ns:
                host.kernel.jump_to(end_ns)
                raise TimeoutError("timed out")
            if next_ns == NEVER or (other is None and timeout_s is None and self._is_over(next_ns)):
                error = self.deadlock(host.loop)
                self.fail(error)
                raise error
            if next_ns > look_ns and timeout_s is None:
                stillness = stillness or Stillness(self.driver, self.others, self.wire)
                look_ns = stillness.look(next_ns)
            self._do(next_ns, other)
            host.kernel.jump_to(max(clock.ns, self._now_ns))

    # --- for threads that can't go on ------------------------------------------------------------

    def happen_before(self, kernel: Kernel, until_ns: int) -> bool:
        """Let the next thing happen elsewhere, if one comes before `until_ns`."""
        if not self.others and not self.wire.queue:
            return False
        next_ns, other = self._next()
        if next_ns >= min(until_ns, NEVER):
            return False
        if other is None and until_ns >= NEVER and self._is_over(next_ns):
            return False
        self._do(next_ns, other)
        kernel.jump_to(max(kernel.clock.ns, self._now_ns))
        return True

    def is_due(self, host: Host, now_ns: int) -> bool:
        """Whether something lies before this instant, on the wire or on another host than `host`,
        which is not the one that drives."""
        wire_ns = self.wire.next_ns()
        if wire_ns is not None and wire_ns <= now_ns:
            return True
        if self.agenda.first(besides=host)[0] <= now_ns:
            return True
        driver = self.driver
        crew = driver.kernel.crew
        ready = any(loop._ready for loop in driver.loops) or (crew is not None and crew.can_go_on())
        if ready and driver.kernel.clock.ns <= now_ns:
            return True
        alarms = [loop.next_alarm_ns() for loop in driver.loops if not loop.is_closed()]
        return any(alarm_ns is not None and alarm_ns <= now_ns for alarm_ns in alarms)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All tasks of the world that are not done."""
        return tasks_of([self.driver, *self.others])

    def crews(self) -> list[Crew]:
        """The threads of all hosts that have some."""
        found = (host.kernel.crew for host in (self.driver, *self.others))
        return [crew for crew in found if crew is not None]

    def deadlock(self, loop: HostLoop) -> BaseException:
        """Nothing will ever happen: list who waits, on all hosts."""
        name = "the world" if self.others else self.driver.name
        return deadlock_of(name, self.tasks(), blocked_of(self.crews()), self.in_services())

    def fail(self, error: BaseException) -> None:
        """The run has failed, also if the program catches what is raised: in production it would
        stand still there."""
        self.driver.world.fail(error)

    def in_services(self) -> list[str]:
        """For a deadlock: who waits inside of servers that are no Python programs."""
        hosts = self.driver.world.hosts.values()
        return [line for h in hosts if h.appliance is not None for line in h.appliance.waiting()]

    def _follow(self, loop: HostLoop) -> None:
        """An idle host's clock shows the time at which something woke it."""
        loop.kernel.jump_to(max(loop._clock.ns, self._now_ns))

    @property
    def now_ns(self) -> int:
        """The latest instant that has come, wherever."""
        return max(self._now_ns, self.driver.kernel.clock.ns)

    _now_ns = 0
    _until: _Until | None = None
    _busy = False
    """Another host is running."""

    def _next(self) -> tuple[int, Host | None]:
        """The earliest thing to come: when, and on which host. None: on the wire, which comes
        first at equal times."""
        wire_ns = self.wire.next_ns()
        host_ns, host = self.agenda.first()
        return (host_ns, host) if wire_ns is None or host_ns < wire_ns else (wire_ns, None)

    def _next_besides(self, host: Host, now_ns: int) -> int:
        """When somebody else is due; soon in any case: threads could be busy for ever."""
        wire_ns = self.wire.next_ns()
        first_ns = now_ns + TURN_NS if wire_ns is None else min(wire_ns, now_ns + TURN_NS)
        first_ns = min(first_ns, self.agenda.first(besides=host)[0])
        if host is not self.driver:
            first_ns = min(first_ns, self.driver.next_ns())
        return max(first_ns, now_ns + 1)

    def _is_over(self, next_ns: int) -> bool:
        """Whether nothing will come of all that is still to come."""
        return next_ns == NEVER or (self.wire.is_vain() and self.agenda.first()[0] == NEVER)

    def _do(self, when_ns: int, host: Host | None) -> None:
        """What `_next` has found happens. A host that was woken from outside has an old clock: it
        goes on at the instant at which it was woken."""
        if when_ns > self._now_ns:
            self._now_ns = when_ns
        if host is None:
            self.wire.happen(when_ns)
        else:
            self._run_host(host)
        if self.watchers:
            self._look(host or self.driver)

    def _run_host(self, host: Host) -> None:
        """One turn of another host, at its own time, on its own threads."""
        former_busy, self._busy = self._busy, True
        try:
            chosen = self._begin_turn(host)
            if chosen is not None:
                baton = chosen.crew.baton
                with host.modules.in_place():
                    baton.hand(baton.driver, chosen)
        finally:
            self._busy = former_busy
