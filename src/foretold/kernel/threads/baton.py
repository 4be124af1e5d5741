"""One baton: of all threads of a world, the one that has it runs.

Identity, `threading.local`, context variables and trace functions are CPython's own, because each
thread of the program is a thread of the operating system. Each of them sleeps at a gate, a lock
that nobody but us knows; to hand over is to open another's gate and to go to sleep at one's own.

The thread that called `foretold.run` is the *driver*. It runs the test's own host, and it decides
what is next when nobody of a host can go on: the wire, another host, or a jump of time.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from foretold.kernel import real
from foretold.kernel.computer import running

if TYPE_CHECKING:
    from foretold.kernel.threads.strand import Strand

_open = real.lock_release
_pass = real.lock_acquire
strands: Final[dict[int, Strand]] = {}
"""The threads of the run in progress that take part, by ident."""

strand_of: Final = strands.get
_SLEEP_S: Final = 0.5
_LOOK_AGAIN_S: Final = 0.02


class StrandEnded(BaseException):
    """Raised inside a thread whose process is gone, so that it can be freed. In a sealed world:
    what its `finally` blocks still do has no effect."""


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
            if strands.get(gone.ident) is gone:
                del strands[gone.ident]
                running.pop(gone.ident, None)

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
                pass
        except KeyboardInterrupt:
            self._interrupt()
            raise

    def _interrupt(self) -> None:
        """Ctrl-C reaches the driver while another thread runs: that one is ended first. It may be
        handing over at this very moment, to us or to a third, so we look again and again. A second
        Ctrl-C gives up on a thread that sits in C code."""
        self.closing = True
        gate, ended = self.driver.gate, None
        while (running := self.holder) is not self.driver:
            if running is not ended:
                ended = running
                ended.doomed = True
                error = ctypes.py_object(StrandEnded)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ended.ident), error)
            if _pass(gate, True, _LOOK_AGAIN_S):
                self.holder = self.driver
        _pass(gate, False)  # it may have been opened for us before we came here
