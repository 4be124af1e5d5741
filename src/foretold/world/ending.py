"""How hosts end: as under a good supervisor, be it Kubernetes, Docker or systemd.

A process is asked (SIGTERM: the program's handler, else its mains are cancelled); then it goes the
way of `asyncio.run`: when its mains have ended, what is left is cancelled, asynchronous generators
are closed, and its kernel closes its sockets.

At the end of a run hosts are asked one after the other, the one that was started last first: what a
program needs was started before it, and still answers when it says goodbye. A host that takes long
may wait for one that was started before it, as a server does for its clients to hang up. So after
`PATIENCE_S` the next one is asked as well, and they end side by side.

A process that is not gone when its grace is over is killed, as SIGKILL does: nothing of it runs
again. So a program that ignores cancellation, reconnects for ever or waits for a peer behind a
partition ends too. That is no fault of the world: it stands in the trace and not in the story.

Nothing here runs on a loop: what happens next hangs on the process' own tasks, the end of its grace
on the wire and on its steps. Who awaits the end may be cancelled; the end goes on.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from foretold.arguments import check_number
from foretold.kernel.clock import NS, to_ns
from foretold.kernel.hashes import tasks_in
from foretold.kernel.kernel import Kernel
from foretold.kernel.threads.ending import join_threads
from foretold.world.hosttask import resolve, wake

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.net.wire import Timer
    from foretold.world.world import World

GRACE_S = 60.0
"""Docker gives 10 s, Kubernetes 30 s, systemd 90 s. Asyncio itself waits 30 s for a peer that does
not say goodbye over TLS: who ends as asyncio's defaults have it shall not be killed. It is virtual
time: waiting costs nothing."""
GRACE_STEPS = 10_000
"""And so many steps. A program that never waits would take millions of them before its time is over
(two that talk to each other, hundreds of thousands); a server that closes a thousand connections
takes 4,000."""
PATIENCE_S = 5.0
"""So long the end of a run waits for one host before it asks the next one, too. With many hosts it
is less: all are asked before half of the grace is over."""
LAST_TURNS_MAX = 100
"""So many turns of its loop a process takes at most after its last task was cancelled."""


class ProcessEnding:
    """One process is being ended, from SIGTERM until it is gone."""

    def __init__(self, host: Host, grace_s: float) -> None:
        self.host = host
        self.over = False
        self.by_itself = False
        """It went its way to the end; nobody killed it."""
        self.with_all = False
        """The whole run ends, and this host with it."""
        self.was_too_slow = False
        """It was killed because its grace was over."""
        self.waiters: list[asyncio.Future[None]] = []
        self._then: list[Callable[[], object]] = []
        self._timer: Timer | None = None
        self._end_ns = self._end_steps = math.inf
        self.shorten(grace_s)

    def begin(self) -> None:
        """SIGTERM. A paused process goes on, as systemd has it: else it could not end cleanly."""
        host = self.host
        host.ending = self
        host.kernel.on_housekeeping = self._count_steps
        host.paused = False
        host.deliver(signal.SIGTERM)
        self._when_done((started.task for started in host.mains), self._cancel_the_rest)

    def shorten(self, grace_s: float) -> None:
        """Give it no more than `grace_s` from now."""
        world, kernel = self.host.world, self.host.kernel
        if not math.isinf(grace_s):
            end_steps = kernel.steps_so_far(kernel.grant) + GRACE_STEPS
            self._end_steps = min(self._end_steps, end_steps)
        # Not past the limit of the run: to be ended late is no reason to fail.
        limit_ns = world.home.kernel.virtual_ns_max
        end_ns = limit_ns if math.isinf(grace_s) else min(limit_ns, now_ns(world) + to_ns(grace_s))
        if end_ns < self._end_ns:
            self._call_off()
            self._end_ns = end_ns
            self._timer = world.wire.timer(end_ns, self._kill)

    def process_is_gone(self) -> None:
        """By itself, or because somebody killed it."""
        self.over = True
        self._call_off()
        if self.with_all:
            self.host.world.aftermath.goes(self.host)
        self.host.kernel.on_housekeeping = None
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            wake(waiter)
        then, self._then = self._then, []
        for callback in then:
            self.when_gone(callback)

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Call this when the process is gone, from the wire."""
        if self.over:
            self.host.world.wire.at(now_ns(self.host.world), callback)
        else:
            self._then.append(callback)

    def _call_off(self) -> None:
        if self._timer is not None:
            self._timer.called_off = True

    # --- the way of asyncio.run ------------------------------------------------------------------

    def _when_done(self, tasks: Iterable[asyncio.Task[Any]], then: Callable[[], object]) -> None:
        """Go on as soon as these tasks have ended, unless the process dies before."""
        left = [task for task in tasks if not task.done()]
        if not left:
            then()
            return
        number = len(left)

        def one_less(task: asyncio.Task[Any]) -> None:
            nonlocal number
            number -= 1
            if not number and not self.over:
                then()

        for task in left:
            task.add_done_callback(one_less)

    def _tasks(self) -> list[asyncio.Task[Any]]:
        """What is not done, on all loops of the process."""
        return [t for loop in self.host.loops for t in tasks_in(loop)]

    def _cancel_the_rest(self) -> None:
        self.host.wake()
        left = self._tasks()
        for task in left:
            task.cancel()
        self._when_done(left, partial(self._close_generators, left))

    def _close_generators(self, cancelled: list[asyncio.Task[Any]]) -> None:
        own = [started.task for started in self.host.mains]  # they tell of their errors themselves
        report_raised(task for task in cancelled if task not in own)
        loops = [loop for loop in self.host.loops if len(loop._asyncgens)]
        closing = [loop.create_task(loop.shutdown_asyncgens()) for loop in loops]
        self._when_done(closing, partial(self._last_turn, LAST_TURNS_MAX))

    def _last_turn(self, turns: int) -> None:
        """What can be done at once is done: connections are told that they are closed, and what
        was cancelled may have started something, which nobody will cancel. Then the process exits.
        """
        if turns and any(loop.has_ready() for loop in self.host.loops):
            self.host.loop.call_soon(self._last_turn, turns - 1)
            return
        crew = self.host.kernel.crew
        if crew is not None and crew.living():
            self.host.loop.call_soon(self._join_threads)  # its main thread waits for them
        else:
            self._exit()

    def _join_threads(self) -> None:
        """As Python does when a main thread has nothing more to do."""
        host = self.host
        asyncio._set_running_loop(None)
        try:
            left = join_threads(host.kernel.crew)
        finally:
            asyncio._set_running_loop(host.loop)
        host.world.threads_left += [f"{thread}, on host {host.name}" for thread in left]
        self._exit()

    def _exit(self) -> None:
        for loop in self.host.loops:
            report_started_too_late(loop)
        report_unseen(self.host.kernel)
        self.by_itself = True
        self.host.die()

    # --- the end of its grace --------------------------------------------------------------------

    def _count_steps(self) -> None:
        if self.host.kernel.steps > self._end_steps:
            self._kill()

    def _kill(self) -> None:
        """At the end of a run all that are left die at one instant: what a host would say about
        the death of another is our doing, and nothing that the program is to blame for."""
        world = self.host.world
        self.was_too_slow = True
        for host in world.live_hosts() if self.with_all else [self.host]:
            host.kernel.clock.ns = max(host.kernel.clock.ns, now_ns(world))
            host.kernel.trace.note("ending", host.name, "killed: its grace is over")
            host.die()


