"""Locks, conditions and queues while threads are there.

The methods of `_thread.lock` and `_thread.RLock` are replaced in the types, so that every lock is
covered, whenever it was made; conditions, events, semaphores, barriers, queues and executors are
Python code on top of them and run unmodified. In a thread of the run, `acquire` tries without
blocking; if that fails the thread waits until the lock is given back, and tries again: who gets it
is the scheduler's choice, and one who never waited may be first, as on Linux.

All this is put in place when the first thread of a run starts, and taken away when the run is over:
a run without threads pays nothing. Methods that were bound before (a `Condition` keeps `acquire`
and `release` of its lock, a thread may have one as its target) are found on the heap and caught one
by one: those from before the run once for all, those from the run when its first thread starts.
"""

from __future__ import annotations

import _queue
import _thread
import functools
import gc
import importlib
import os
import queue
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from concurrent.futures import _base
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import real
from foretold.kernel.clock import NS
from foretold.kernel.computer import computer_of
from foretold.kernel.swap import Changes, Setting, Swap
from foretold.kernel.threads import buffers
from foretold.kernel.threads.baton import strand_of
from foretold.kernel.threads.stacks import owners, users_line
from foretold.kernel.threads.strand import NEVER_NS, Strand

if TYPE_CHECKING:
    from collections.abc import Iterable

_TIMEOUT_MAX: Final = threading.TIMEOUT_MAX
_Lock, _RLock = real._Lock, _thread.RLock
_try_lock: Final[Callable[..., bool]] = real.lock_acquire
_try_rlock: Final[Callable[..., bool]] = real.rlock_acquire
_waiters: Final[dict[int, list[Strand]]] = {}
"""Who waits for a lock, by its id."""
# The interpreter's own: held for a few lines in which no thread may be interrupted, or ended.
_private: set[int] = set()
_limbo_lock = 0


def _find_private_locks() -> None:
    """By number. After a fork `threading` makes new ones."""
    global _limbo_lock
    space = vars(threading)
    names = ("_active_limbo_lock", "_shutdown_locks_lock")
    _private.clear()
    _private.update(id(space[name]) for name in names if name in space)
    _limbo_lock = id(space["_active_limbo_lock"])


_find_private_locks()
os.register_at_fork(after_in_child=_find_private_locks)

# --- taking ----------------------------------------------------------------------------------


def _deadline_ns(strand: Strand, timeout: float) -> int:
    if timeout < 0:
        return NEVER_NS
    return strand.crew.clock.ns + int(timeout * NS)


def _take(
    strand: Strand, lock: Any, attempt: Callable[..., bool], blocking: bool, timeout: float
) -> bool:
    """`lock.acquire()` in a thread of the run."""
    crew = strand.crew
    if strand.doomed:
        crew.refuse_the_doomed(strand)
    crew.point(strand)
    if attempt(lock, False):
        _note_owner(strand, lock)
        return True
    if not blocking or timeout == 0:
        return False
    deadline_ns = _deadline_ns(strand, timeout)
    while True:
        _waiters.setdefault(id(lock), []).append(strand)
        try:
            in_time = crew.block(strand, lock, deadline_ns=deadline_ns)
        except BaseException:  # of a signal's handler: it does not wait any more
            _stop_waiting(strand, lock)
            raise
        if attempt(lock, False):
            _note_owner(strand, lock)
            return True
        if not in_time:
            _stop_waiting(strand, lock)
            return False


def _note_owner(strand: Strand, lock: Any) -> None:
    place = users_line() if strand.crew.kernel.trace.detail else None
    owners[id(lock)] = (lock, strand, place)


def _stop_waiting(strand: Strand, lock: Any) -> None:
    waiting = _waiters.get(id(lock))
    if waiting is not None and strand in waiting:
        waiting.remove(strand)
        if not waiting:
            del _waiters[id(lock)]


def _given_back(strand: Strand, lock: Any) -> None:
    """A lock is free: who waits for it may try, and its last owner may be interrupted."""
    owners.pop(id(lock), None)
    for waiter in _waiters.pop(id(lock), ()):
        waiter.crew.wake(waiter)
    strand.crew.point(strand)


