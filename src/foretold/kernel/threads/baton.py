"""One baton: of all threads of a world, the one that has it runs.

Identity, `threading.local`, context variables and trace functions are CPython's own, because each
thread of the program is a thread of the operating system. Each of them sleeps at a gate, a lock
that nobody but us knows; to hand over is to open another's gate and to go to sleep at one's own.

The thread that called `foretold.run` is the *driver*. It runs the test's own host, and it decides
what is next when nobody of a host can go on: the wire, another host, or a jump of time.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import real
from foretold.kernel.insist import Insistent, settle, throw
from foretold.kernel.threads.strand import LOST
from foretold.kernel.watchdog import RunCut, watchdog

if TYPE_CHECKING:
    from foretold.kernel.threads.strand import Strand

_open = real.lock_release
_pass = real.lock_acquire
strands: Final[dict[int, Strand]] = {}
"""The threads of the run in progress that take part, by ident."""

strand_of: Final = strands.get
_SLEEP_S: Final = 0.1
_LOOK_AGAIN_S: Final = 0.02


class StrandEnded(BaseException):
    """Raised inside a thread whose process is gone, so that it can be freed. In a sealed world:
    what its `finally` blocks still do has no effect."""


class _Thrown(Insistent, StrandEnded):
    """The same, from outside, into a thread that runs."""


class Baton:
    """Passes from thread to thread of one world."""

    __slots__ = ("closing", "driver", "error", "holder", "reap", "thrown")

    def __init__(self, driver: Strand) -> None:
        self.driver = driver
        self.holder = driver
        self.closing = False
        """The run is over; threads are ended one by one."""
        self.error: BaseException | None = None
        """What is to be raised in the driver: the run cannot go on."""
        self.thrown: BaseException | None = None
        """What the main thread of another host let pass: raised once in the driver."""
        self.reap: Strand | None = None
        """A thread that has ended, but for what the interpreter still does in it."""

    def hand(self, me: Strand, to: Strand) -> None:
        """`to` goes on; `me` sleeps until somebody hands over to it."""
        if me.doomed:
            raise StrandEnded  # again: somebody has caught it
        self.holder = to
        _open(to.gate)
        if me is self.driver:
            self._sleep_as_driver()
        else:
            _pass(me.gate)
        if self.reap is not None:
            self.see_off()
        if me.doomed:
            raise StrandEnded
        if me is self.driver and not self.closing:
            self._raise_what_came()

    def _raise_what_came(self) -> None:
        if self.error is not None:
            raise self.error
        if self.thrown is not None:
            error, self.thrown = self.thrown, None
            raise error

    def leave(self, me: Strand, to: Strand) -> None:
        """`me` has ended; `to` goes on, as soon as nothing of `me` is left."""
        self.reap = me
        self.holder = to
        _open(to.gate)

    def see_off(self) -> None:
        """Wait, for microseconds, until the system's thread is gone: what its thread-local objects
        do when they are freed is over before anybody else goes on."""
        gone, self.reap = self.reap, None
        if gone is not None:
            gone.wait_for_its_end()

    def fail(self, me: Strand, error: BaseException) -> None:
        """The run cannot go on: the driver raises `error`. `me` never goes on."""
        if self.error is None:
            self.error = error
        if me is self.driver:
            raise self.error
        self.hand(me, self.driver)

    def _sleep_as_driver(self) -> None:
        gate = self.driver.gate
        try:
            # Ctrl-C that comes just before we sleep does not wake us: hence a look now and then.
            while not _pass(gate, True, _SLEEP_S):
                if watchdog.is_cutting:
                    raise RunCut
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def _interrupt(self) -> None:
        """Ctrl-C, or the watchdog, reaches the driver while another thread runs: that one is ended
        first. It may be handing over at this very moment, to us or to a third, so we look again and
        again. A thread that sits in C code and does not come back is left behind: should it ever do
        so, it ends."""
        self.closing = True
        gate, ended = self.driver.gate, None
        left_s = watchdog.grace_s
        while (running := self.holder) is not self.driver:
            if running is not ended:
                ended = running
                ended.doomed = True
                throw(ended.ident, _Thrown)
            if _pass(gate, True, _LOOK_AGAIN_S):
                self.holder = self.driver
            left_s -= _LOOK_AGAIN_S
            if left_s <= 0 and self.holder is ended:
                self._leave_behind(ended)
        _pass(gate, False)  # it may have been opened for us before we came here

    def _leave_behind(self, lost: Strand) -> None:
        """Nobody waits for its end, not even Python when the process ends."""
        lost.state = LOST
        settle()
        watchdog.note_lost(lost.actor.name)
        for lock in lost.last_locks:
            vars(threading).get("_shutdown_locks", set()).discard(lock)
        pools: Any = sys.modules.get("concurrent.futures.thread")
        if pools is not None and lost.thread is not None:
            pools._threads_queues.pop(lost.thread, None)
        self.holder = self.driver