def now_ns(world: World) -> int:
    """The instant that is happening, on the acting host or on the wire."""
    return max(world.now_ns(), world.wire.now_ns)


def check_grace(grace_s: float) -> None:
    """Seconds; `math.inf` for as long as the run."""
    check_number("stop's grace_s", grace_s, at_least=0, finite=False)


def begin_ending(host: Host, grace_s: float) -> ProcessEnding:
    """Ask the process to end, once; who asks again can only be less patient."""
    check_grace(grace_s)
    ending = host.ending
    if ending is None:
        ending = ProcessEnding(host, grace_s)
        ending.begin()
    else:
        ending.shorten(grace_s)
    return ending


def begin_ending_all(world: World, grace_s: float = GRACE_S) -> list[ProcessEnding]:
    """Ask all hosts but the test's own."""
    return [_end_with_all(host, grace_s) for host in world.live_hosts()]


def _end_with_all(host: Host, grace_s: float) -> ProcessEnding:
    ending = begin_ending(host, grace_s)
    if not ending.with_all:
        ending.with_all = True
        host.world.aftermath.goes(host)
    return ending


async def one_has_ended(endings: list[ProcessEnding], within_s: float | None = None) -> None:
    """Wait until one of these processes is gone, or for so long."""
    if any(ending.over for ending in endings):
        return
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    alarm = None if within_s is None else loop.call_later(within_s, resolve, waiter)
    for ending in endings:
        ending.waiters.append(waiter)
    try:
        await waiter
    finally:
        if alarm is not None:
            alarm.cancel()


async def end_all(world: World) -> None:
    """End all hosts but the test's own. Those that are started meanwhile get what grace is left."""
    end_ns = now_ns(world) + to_ns(GRACE_S)
    patience_s = min(PATIENCE_S, GRACE_S / 2 / max(1, len(world.live_hosts())))
    line: list[Host] = []  # in which they are asked; the last is the next
    begun = (-1, 0)
    while True:
        if begun != (now := (world.starts, len(world.hosts))):
            begun = now
            line = sorted(world.live_hosts(), key=world.start_number, reverse=True)[::-1]
        while line and not _is_to_be_asked(line[-1]):
            line.pop()
        if line:
            latest = line.pop()
            is_last = not any(map(_is_to_be_asked, line))
            ending = _end_with_all(latest, max(0, end_ns - now_ns(world)) / NS)
            await one_has_ended([ending], None if is_last else patience_s)
        elif living := world.live_hosts():
            await one_has_ended([host.ending for host in living if host.ending is not None])
        else:
            return


def _is_to_be_asked(host: Host) -> bool:
    return host.is_alive and (host.ending is None or not host.ending.with_all)


# --- what a program leaves behind ----------------------------------------------------------------


def report_raised(cancelled: Iterable[asyncio.Task[Any]]) -> None:
    """As asyncio.run does: tasks that answered their cancellation with an error."""
    for task in cancelled:
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler(
                {
                    "message": "unhandled exception while what was left running was cancelled",
                    "exception": error,
                    "task": task,
                }
            )


def report_started_too_late(loop: asyncio.AbstractEventLoop) -> None:
    """Tasks that are left although everything was cancelled: they are destroyed."""
    for task in tasks_in(loop):
        context = {"message": "Task was destroyed but it is pending!", "task": task}
        loop.call_exception_handler(context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # said already


def report_unseen(kernel: Kernel) -> None:
    """Tasks that failed, are still referred to, and were never asked for their result. asyncio
    reports them when they are collected: never, if a module keeps them."""
    for reference in kernel.failed:
        task: Any = reference()
        if task is not None and task._log_traceback:
            message = "Task exception was never retrieved"
            context = {"message": message, "exception": task.exception(), "task": task}
            task.get_loop().call_exception_handler(context)
    kernel.failed = []
