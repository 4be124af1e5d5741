"""One thread of the simulated program: a thread of the system that runs while it has the baton.

It stands in for a handle where schedulers are concerned: it has an actor, and a place in the order
of arrival.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.kernel import real

if TYPE_CHECKING:
    from foretold.kernel.actors import Stepper
    from foretold.kernel.threads.crew import Crew

RUNNING = "running"
READY = "ready"
BLOCKED = "blocked"
IDLE = "idle"
"""The main thread of a host whose loop has nothing to do."""
ENDED = "ended"
DEAD = "dead"
"""Its process was killed: it has not ended, and never goes on."""
LOST = "lost"
"""It sits in C code and does not come back; the run was ended without it."""
NEVER_NS = 1 << 100


class Strand:
    """One thread of one host."""

    __slots__ = (
        "actor",
        "arrival",
        "crew",
        "current",
        "daemon",
        "deadline_ns",
        "doomed",
        "entered",
        "error",
        "gaps",
        "gate",
        "handle",
        "held_since_ns",
        "ident",
        "in_c",
        "is_main",
        "last_locks",
        "lines",
        "looks",
        "quiet",
        "ready",
        "refusals",
        "sentinel",
        "signals",
        "starting",
        "state",
        "thread",
        "timed_out",
        "waits_for",
        "woken",
    )

    def __init__(self, crew: Crew, actor: Stepper, *, is_main: bool = False) -> None:
        self.crew = crew
        self.actor = actor
        self.current = actor
        """Who acts when this thread goes on: itself, or a task of the loop that it runs."""
        self.is_main = is_main
        self.gate = real.allocate_lock()
        real.lock_acquire(self.gate)
        self.state = IDLE if is_main else READY
        self.ident = 0
        self.thread: Any = None
        """The program's `threading.Thread`, if there is one."""
        self.daemon = False
        self.doomed = False
        self.refusals = 0
        self.arrival = 0
        self.entered = 0
        """How many picks there had been when it entered the pool."""
        self.held_since_ns = 0
        self.ready: Callable[[], bool] | None = None
        """Whether what it waits for has come, where nobody tells it."""
        self.deadline_ns = NEVER_NS
        self.timed_out = False
        self.woken = False
        """Somebody gave it what it waits for, be it only for a moment."""
        self.signals: list[Callable[[], object]] = []
        """Handlers that are to run when it goes on."""
        self.in_c = 0
        """It is in a C library that calls Python: handlers wait until it is back, as CPython's."""
        self.waits_for: Any = None
        """The lock that it waits for, or words."""
        self.last_locks: list[Any] = []
        """To be released when it ends: others wait for its end by them."""
        self.error: BaseException | None = None
        """What ended it, if nobody caught that."""
        self.sentinel: Any = None
        self.handle: Any = None
        self.quiet = 0
        """Above 0 where it may not be interrupted: it imports a module, or it is being started."""
        self.starting = False
        """`threading` prepares it; the program's own code has not begun."""
        self.lines = 0
        """How many lines it may run until the next look (`preempt.py`)."""
        self.looks = 0
        """How often somebody else could have gone on at one of its lines."""
        self.gaps: Callable[[], float] | None = None

    def __repr__(self) -> str:
        return f"<thread {self.actor.name} of {self.crew.kernel.host}, {self.state}>"

    def wait_for_its_end(self) -> None:
        """In real time, and not for long: it has nothing more to do."""
        if sys.version_info >= (3, 13):
            real.handle_join(self.handle)
        else:
            real.lock_acquire(self.sentinel)
