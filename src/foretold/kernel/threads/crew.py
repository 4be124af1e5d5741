"""The threads of one host: which of them goes on, who waits, and for how long.

A thread comes to a *point* before it takes a lock and after it gives one back; there the tape may
let another one go on. It *blocks* where it can't go on itself: at a lock that is taken, in
`time.sleep`, at a socket, in `join`. All of this runs on whichever thread has the baton; only what
concerns the whole world (the wire, other hosts, a jump of time) is left to the driver.

Each step of a thread costs its host's clock what a step of a task costs. Time never jumps while a
thread could run.
"""

from __future__ import annotations

import _imp
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from foretold.errors import ForetoldError
from foretold.kernel import real
from foretold.kernel.actors import Stepper
from foretold.kernel.threads.baton import Baton, StrandEnded, strand_of
from foretold.kernel.threads.pool import StrandPool
from foretold.kernel.threads.stacks import blocked_of, frames_of, free_locks_of
from foretold.kernel.threads.strand import (
    BLOCKED,
    DEAD,
    ENDED,
    IDLE,
    LOST,
    NEVER_NS,
    READY,
    RUNNING,
    Strand,
)
from foretold.kernel.waiting import deadlock_of, is_library, users_callers, users_place
from foretold.trace import RETURNED, TaskOutcome, raised
from foretold.trace.events import Ended, Resumed

if TYPE_CHECKING:
    from foretold.kernel.computer import Computer
    from foretold.kernel.kernel import Kernel

SLICE_STEPS = 500
"""So many steps a thread may take in calm order while others wait: some milliseconds, as in
CPython. Without it a thread that spins on a lock would keep all others out for ever."""
LOOK_STEPS = 200
"""After so many steps those who wait are looked at, and the rest of the world."""
REFUSALS_MAX = 1_000
MAIN_THREAD = "MainThread"


class RestOfWorld(Protocol):
    """The rest of the world, while the driver's own code is blocked."""

    def happen_before(self, kernel: Kernel, until_ns: int) -> bool:
        """Let the next thing happen, if one comes before `until_ns`. False if none does."""

    def carry_on(self, crew: Crew) -> Strand | None:
        """On the main thread of `crew`, which has made an iteration: let happen what comes next, as
        the driver would. Gives the thread that goes on, or None: the driver does."""

    def fail(self, error: BaseException) -> None:
        """The run has failed, whatever becomes of `error` in the program."""

    def in_services(self) -> list[str]:
        """For a deadlock: who waits inside of servers that are no Python programs."""

    def tasks(self) -> list[Any]:
        """All tasks of the world that are not done."""

    def crews(self) -> list[Crew]:
        """All crews of the world."""


