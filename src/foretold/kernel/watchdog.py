"""The watchdog: a run that does not end is ended, whatever the program does.

A run counts its own steps, but code that never comes back to the loop (`while True: pass`, a C
extension that waits in real time, a service that died) takes none. So one thread of the process,
which is no thread of any run, looks at the run in progress once in a while. It naps between two
looks and counts naps, not the clock: on a machine that stands still it does not count either.

If the run has stood still for too long, or takes too long in all, the watchdog

1. notes where every thread and task stands;
2. raises `RunCut` in the thread that runs, again and again, and sends that thread a signal, which
   ends system calls. If the thread is one of the program's, the driver gives up on it
   (`threads/baton.py`) when it does not come back, and leaves it behind;
3. if the driver itself does not come back, because it sits in C code, says what is known and ends
   the process. There is no other way to end such code.

It starts with the first run of a process and goes when there has been none for a while. To be
watched costs a run two assignments.
"""

from __future__ import annotations

import contextlib
import math
import signal
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from foretold.errors import Hang, LimitExceeded, TimeUp
from foretold.kernel import real
from foretold.kernel.insist import Insistent, relent, throw
from foretold.kernel.last_resort import LastResort
from foretold.kernel.waiting import traceback_of

STILL_S_MIN = 60.0
"""A run that does nothing is left alone at least that long, if its limit is longer: a machine may
be busy, and the start of a database server takes its time."""
STILL_SHARE = 3
"""And for this part of its limit on real time."""
NAP_S_MAX = 1.0
NAPS_PER_LIMIT = 20
IDLE_NAPS_MAX = 30
GRACE_S, GRACE_S_MIN = 5.0, 2.0
"""So long the program has to come back when it was interrupted."""
ENDING_S = 10.0
"""So long the end of a run that was broken off may take."""
PRESS_S = 0.25
NEXT_TO_NOTHING_NS = 1_000_000
"""So little virtual time passes around one call of C code that lets no other thread run. A run that
makes steps gets further while the system keeps the watchdog waiting."""
ESCAPED_STILL_S, ESCAPED_WALL_S, ESCAPED_GRACE_S, ESCAPED_NAP_S = 1.0, 2.5, 1.5, 0.25
"""A C library was seen on its way out of the world. The run has failed, and if it stands still from
then on, the library waits for the real world. So the run has only a few seconds left."""
FOREVER_S = 1e8
EXIT_CODE = 1

_SIGNAL: Final = signal.SIGRTMIN + 11
"""Nobody's: it only ends system calls."""


class RunCut(KeyboardInterrupt):
    """Raised in the driver's thread because of the watchdog: the run is over.

    A `KeyboardInterrupt`, because event loops let these pass and keep all others in a task.
    """


class _Thrown(Insistent, RunCut):
    """The same, by the watchdog itself, at any line."""


