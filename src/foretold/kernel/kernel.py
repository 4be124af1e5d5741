"""A host's kernel: what all loops of one host share.

Clock, trace, actors, scheduler, pace and limits live here, so that a second loop on the same host
(`asyncio.run` called from a plain function) goes on in the same time and the same world.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from foretold.errors import LimitExceeded, UsageError
from foretold.kernel import real
from foretold.kernel.actors import Register, Stepper
from foretold.kernel.clock import NS, VirtualClock
from foretold.kernel.handles import AnyHandle
from foretold.kernel.pace import NEVER, Pace, Soon
from foretold.kernel.recorder import HoldRecorder
from foretold.kernel.schedulers import Scheduler, scheduler_named
from foretold.kernel.schedulers.by_key import KeyedScheduler
from foretold.kernel.schedulers.continued import ContinuedScheduler
from foretold.kernel.schedulers.delayed import DelayedScheduler
from foretold.kernel.schedulers.logged import ScheduleLog
from foretold.kernel.schedulers.profile import UNKNOWN, Profile, profile_of
from foretold.kernel.watchdog import took_too_long
from foretold.tape import CALLBACKS, Tape
from foretold.tape.streams import TapeRandom
from foretold.trace.events import Called, Event, SlowStep, Stalled
from foretold.trace.record import SLOW, Trace

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew

Order = Literal["asyncio", "any"]
HOUSEKEEPING_STEPS = 2_000
_VIRTUAL_S_MAX = 1e15  # as a limit: infinity
COLLECT_STEPS = 100_000
"""Garbage is collected at fixed steps only: a collection at a chance moment would end tasks that
nobody refers to at a chance moment."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Where a run is stopped. Each is an error, never a silent end."""

    steps: int = 10_000_000
    virtual_s: float = 30 * 24 * 3600
    wall_s: float | None = 300


class OtherHosts(Protocol):
    """The wire and the other hosts, as the loop that drives them sees them."""

    @property
    def others(self) -> Sequence[object]:
        """The other hosts."""

    def catch_up(self, loop: Any) -> None:
        """Before an iteration: let happen what lies earlier, and see what has arrived."""

    def wait(self, loop: Any) -> bool:
        """Nothing is ready here: go on elsewhere until something is. False if nothing ever is."""

    def deadlock(self, loop: Any) -> BaseException:
        """The error for a world in which nothing can run any more."""