def release_for_others(lock: Any) -> None:
    """Give back a lock on behalf of a thread that ends: who waits for it may try."""
    real.lock_release(lock)
    owners.pop(id(lock), None)
    for waiter in _waiters.pop(id(lock), ()):
        waiter.crew.wake(waiter)


def _is_original(strand: Strand | None, lock: Any, blocking: bool, timeout: float) -> bool:
    """Whether the lock's own method answers: elsewhere, and for arguments that make it raise."""
    if strand is None or id(lock) in _private:
        return True
    return timeout != -1 and (not blocking or not 0 <= timeout <= _TIMEOUT_MAX)


# --- the methods of lock ---------------------------------------------------------------------


def acquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
    """`lock.acquire` while threads are there."""
    strand = strand_of(get_ident())
    if strand is None or _is_original(strand, self, blocking, timeout):
        return _try_lock(self, blocking, timeout)
    return _take(strand, self, _try_lock, blocking, timeout)


def _enter(self: Any) -> bool:
    strand = strand_of(get_ident())
    if strand is None or id(self) in _private:
        return _try_lock(self)
    return _take(strand, self, _try_lock, True, -1)


def _release(self: Any) -> None:
    real.lock_release(self)
    strand = strand_of(get_ident())
    if strand is not None and id(self) not in _private:
        _given_back(strand, self)


def _exit(self: Any, *exc: object) -> None:
    _release(self)


# --- the methods of RLock --------------------------------------------------------------------


def _racquire(self: Any, blocking: bool = True, timeout: float = -1) -> bool:
    strand = strand_of(get_ident())
    if strand is None or _is_original(strand, self, blocking, timeout):
        return _try_rlock(self, blocking, timeout)
    return _take(strand, self, _try_rlock, blocking, timeout)


def _renter(self: Any) -> bool:
    strand = strand_of(get_ident())
    if strand is None or id(self) in _private:
        return _try_rlock(self)
    return _take(strand, self, _try_rlock, True, -1)


def _rrelease(self: Any) -> None:
    real.rlock_release(self)
    strand = strand_of(get_ident())
    if strand is not None and id(self) not in _private and not real.rlock_is_owned(self):
        _given_back(strand, self)


def _rexit(self: Any, *exc: object) -> None:
    _rrelease(self)
    if id(self) == _limbo_lock:
        _has_started()


def _has_started() -> None:
    """Just before a thread's `run` is called, `threading` takes note of it under this lock."""
    strand = strand_of(get_ident())
    if strand is not None and strand.quiet and not strand.actor.ended and strand.starting:
        strand.starting = False
        strand.quiet -= 1


def _release_save(self: Any) -> Any:
    state = real.rlock_release_save(self)
    strand = strand_of(get_ident())
    if strand is not None:
        _given_back(strand, self)
    return state


def _acquire_restore(self: Any, state: Any) -> None:
    strand = strand_of(get_ident())
    if strand is not None:
        _take(strand, self, _try_rlock, True, -1)
        real.rlock_release(self)  # nobody can come in between: we have the baton
    real.rlock_acquire_restore(self, state)


_LOCK_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "acquire": acquire,
    "acquire_lock": acquire,
    "__enter__": _enter,
    "release": _release,
    "release_lock": _release,
    "__exit__": _exit,
}
_RLOCK_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "acquire": _racquire,
    "__enter__": _renter,
    "release": _rrelease,
    "__exit__": _rexit,
    "_release_save": _release_save,
    "_acquire_restore": _acquire_restore,
}
_METHODS: Final = {_Lock: _LOCK_METHODS, _RLock: _RLOCK_METHODS, **buffers.METHODS}

# --- imports ---------------------------------------------------------------------------------

# A module is imported by the first run that needs it, and found by all others. So that both make
# the same steps, no thread is interrupted while it imports.
_bootstrap: Final[Any] = importlib._bootstrap
_manager: Final = _bootstrap._ModuleLockManager
_enter_import: Final = _manager.__enter__
_exit_import: Final = _manager.__exit__


def _begin_import(self: Any) -> None:
    strand = strand_of(get_ident())
    if strand is not None:
        strand.quiet += 1
    _enter_import(self)