class Watch:
    """What the watchdog knows of the run in progress."""

    def __init__(
        self,
        wall_s_max: float,
        progress: Callable[[], int],
        holder: Callable[[], int | None],
        standing: Callable[[], str],
    ) -> None:
        self.wall_s_max = wall_s_max
        self.still_s_max = min(wall_s_max, max(STILL_S_MIN, wall_s_max / STILL_SHARE))
        self.nap_s = min(NAP_S_MAX, wall_s_max / NAPS_PER_LIMIT)
        self.grace_s = min(GRACE_S, max(GRACE_S_MIN, wall_s_max))
        self.driver = get_ident()
        self.holder = holder
        """Which thread runs; None if it is the driver."""
        self._progress = progress
        self._standing = standing
        self._seen = progress()
        self._looked_s, self._worked_s = real.monotonic(), real.process_time()
        self._still_s = self._spent_s = self._cut_s = self._press_s = 0.0
        self.error: LimitExceeded | None = None
        """Why the run is cut; None as long as it may go on."""
        self.first_error: LimitExceeded | None = None
        self.escape: BaseException | None = None
        """What a C library has tried to do."""

    def look(self, deadline_s: float) -> None:
        """Count the time since the last look, but not more than two naps: the machine may have
        stood still. Unless this process has computed all the while: one thread let no other run,
        the watchdog included. After `deadline_s` nobody wants the run."""
        now_s, worked_s = real.monotonic(), real.process_time()
        passed_s = min(now_s - self._looked_s, max(2 * self.nap_s, worked_s - self._worked_s))
        was_kept_away = passed_s > 2 * self.nap_s
        self._looked_s, self._worked_s = now_s, worked_s
        if self.error is not None:
            self._cut_s += passed_s
            return
        self._spent_s += passed_s
        seen = self._progress()
        is_still = seen - self._seen <= (NEXT_TO_NOTHING_NS if was_kept_away else 0)
        self._still_s = self._still_s + passed_s if is_still else 0.0
        self._seen = seen
        is_late = (
            self._spent_s > self.wall_s_max + 2 * self.nap_s
        )  # the run's own check comes first
        if self._still_s >= self.still_s_max or (is_late and self._still_s > self._spent_s / 4):
            self._cut(self._stands_still())
        elif is_late and not self._still_s:
            self._cut(took_too_long(self.wall_s_max, "", self._standing()))
        # Else it is late, and has just stopped. Which of both it is will soon be known, for a third
        # of the limit at most: on a busy machine a hang may begin just before its limit.
        elif now_s > deadline_s:
            self._cut(
                TimeUp(f"the time of the search was up in the middle of it.\n{self._standing()}")
            )

    def hurry(self, escape: BaseException) -> None:
        """A C library has tried to leave the world, and may wait for what it did not get."""
        if self.escape is None:
            self.escape = escape
            self.still_s_max = min(self.still_s_max, ESCAPED_STILL_S)
            self.wall_s_max = min(self.wall_s_max, self._spent_s + ESCAPED_WALL_S)
            self.grace_s = min(self.grace_s, ESCAPED_GRACE_S)
            self.nap_s = min(self.nap_s, ESCAPED_NAP_S)

    @property
    def resort_s(self) -> float:
        """So much processor time the process may use without a look of the watchdog."""
        return min(self.wall_s_max, FOREVER_S) + self.grace_s

    def _cut(self, error: LimitExceeded) -> None:
        """The error leads to where the program stands now: by the time it has left that, what it
        was interrupted by may come from anywhere."""
        self.error = error.with_traceback(traceback_of(self.holder() or self.driver))

    def is_time_to_press(self) -> bool:
        """At once, and then less and less often: what is thrown again while the first is on its way
        keeps asyncio from putting its state in order."""
        if self._cut_s < self._press_s:
            return False
        self._press_s = 2 * self._cut_s + PRESS_S
        return True

    @property
    def is_given_up(self) -> bool:
        """It was to end, and has not."""
        return self._cut_s > self.grace_s

    def _stands_still(self) -> LimitExceeded:
        if self.escape is not None:
            return Hang(
                f"{self.escape}\nSince then the run has done nothing for {self._still_s:.3g} real "
                f"seconds.\n{self._standing()}"
            )
        return Hang(
            f"the run has done nothing for {self._still_s:.3g} real seconds: no step was made and "
            "no virtual time has passed. A loop that never ends, a call that waits in real time "
            "(C code does not know of virtual time), or a service that does not answer? "
            f"Raise the limit with wall_s_max=… if it is meant to.\n{self._standing()}"
        )

    def acknowledge(self) -> LimitExceeded | None:
        """The driver is back: why it was interrupted. What is left of the run gets a little time
        to be taken down."""
        error, self.error = self.error, None
        self.first_error = self.first_error or error
        if self.first_error is not None:
            self.first_error.escape = self.escape
        self._still_s = self._spent_s = self._cut_s = self._press_s = 0.0
        self.wall_s_max = self.still_s_max = ENDING_S
        return self.first_error


def took_too_long(wall_s_max: float, steps: str, standing: str) -> LimitExceeded:
    """The error for a run that goes on and on."""
    error = LimitExceeded(
        f"the run took more than {wall_s_max:g} real seconds{steps}. "
        f"Raise the limit with wall_s_max=… if it is meant to.\n{standing}"
    )
    error.in_real_time = True
    return error


