"""Locks of a run that has no threads.

Who takes a lock twice, or waits for an event, a condition or a queue that nobody is there to feed,
would wait for ever; two tasks that hold one `threading.Lock` across an `await` do so in production.
Here it is a deadlock at once, and a time limit is virtual: who has to wait is a thread from then
on, the only one. Whoever gets a lock at the first try pays for one call; an `RLock` is always free
to the only thread there is, and to give a lock back never waits: these are CPython's own.
"""

from __future__ import annotations

import _queue
from _thread import get_ident
from typing import Any, Final

from foretold.kernel import real
from foretold.kernel.computer import computer_of
from foretold.kernel.swap import Setting
from foretold.kernel.threads import locks, start
from foretold.kernel.threads.baton import strand_of

_try: Final = real.lock_acquire
_simple_get: Final = _queue.SimpleQueue.__dict__["get"]


def _enter(self: Any) -> bool:
    return _try(self, False) or _wait(self)


def _acquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
    if blocking and timeout == -1 and _try(self, False):
        return True
    return _wait(self, blocking, timeout)


def _wait(lock: Any, blocking: bool = True, timeout: float = -1) -> bool:
    if not blocking or (timeout != -1 and not timeout > 0) or not _becomes_a_thread():
        got: bool = _try(lock, blocking, timeout)
        return got
    return locks.acquire(lock, blocking, timeout)


def _get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    if not block or not self.empty() or not _becomes_a_thread():
        return _simple_get(self, block, timeout)
    return locks.simple_get(self, block, timeout)


def _becomes_a_thread() -> bool:
    """From here on the caller is a thread of a run, and locks know of it. False outside of runs."""
    ident = get_ident()
    strand = strand_of(ident)
    if strand is not None:
        start.begin_threads(strand.crew)
        return True
    computer = computer_of(ident)
    crew = None if computer is None else computer.answer("threads")
    if crew is None:
        return False
    start.begin_threads(crew())
    return True


_KIND: Final = real._Lock
CHANGES: Final = (
    Setting(_KIND, "acquire", _acquire),
    Setting(_KIND, "acquire_lock", _acquire),
    Setting(_KIND, "__enter__", _enter),
    Setting(_queue.SimpleQueue, "get", _get),
)
"""In place as long as a session lasts."""