def _end_import(self: Any, *exc: Any) -> None:
    _exit_import(self, *exc)
    strand = strand_of(get_ident())
    if strand is not None:
        strand.quiet -= 1


# --- queue.SimpleQueue -----------------------------------------------------------------------

_simple_get: Final = _queue.SimpleQueue.__dict__["get"]


def simple_get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    """One that was imported by name is C code; it would block all threads."""
    strand = strand_of(get_ident())
    if strand is None or not block or (timeout is not None and timeout < 0):
        return _simple_get(self, block, timeout)
    strand.crew.point(strand)
    if self.empty():
        deadline_ns = _deadline_ns(strand, -1 if timeout is None else timeout)
        strand.crew.block(strand, "an item of a SimpleQueue", lambda: not self.empty(), deadline_ns)
    return _simple_get(self, False)


# --- methods bound before --------------------------------------------------------------------

_bound: list[BuiltinFunctionType] = []
_swaps: list[Swap] = []


def bound_methods_of_locks(builtins: Iterable[BuiltinFunctionType]) -> list[BuiltinFunctionType]:
    """Those of `builtins` that are methods of a lock."""
    return [b for b in builtins if b.__name__ in _METHODS.get(type(b.__self__), ())]


def remember_bound_methods(builtins: Iterable[BuiltinFunctionType]) -> None:
    """Of these, the bound methods of locks are caught as soon as there are threads."""
    _bound.extend(bound_methods_of_locks(builtins))


def forget_bound_methods() -> None:
    """Those that were remembered may go."""
    _bound.clear()
    _swaps.clear()


def _swap_of(builtin: BuiltinFunctionType) -> Swap:
    owner = builtin.__self__
    return Swap(builtin, functools.partial(_METHODS[type(owner)][builtin.__name__], owner))


def _swaps_of_bound_methods() -> list[Swap]:
    _swaps.extend(_swap_of(builtin) for builtin in _bound[len(_swaps) :])
    known = {id(builtin) for builtin in _bound}
    # What was there before the run is frozen: these are the run's own objects, some thousands.
    made = [thing for thing in gc.get_objects() if type(thing) is BuiltinFunctionType]
    new = [builtin for builtin in bound_methods_of_locks(made) if id(builtin) not in known]
    return [*_swaps, *map(_swap_of, new)]


_acquire_futures: Final = _base._AcquireFutures.__init__


@functools.wraps(_acquire_futures)
def _init_acquire_futures(self: Any, futures: Any) -> None:
    """`as_completed` and `wait` lock all futures, sorted by address; in a run, by number."""
    _acquire_futures(self, futures)
    if computer_of(get_ident()) is not None:
        self.futures = sorted(futures, key=hash)


CHANGES: Final = (Setting(_base._AcquireFutures, "__init__", _init_acquire_futures),)
"""In place as long as a session lasts."""

# --- in place --------------------------------------------------------------------------------

_changes: Final = Changes()


def install() -> None:
    """There are threads: from here on, the locks of the process know of them."""
    if not _changes:
        _forget_levels_of_loggers()
        _changes.apply(
            *(
                Setting(kind, name, method)
                for kind, methods in _METHODS.items()
                for name, method in methods.items()
            ),
            Setting(_queue.SimpleQueue, "get", simple_get),
            Setting(_manager, "__enter__", _begin_import),
            Setting(_manager, "__exit__", _end_import),
            *_swaps_of_bound_methods(),
        )


def _forget_levels_of_loggers() -> None:
    """A logger asks once whether it is enabled for a level, under a lock, and remembers the answer:
    the first run in a process would take locks that the next ones do not."""
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        logging.root.manager._clear_cache()


def remove() -> None:
    """The run is over: all locks are CPython's own again."""
    _changes.undo()
    _waiters.clear()
    owners.clear()
    buffers.forget()


_simple_queue: Any = None


def begin_run() -> None:
    """An executor's queue of work is made before its first thread is."""
    global _simple_queue
    _simple_queue = vars(queue)["SimpleQueue"]
    vars(queue)["SimpleQueue"] = vars(queue)["_PySimpleQueue"]


def end_run() -> None:
    """Undo `begin_run`."""
    remove()
    if _simple_queue is not None:
        vars(queue)["SimpleQueue"] = _simple_queue