class Watchdog:
    """One for a process."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._looking = False
        self._process = 0
        self._keeper: object = None
        """Which thread is the watchdog; None if there is none."""
        self._nap = real.allocate_lock()
        self._nap_s = self._resort_s = 0.0
        self._has_signal = False
        self._last_resort = LastResort(_SIGNAL)
        self.deadline_s = math.inf
        """When all runs are to end, as an instant of `real.monotonic`."""
        self.last_words: Callable[[str], object] = say
        """Who is told before the process is ended. In a worker: how the parent is told."""
        self.rests = False
        """Runs are not watched, whatever their limits: somebody else watches the process."""
        self._said_to = 2
        self._farewells: list[Callable[[LimitExceeded], str]] = []

    @property
    def said_to(self) -> int:
        """The descriptor of the terminal: another one while the usual one is led away."""
        return self._said_to

    @said_to.setter
    def said_to(self, descriptor: int) -> None:
        self._said_to = descriptor
        self._last_resort.show_on(descriptor)

    # In the driver's thread

    def begin(self, watch: Watch) -> None:
        """Watch a run."""
        if self.rests:
            return
        self._watch = watch
        if not self.is_alive:
            self._start(watch)
        elif watch.resort_s != self._resort_s:  # else this run would have the limit of the last one
            self._resort_s = watch.resort_s
            self._last_resort.put_off(self._resort_s)
        if watch.nap_s < self._nap_s and real.lock_locked(self._nap):
            real.lock_release(self._nap)  # it naps for longer than that

    def end(self) -> None:
        """The run is over. Nothing refers to it any more, and nothing is raised any more."""
        watch = self._watch
        while True:
            try:
                watch, self._watch = self._watch or watch, None
                self._wait_for_look()
                if watch is not None and (watch.error or watch.first_error):
                    relent()
                return
            except RunCut:
                pass  # the last one

    def hurry(self, escape: BaseException) -> None:
        """Look more closely at the run in progress: see `Watch.hurry`."""
        watch = self._watch
        if watch is not None:
            watch.hurry(escape)
            if real.lock_locked(self._nap):
                real.lock_release(self._nap)  # it naps for longer than that

    def _wait_for_look(self) -> None:
        """What the watchdog is doing at this moment is the last that it does."""
        while self._looking:
            real.sleep(0.0002)

    def cut(self) -> LimitExceeded:
        """`RunCut` was raised: why."""
        while True:
            try:
                watch = self._watch
                error = None if watch is None else watch.acknowledge()
                self._wait_for_look()
                relent()
                self._last_resort.put_off(self._resort_s)  # the watchdog may not get to it
                return error or LimitExceeded("the run was broken off")
            except RunCut:
                pass  # thrown once more, before it was acknowledged

    @contextlib.contextmanager
    def farewell(self, words: Callable[[LimitExceeded], str]) -> Iterator[None]:
        """Inside, `words` is called before the process is ended: it may save something, and adds
        what it returns to what is said."""
        self._farewells.append(words)
        try:
            yield
        finally:
            self._farewells.remove(words)

    @contextlib.contextmanager
    def until(self, deadline_s: float) -> Iterator[None]:
        """Inside, a run is broken off at that instant, with `TimeUp`."""
        former, self.deadline_s = self.deadline_s, deadline_s
        try:
            yield
        finally:
            self.deadline_s = former

    @property
    def left_s(self) -> float | None:
        """How long a run in another process may take; None if there is no end to it."""
        left_s = self.deadline_s - real.monotonic()
        return None if left_s == math.inf else max(0.1, left_s)

    @property
    def is_watching(self) -> bool:
        """Whether runs are to be watched that have no limit of their own."""
        return self.deadline_s < math.inf

    @property
    def is_alive(self) -> bool:
        """Whether it has a thread in this process."""
        return self._keeper is not None and self._process == real.getpid()

    @property
    def is_cutting(self) -> bool:
        """Whether the run is to end at once."""
        watch = self._watch
        return watch is not None and watch.error is not None

    @property
    def grace_s(self) -> float:
        """How long a thread may take to come back."""
        watch = self._watch
        return GRACE_S if watch is None else watch.grace_s / 2

    def _wake(self, ident: int) -> None:
        """End the system call in which a thread waits, if it does."""
        if self._has_signal:
            real.pthread_kill(ident, _SIGNAL)

    def _start(self, watch: Watch) -> None:
        """In this process, for the first time or again: a fork has none of its parent's threads."""
        self._process, self._looking, self._nap_s = real.getpid(), False, 0.0
        keeper = self._keeper = object()
        self._nap = real.allocate_lock()
        try:
            former = real.signal(_SIGNAL, self._on_signal)
            self._has_signal = former in (signal.SIG_DFL, self._on_signal)
            if not self._has_signal:
                real.signal(_SIGNAL, former)
        except ValueError:
            self._has_signal = False  # not in the main thread of the process
        self._last_resort.begin(self._said_to)
        self._resort_s = watch.resort_s
        self._last_resort.put_off(self._resort_s)
        real.start_new_thread(self._live, (keeper,))

    def _on_signal(self, number: int, frame: Any) -> None:
        """In the main thread. C code that asks for signals now and then is ended by it."""
        watch = self._watch
        if watch is None or not self._is_at(watch, get_ident()):
            return
        if watch.error is None:
            watch.look(self.deadline_s)
        if watch.error is not None:
            raise _Thrown

    # In a thread of its own

    def _live(self, keeper: object) -> None:
        idle = 0
        while self._keeper is keeper:
            self._looking = True  # nothing of a run that has ended is held for even a moment
            watch = self._watch
            self._nap_s = nap_s = NAP_S_MAX if watch is None else watch.nap_s
            watch = None  # it may end meanwhile
            self._looking = False
            real.lock_acquire(self._nap, False)
            real.lock_acquire(self._nap, True, nap_s)
            idle = 0 if self._look() else idle + 1
            self._last_resort.put_off(self._resort_s if idle <= IDLE_NAPS_MAX else 0)
            if idle > IDLE_NAPS_MAX:
                self._keeper = None
                if self._watch is not None and self._keeper is None:
                    self._keeper = keeper  # a run has begun at this very moment

    def _look(self) -> bool:
        self._looking = True
        try:
            watch = self._watch
            if watch is None:
                return False
            watch.look(self.deadline_s)
            self._resort_s = watch.resort_s
            if watch.error is not None:
                self._press(watch, watch.error)
            return True
        finally:
            watch = None
            self._looking = False

    def _press(self, watch: Watch, error: LimitExceeded) -> None:
        if watch.is_given_up:
            self._give_up(error)
        if watch.is_time_to_press():
            if self._is_at(watch, watch.driver):
                throw(watch.driver, _Thrown)
            self._wake(watch.holder() or watch.driver)

    def _is_at(self, watch: Watch, ident: int) -> bool:
        return (watch.holder() or watch.driver) == ident

    def _give_up(self, error: LimitExceeded) -> NoReturn:
        try:
            self.last_words(self._known(error, "it does not come back, so this process is ended."))
        finally:
            real.exit_now(EXIT_CODE)

    def note_lost(self, thread: str) -> None:
        """A thread that sits in C code is left behind. C code that called others may not survive
        that the run is unwound, so what is known is said before."""
        watch = self._watch
        if watch is not None and watch.error is not None:
            say(self._known(watch.error, f"the thread {thread} does not come back: left behind."))

    def _known(self, error: LimitExceeded, end: str) -> str:
        said = [str(error)]
        for farewell in self._farewells:
            try:
                said.append(farewell(error))
            except Exception as failed:
                said.append(f"({type(failed).__name__}: {failed})")
        return "\n".join([*filter(None, said), f"The code sits in C: {end}"])


def say(text: str) -> None:
    """To the terminal, past all that is captured in Python."""
    real.write(watchdog.said_to, f"\nforetold: {text}\n".encode("utf-8", "backslashreplace"))


watchdog: Final = Watchdog()