class Crew:
    """The threads of one host."""

    def __init__(
        self, kernel: Kernel, computer: Computer, elsewhere: RestOfWorld, baton: Baton | None = None
    ) -> None:
        self.kernel = kernel
        self.computer = computer
        self.elsewhere = elsewhere
        self.clock = kernel.clock
        self.pool = StrandPool(kernel)
        self.main = Strand(self, Stepper(MAIN_THREAD), is_main=True)
        self.main.current = kernel.callbacks
        if baton is None:
            self.main.state, self.main.ident = RUNNING, get_ident()
            baton = Baton(self.main)
        self.baton = baton
        self.strands: list[Strand] = []
        """All that were ever started, but for the main thread."""
        self.blocked: dict[Strand, None] = {}
        self.threaded = False
        """Whether a thread was ever started here. Until then there is nothing to choose."""
        self.main_has_work: Callable[[], bool] = _never
        self.steps = 0
        self._slice_left = SLICE_STEPS
        self._last: Strand | None = None
        """Who was picked last; whoever is picked again and again has one slice."""
        self._last_step = self.main.actor
        """Which thread has begun a step last."""
        self._loops_last_step: tuple[Stepper, int] | None = None
        """What the driver's loop had done when it last let others go on."""
        self._asked_after: tuple[Stepper, int] | None = None
        """The step of a thread after which it was last asked whether the machine is late."""
        self._until_check = 0
        self._look_left = LOOK_STEPS
        self._due_ns = NEVER_NS
        """When the first of those who wait gives up, or earlier."""
        self.until_ns = NEVER_NS
        """When something else is due, or the others have to be looked at: not beyond."""
        kernel.crew = self

    @property
    def decisions(self) -> int:
        """How often there was more than one thread to go on."""
        found: int = self.pool.scheduler.decisions
        return found

    def begin_threads(self) -> None:
        """The first thread of this host is about to start."""
        kernel, main = self.kernel, self.main
        self.threaded = True
        if kernel.tape.log is not None:
            kernel.tape.log.threads = True
        main.actor = kernel.register.enrol(MAIN_THREAD)
        self._until_check = kernel.check_thread_step(main.actor, 0)

    # --- points ----------------------------------------------------------------------------------

    def point(self, me: Strand) -> None:
        """`me` could be interrupted here."""
        if me.signals and not me.in_c and not me.quiet:
            self.handle_signals(me)  # those that came while it was in a C library
        if not self.threaded or me.quiet or self.baton.closing or _imp.lock_held():
            return
        if me.state is ENDED:
            return  # its last objects are being freed, and the next one waits for that
        self._slice_left -= 1
        self._look_left -= 1
        self._stir_main()
        me.current = self.kernel.current
        in_slice = self._slice_left > 0
        looks = self._look_left <= 0 or self.clock.ns >= min(self.until_ns, self._due_ns)
        if not self.pool.rivals and in_slice and not looks:
            self._begin(me)
            return
        self._enter_pool(me, front=in_slice)
        if looks:
            self._look_around(me)
        elif in_slice or self._is_main_ready():
            self._go_on(me, self._choose(me))
        else:
            self._slice_left = SLICE_STEPS
            self._to_driver(me)

    def spin(self, me: Strand) -> None:
        """`me` does what a program may do in a loop while it waits for another thread. That is no
        point, but others get their turn now and then."""
        self._look_left -= 1
        if self._look_left <= 0:
            self.point(me)

    def _look_around(self, me: Strand) -> None:
        """Threads that wait for a time, and the rest of the world, have waited long enough, however
        busy those are that can go on. `me` could go on too."""
        self._wake_waiters()
        if me is self.baton.driver or not self._is_main_ready():
            self._look_left = LOOK_STEPS
            self._to_driver(me)
        else:  # the driver itself does the rest, when it is picked
            self._go_on(me, self._choose(me))

    def _is_main_ready(self) -> bool:
        return self.main.state is READY and self.main is self.baton.driver

    def _go_on(self, me: Strand, chosen: Strand) -> None:
        if chosen is me:
            return
        self.baton.hand(me, chosen)
        if me.state is not RUNNING:
            self._dispatch(me)
        if me.signals and me.waits_for is None and not me.in_c:
            self.handle_signals(me)  # where it waits, `block` does it

    def _to_driver(self, me: Strand) -> None:
        """Nobody of this host goes on, or others have waited long enough."""
        if me is self.baton.driver:
            self._dispatch(me)
        else:
            self.baton.hand(me, self.baton.driver)

    def _enter_pool(self, strand: Strand, *, front: bool = False) -> None:
        strand.state = READY
        if not self.pool.rivals:
            self.baton.holder.lines = 0  # from here on its lines matter to somebody
        self.pool.add(strand, self.clock.ns, front=front)

    def _choose(self, me: Strand) -> Strand:
        """Pick from the pool, and let the one that was picked begin its step."""
        try:
            chosen = self.pool.pick()
            if chosen is not self._last:
                self._last, self._slice_left = chosen, SLICE_STEPS
            self._begin(chosen)
            self.pool.note(chosen)
        except ForetoldError as error:  # a limit
            self.baton.fail(me, error)
            raise  # in the driver only
        return chosen

    def _begin(self, strand: Strand) -> None:
        actor, kernel = strand.actor, self.kernel
        strand.state = RUNNING
        self._last_step = actor
        actor.steps += 1
        kernel.trace.pending.append(actor.name)
        self.clock.ns += self.clock.step_ns
        self.steps += 1
        self._until_check -= 1
        kernel.current = strand.current
        if kernel.trace.detail:
            self._keep_step(strand)
        if not self._until_check:
            self._until_check = kernel.check_thread_step(actor, self.steps)

    def _keep_step(self, strand: Strand) -> None:
        actor, trace, host = strand.actor, self.kernel.trace, self.kernel.host
        stack = frames_of(strand)
        # Of a thread that stands in no line of the user's, locks of libraries tell nothing.
        own = any(not is_library(place.file) for place in stack)
        place, callers, now_ns = (
            users_place(stack) if own else None,
            users_callers(stack),
            self.clock.ns,
        )
        trace.keep(Resumed(now_ns, host, actor.name, actor.steps, place, callers, is_thread=True))
        if (host, actor.name, actor.steps) in trace.watched:
            trace.stacks[host, actor.name, actor.steps] = stack

    def _stir_main(self) -> None:
        main = self.main
        if main.state is IDLE and self.main_has_work():
            self._enter_pool(main)

    def note_start(self, strand: Strand) -> None:
        """A thread was started; it can run."""
        self.kernel.trace.pending.append(f"start {strand.actor.name}")
        self._enter_pool(strand)

    # --- waiting ---------------------------------------------------------------------------------

    def block(
        self,
        me: Strand,
        waits_for: Any,
        ready: Callable[[], bool] | None = None,
        deadline_ns: int = NEVER_NS,
    ) -> bool:
        """`me` can't go on until it is woken, `ready` says so, or the deadline has passed; in that
        last case the result is False."""
        self.refuse_the_doomed(me)
        if (
            me.state is ENDED
        ):  # its last objects are being freed: nobody else goes on, but time does
            if deadline_ns >= NEVER_NS:
                raise RuntimeError("a thread that has ended cannot wait for others")
            self.kernel.stall(max(0, deadline_ns - self.clock.ns))
            return False
        me.timed_out = me.woken = False
        me.current = self.kernel.current
        self._stand_still(me, waits_for, ready, deadline_ns)
        while me.signals and not me.in_c:
            timed_out, woken = me.timed_out, me.woken
            self.handle_signals(me)  # a handler may wait for something else
            if timed_out or woken or (ready is not None and ready()):
                return not timed_out
            self._stand_still(me, waits_for, ready, deadline_ns)  # as PEP 475 has it
        return not me.timed_out

    def _stand_still(
        self, me: Strand, waits_for: Any, ready: Callable[[], bool] | None, deadline_ns: int
    ) -> None:
        me.state, me.waits_for, me.ready, me.deadline_ns = BLOCKED, waits_for, ready, deadline_ns
        self._due_ns = min(self._due_ns, deadline_ns)
        self.blocked[me] = None
        if me is self.baton.driver:
            self._dispatch(me)
        else:
            self._wake_waiters()
            self._stir_main()
            if self.pool.rivals and self.clock.ns < self.until_ns:
                self._go_on(me, self._choose(me))
            else:
                self.baton.hand(me, self.baton.driver)
        me.waits_for = me.ready = None

    def interrupt(self, handler: Callable[[], object]) -> None:
        """A signal reaches the process. Handlers run in the main thread, wherever that waits; it
        waits on afterwards, unless the handler raises. A C library is not disturbed: they run when
        it has returned."""
        main = self.main
        main.signals.append(handler)
        if main.state is BLOCKED and not main.in_c:
            del self.blocked[main]
            self._enter_pool(main)

    def handle_signals(self, me: Strand) -> None:
        """Run the handlers that are due; one that raises does so in `me`."""
        while me.signals:
            me.signals.pop(0)()

    def refuse_the_doomed(self, me: Strand) -> None:
        """A thread of a dead process may not wait."""
        if not me.doomed:
            if self.baton.closing:
                raise RuntimeError("the run is over: nothing can end this wait")
            return
        me.refusals += 1
        if me.refusals > REFUSALS_MAX:  # it catches everything and tries again, for ever
            self.baton.leave(me, self.baton.driver)
            self.baton.reap = None
            real.lock_acquire(me.gate)
        raise StrandEnded

    def wake(self, strand: Strand) -> None:
        """What `strand` waited for may have come."""
        strand.woken = True
        if strand.state is BLOCKED:
            del self.blocked[strand]
            self._enter_pool(strand)

    def _wake_waiters(self) -> None:
        """Those who nobody else wakes: by time, or because they ask a question of their own."""
        if not self.blocked:
            self._due_ns = NEVER_NS
            return
        now_ns = self.clock.ns
        for strand in [s for s in self.blocked if s.ready is not None and s.ready()]:
            self.wake(strand)
        due = [s for s in self.blocked if s.deadline_ns <= now_ns]
        if self._due_ns <= now_ns and not due:
            self._due_ns = self.next_deadline_ns()  # who was to give up has what it waited for
        for strand in sorted(due, key=_deadline_of):
            strand.timed_out = True
            self.wake(strand)
        if due:
            self._due_ns = self.next_deadline_ns()

    def _wake_who_could_take_a_lock(self) -> bool:
        """A lock was given back behind our back: by a method bound before there were threads."""
        free = [
            s
            for s in self.blocked
            if type(s.waits_for) is real._Lock and not real.lock_locked(s.waits_for)
        ]
        for strand in free:
            self.wake(strand)
        return bool(free)

    def next_deadline_ns(self) -> int:
        """When the first of those who wait gives up."""
        if not self.blocked:
            return NEVER_NS
        return min(s.deadline_ns for s in self.blocked)

    def can_go_on(self) -> bool:
        """Whether a thread could run now."""
        if self.pool.rivals:
            return True
        waiting = self.blocked
        return bool(waiting) and any(s.ready is not None and s.ready() for s in waiting)

    def next_ns(self) -> int:
        """When a thread of this host can next go on, the main thread's loop apart."""
        now_ns = self.clock.ns
        if self.pool.rivals:
            return now_ns
        first_ns, has_free_lock = NEVER_NS, False
        for strand in self.blocked:
            if strand.ready is not None and strand.ready():
                return now_ns
            lock = strand.waits_for
            if type(lock) is real._Lock and not real.lock_locked(lock):
                has_free_lock = True
            if strand.deadline_ns < first_ns:
                first_ns = strand.deadline_ns
        if has_free_lock:
            self._wake_who_could_take_a_lock()
            return now_ns
        return first_ns if first_ns > now_ns else now_ns

    # --- the driver ------------------------------------------------------------------------------

    def _dispatch(self, me: Strand) -> None:
        """The driver's own code can't go on: everything else does, until it can."""
        while me.state is not RUNNING:
            while self.elsewhere.happen_before(self.kernel, self.clock.ns + 1):
                pass
            self._look_left = LOOK_STEPS
            self._wake_waiters()
            if self.pool.rivals:
                chosen = self._choose(me)
                if chosen is not me:
                    self.baton.hand(me, chosen)
            elif not self._wake_who_could_take_a_lock():
                self._let_time_pass()

    def _let_time_pass(self) -> None:
        deadline_ns = self.next_deadline_ns()
        if self.elsewhere.happen_before(self.kernel, deadline_ns):
            return
        if deadline_ns >= NEVER_NS:
            error = self.deadlock()
            self.elsewhere.fail(error)  # the program may catch it
            self.baton.fail(self.baton.driver, error)
        if not self.wakes_late(deadline_ns, _nothing):
            self.kernel.jump_to(deadline_ns)

    def wakes_late(
        self,
        when_ns: int,
        soon: Callable[[int, int], list[int]],
        loops_last: Stepper | None = None,
    ) -> bool:
        """No thread can go on, and something ends that at `when_ns`. Whether the machine is late:
        then all who wait until shortly after are due as well. `soon` knows what else comes, and
        `loops_last` has made the last step of the driver's loop, if that is what sleeps."""
        after = loops_last
        if after is None or self._loops_last_step == (after, after.steps):
            after, asked = self._last_step, self._asked_after
            self._asked_after = after, after.steps
            if asked == self._asked_after:
                return False  # a sleep is named by the step before it, and this name is taken

        def comes(when_ns: int, within_ns: int) -> list[int]:
            later = (strand.deadline_ns - when_ns for strand in self.blocked)
            return soon(when_ns, within_ns) + [ns for ns in later if 0 < ns <= within_ns]

        # Who is due is woken by `_wake_waiters`, and not before the wire has delivered: a message
        # that came meanwhile ends a wait, and a time limit that has passed by then does not.
        return self.kernel.wakes_late(after, when_ns, comes)

    def run_while_idle(self) -> bool:
        """The driver's loop has nothing to do. True if a thread went on meanwhile."""
        self._wake_waiters()
        if not self.pool.rivals and not self._wake_who_could_take_a_lock():
            return False
        main = self.main
        main.state, main.current = IDLE, self.kernel.current
        self._loops_last_step = main.current, main.current.steps
        self.baton.hand(main, self._choose(main))
        main.state, self.kernel.current = RUNNING, main.current
        return True

    def wait_in_loop(self, loop: Any) -> bool:
        """`loop` has nothing to do. True if it is to look again, False if no thread can go on."""
        strand = strand_of(get_ident())
        if strand is None or strand is self.baton.driver:
            return self.run_while_idle()
        if loop.has_held_alone() and loop.scheduler.release_held():
            return True
        self.block(strand, "its event loop", loop.has_work, min(loop._due_ns, NEVER_NS))
        return True

    def begin_turn(self, me: Strand) -> Strand | None:
        """`me`, which has the baton, is to let this crew, of another host, go on: by which thread?
        None if none can. The turn ends when nobody of the crew can go on, when the loop of its main
        thread has made an iteration, or after a slice."""
        self._wake_waiters()
        main = self.main
        if not self.threaded and main.state is IDLE:
            main.state = RUNNING  # nobody to choose between
            return main
        self._stir_main()
        return self._choose(me) if self.pool.rivals else None

    def end_iteration(self, main: Strand) -> None:
        """The loop of a host's main thread has made an iteration. To hand over costs more than most
        iterations do: this thread itself does what the driver would do next, where that is plain.
        """
        main.state, main.current = IDLE, self.kernel.current
        following = self.elsewhere.carry_on(self)
        if following is not main:
            self.baton.hand(main, following or self.baton.driver)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but the loop of a main thread, which waits for its turn."""
        return not self.threaded and not self.blocked and self.main.state is IDLE

    def deadlock(self) -> BaseException:
        """Nothing will ever happen again."""
        crews = self.elsewhere.crews()
        host = self.kernel.host if len(crews) == 1 else "the world"
        services = self.elsewhere.in_services()
        return deadlock_of(host, self.elsewhere.tasks(), blocked_of(crews), services)

    # --- the end ---------------------------------------------------------------------------------

    def end(self, me: Strand) -> None:
        """`me` has nothing more to do, on its own thread: others go on."""
        me.state = ENDED
        me.actor.ended = True
        if not me.doomed:
            self._note_end(me)
        baton = self.baton
        to = baton.driver
        if not baton.closing and not me.doomed:
            self._wake_waiters()
            self._stir_main()
            if self.pool.rivals and self.clock.ns < self.until_ns:
                to = self._choose(me)
        baton.leave(me, to)

    def _note_end(self, me: Strand) -> None:
        trace, now_ns = self.kernel.trace, self.clock.ns
        outcome = TaskOutcome(RETURNED, "None") if me.error is None else raised(me.error)
        trace.note(f"@{now_ns}", me.actor.name, str(outcome))
        if trace.detail:
            host, actor = self.kernel.host, me.actor
            trace.keep(Ended(now_ns, host, actor.name, actor.steps, outcome=outcome))

    def die(self) -> list[Strand]:
        """The process is gone: none of its threads ever runs again. Locks that they hold are free;
        in a process of their own nobody else would wait for them."""
        self.blocked.clear()
        self.note_never_picked()
        gone = [s for s in (*self.strands, self.main) if s.state is not ENDED]
        self.pool.remove(set(gone))
        for strand in gone:
            strand.state = DEAD
        free_locks_of(gone)
        self.kernel.crew = None
        return gone

    def note_never_picked(self) -> None:
        """The process ends: what could have run does not, and that is part of the schedule."""
        recorder = self.pool.recorder
        if recorder is not None:
            for strand in (*self.strands, self.main):
                if strand.state is READY:
                    recorder.never_picked(strand.arrival, strand.actor, strand.entered)

    def living(self) -> list[Strand]:
        return [s for s in self.strands if s.state not in (ENDED, DEAD, LOST)]


def _never() -> bool:
    return False


def _nothing(when_ns: int, within_ns: int) -> list[int]:
    return []


def _deadline_of(strand: Strand) -> int:
    return strand.deadline_ns