class Kernel:
    """The state of one simulated host beneath its loops."""

    def __init__(
        self,
        host: str,
        tape: Tape,
        trace: Trace,
        clock: VirtualClock,
        *,
        order: Order = "asyncio",
        strategy: str = "fifo",
        profile: str = "",
        preempt: str = "",
        limits: RunLimits | None = None,
        on_background: Callable[[dict[str, Any]], None] | None = None,
        on_deadlock: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        if order not in ("asyncio", "any"):
            raise UsageError(f'order is "asyncio" or "any", got {order!r}')
        self.host = host
        self.tape = tape
        self.trace = trace
        self.clock = clock
        self.order: Order = order
        self.strategy = strategy
        self.known = Profile.parse(profile)
        """What earlier runs of the search have shown about the program."""
        self.preempt = preempt
        """Where threads may be interrupted besides at locks (`threads/preempt.py`)."""
        self.limits = limits or RunLimits()
        self.on_background = on_background
        self.on_deadlock = on_deadlock
        self.standing: Callable[[], str] = lambda: ""
        """Who stands where, for a run that does not end."""
        """Told before a deadlock is raised, which the program may catch."""
        self.register = Register()
        tape.cast[host] = self.register.by_name
        self.callbacks = Stepper(CALLBACKS)
        self.current: Stepper = self.callbacks
        self.arrivals = 0
        self.scheduler = self.make_scheduler() if order == "any" else None
        self._pool_of: object = None
        self._left_by: dict[object, list[AnyHandle]] = {}
        """By loop: who was ready on it when it stopped."""
        self.recorder = self.make_recorder()
        self.pace = Pace(host, tape, clock, self.known)
        self.settlers: deque[asyncio.Future[None]] = deque()
        """Those who wait until nothing is ready now."""
        self.idlers: deque[tuple[asyncio.Future[None], int]] = deque()
        """Those who wait until nothing is scheduled at all, and until when they do."""
        self.failed: list[weakref.ref[asyncio.Task[Any]]] = []
        """Tasks that ended with an exception."""
        self.crew: Crew | None = None
        """The threads of this host; None as long as there are none."""
        self.notes: dict[str, None] = {}
        """What is no failure and deserves a look all the same."""
        self.rivals: list[Any] = []
        """Not empty while a thread could run besides the one that does."""
        self.outside: OtherHosts | None = None
        """What goes on elsewhere; None as long as there is no elsewhere."""
        self.on_housekeeping: Callable[[], None] | None = None
        """Who counts this host's steps, roughly: called every `HOUSEKEEPING_STEPS`."""
        self.overlaps = 0
        """How often timers met with something else or were called off: what lateness can change."""
        self._begin_counting()

    def _begin_counting(self) -> None:
        """How far the run may go, in steps, virtual and real time."""
        virtual_s = min(self.limits.virtual_s, _VIRTUAL_S_MAX)
        self.virtual_ns_max = self.clock.ns + int(virtual_s * NS)
        self._wall_s_end = (
            None if self.limits.wall_s is None else (real.monotonic() + self.limits.wall_s)
        )
        self.steps = 0
        self.grant = 0
        """How many steps the loop may take until it calls `checkpoint`."""
        self._granted = 0
        self._slow_at = self.pace.steps_until_next()
        self._thread_slow_at = 0
        self._housekeeping_at = min(HOUSEKEEPING_STEPS, self.limits.steps + 1)
        self._grant_more()

    def make_recorder(self) -> HoldRecorder | None:
        """Who writes down the order of tasks, if the run is recorded."""
        recording = self.tape.recording and self.order == "any"
        return HoldRecorder(self.host, self.tape.written) if recording else None

    def make_scheduler(self) -> Scheduler:
        """Who decides about the order of tasks, for one loop at a time."""
        if self.tape.scheduled_by_key:
            holds = {
                (h.actor, h.step): h
                for h in self.tape.schedule.holds.values()
                if h.host == self.host
            }
            if self.tape.log is not None:
                log: ScheduleLog = self.tape.log
                return log.scheduler(self.host, holds, self.register, self.callbacks)
            if self.tape.delayed is not None and self.tape.delayed[0][0] == self.host:
                return DelayedScheduler(*self.tape.delayed, self.register, self.callbacks)
            recorded = self.tape.origin == "recorded"
            keyed = KeyedScheduler(holds, self.register, self.callbacks, recorded=recorded)
            keyed.clock = self.clock
            if not recorded:
                keyed.fair_after = self.limits.steps // 2  # as below
            if self.tape.continuation is None:
                return keyed
            return ContinuedScheduler(keyed, self.tape.continuation, self.clock, self.host)
        if self.tape.origin == "enumerated":
            # What is enumerated are the choices of the program; four billion seeds would not end.
            return scheduler_named("fifo", TapeRandom(0))
        seed = self.tape.stream("schedule", self.host).choose(1 << 32, "seed of the scheduler")
        scheduler = scheduler_named(self.strategy, TapeRandom(seed), self.known)
        # Starvation must never look like a program that does not end.
        scheduler.fair_after = min(scheduler.fair_after, self.limits.steps // 2)
        scheduler.clock = self.clock
        return scheduler

    def enter_loop(self, loop: object) -> None:
        """`loop` begins to run. What another one left in the pool waits until that runs again."""
        scheduler = self.scheduler
        if scheduler is None or loop is self._pool_of:
            return
        self._left_by[self._pool_of] = scheduler.drain()
        for handle in self._left_by.pop(loop, ()):
            scheduler.add(handle)
        self._pool_of = loop

    @property
    def decisions(self) -> int:
        """How many real choices there were about order and pace, of tasks and of threads."""
        of_tasks = self.scheduler.decisions if self.scheduler else 0
        of_threads = self.crew.decisions if self.crew is not None else 0
        looks = 0 if self.clock.exact else self.clock.reads
        return of_tasks + of_threads + self.overlaps + looks

    @property
    def broken_holds(self) -> int:
        """How many holds of the tape ended before what they waited for had happened."""
        of_threads = self.crew.pool.scheduler.broken_holds if self.crew is not None else 0
        return of_threads + (self.scheduler.broken_holds if self.scheduler else 0)

    def profile(self) -> Profile:
        """What this run has shown."""
        if self.scheduler is not None and self.scheduler.turned_fair:
            return UNKNOWN
        steps = [(actor.name, actor.steps) for actor in self.register.by_name.values()]
        return profile_of(self.scheduler.decisions if self.scheduler else None, steps)

    def _grant_more(self) -> None:
        self.grant = self._granted = min(self._slow_at, self._housekeeping_at) - self.steps

    def checkpoint(self) -> int:
        """The granted steps are used up: do what is due. Returns the next grant."""
        self.steps += self._granted
        if self.steps >= self._slow_at:
            ns = self.pace.after_step(self.current)
            self._slow_at = min(NEVER, self.steps + self.pace.steps_until_next())
            if ns:
                self.note_slow_step(ns)
        if self.steps >= self._housekeeping_at:
            self._keep_house()
        self._grant_more()
        return self.grant

    def _look_after(self, steps: int) -> None:
        """Between two steps: `after_step` is to be asked after so many, if not before."""
        if steps < NEVER:
            self.steps = self.steps_so_far(self.grant)
            self._slow_at = min(self._slow_at, self.steps + steps)
            self._grant_more()

    def steps_so_far(self, grant_left: int) -> int:
        return self.steps + self._granted - grant_left

    def note_slow_step(self, ns: int) -> None:
        self.trace.note(SLOW, self.current.name, str(ns))
        if self.trace.detail:
            self.keep(SlowStep, ns=ns)

    def wakes_late(self, after: Stepper, when_ns: int, soon: Soon) -> bool:
        """The host sleeps since the last step, one of `after`, and something wakes it at `when_ns`.
        Whether it sleeps on for a while; then the clock shows until when. `soon(when_ns, ns)` says
        how long after `when_ns` further things come, up to `ns`."""
        ns = self.pace.at_wake(after, when_ns, soon)
        self._look_after(self.pace.steps_until_aimed())
        if ns:
            self.jump_to(when_ns + ns)
            self.overlaps += 1
            self._note_late_wake(after, ns)
        return ns > 0

    def _note_late_wake(self, after: Stepper, ns: int) -> None:
        self.trace.note(SLOW, after.name, str(ns))
        if self.trace.detail:
            before, self.current = self.current, after
            self.keep(SlowStep, ns=ns, asleep=True, threads=after is not before)
            self.current = before

    def _keep_house(self) -> None:
        self._housekeeping_at = min(self.steps + HOUSEKEEPING_STEPS, self.limits.steps + 1)
        if self.on_housekeeping is not None:
            self.on_housekeeping()
        self.failed = [task for task in self.failed if task() is not None]
        if self.steps % COLLECT_STEPS < HOUSEKEEPING_STEPS:
            gc.collect()
        self._check_limits(self.steps)

    def check_thread_step(self, actor: Stepper, steps: int) -> int:
        """A thread has made its host's `steps`th step of a thread: do what is due. Returns after
        how many more to ask again."""
        if steps and steps >= self._thread_slow_at:
            ns = self.pace.after_step(actor)
            if ns:
                self.note_slow_step(ns)
        if steps >= self._thread_slow_at:
            self._thread_slow_at = min(NEVER, steps + self.pace.steps_until_next())
        self._check_limits(self.steps + steps)
        return min(self._thread_slow_at - steps, HOUSEKEEPING_STEPS)

    def _check_limits(self, steps: int) -> None:
        self.trace.flush()
        if steps > self.limits.steps:
            raise LimitExceeded(
                f"the run made {self.limits.steps:,} steps and has not ended. Is there an endless "
                f"loop? To allow more steps, write steps_max={self.limits.steps * 10:_}."
                f"\n{self.standing()}"
            )
        if self._wall_s_end is not None and real.monotonic() > self._wall_s_end:
            wall_s_max = self.limits.wall_s or 0
            raise took_too_long(wall_s_max, f" ({steps:,} steps)", self.standing())

    def _check_virtual_time(self, ns: int) -> None:
        if ns > self.virtual_ns_max:
            raise LimitExceeded(
                f"the run took more than {self.limits.virtual_s:,g} virtual seconds. Does a timer "
                "renew itself forever? To allow more time, write virtual_s_max=…"
            )

    def jump_to(self, ns: int) -> None:
        """Nothing is ready: let virtual time pass until something is due."""
        self._check_virtual_time(ns)
        if ns > self.clock.ns:
            self.clock.wait_until(ns)
            self.trace.jump(ns)

    def stall(self, ns: int) -> None:
        """Code blocks its whole host (`time.sleep` in a coroutine)."""
        self._check_virtual_time(self.clock.ns + ns)
        self.clock.wait_until(self.clock.ns + ns)
        self.trace.note("stall", self.current.name, str(ns))
        if self.trace.detail:
            self.keep(Stalled, ns=ns)

    def keep(self, kind: Callable[..., Event], **facts: Any) -> None:
        """Keep an event for the story: what the actor does whose turn it is."""
        actor = self.current
        self.trace.keep(kind(self.clock.ns, self.host, actor.name, actor.steps, **facts))

    def keep_call(self, call: str) -> None:
        """For the story: the task whose turn it is makes this call of the test. Its own name says
        nothing: it is that of a function of ours."""
        if self.trace.detail:
            self.keep(Called, call=call)
