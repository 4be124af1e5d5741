"""How threads begin and end.

`Thread.start` and executors end in one builtin: `_thread.start_new_thread`, since Python 3.13
`start_joinable_thread`. It starts a real thread, which waits for the baton before it runs a line of
the program. `Thread.join` waits, in virtual time, for a lock that is released when the thread ends
(since 3.13: for its handle).

An exception that ends a thread is a failure that nobody caught.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from foretold.kernel import real
from foretold.kernel.computer import computer_of, running
from foretold.kernel.handles import label_of
from foretold.kernel.insist import relent
from foretold.kernel.monitoring import begin_in_thread
from foretold.kernel.native import extensions
from foretold.kernel.swap import Setting, Swap, python_in_c
from foretold.kernel.threads import locks, preempt
from foretold.kernel.threads.baton import StrandEnded, strand_of, strands
from foretold.kernel.threads.one_core import one_core
from foretold.kernel.threads.strand import ENDED, LOST, NEVER_NS, Strand

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew

JOINABLE: Final = sys.version_info >= (3, 13)
_HANDLE: Final = "_os_thread_handle" if sys.version_info >= (3, 14) else "_handle"
_real: Final[Any] = real  # it has other names on other Pythons
_c: Final[Any] = _thread  # as above
_TRACED: Final = (
    "preempt had no effect: a debugger or a measure of coverage traces this thread, and Python "
    "3.11 has one trace function only. Run without it, or on Python 3.12 or later"
)

# --- the beginning ---------------------------------------------------------------------------


def take_part(strand: Strand, ident: int) -> None:
    """The system's thread `ident` is a thread of the run."""
    strand.ident = ident
    strands[ident] = strand
    # The driver lives somewhere already: perhaps in the middle of an import, or on another host.
    running.setdefault(ident, strand.crew.computer)


class _LastObject:
    """Is freed last of all that belongs to the calling thread alone. From then on the thread is not
    one of the run: when it has ended, another thread may get its ident, at once."""

    def __init__(self, strand: Strand) -> None:
        self._strand = strand
        # Python frees this dictionary, in order, behind or with the thread's local objects.
        _put(_objects_of_thread(), self, None)

    def __del__(self) -> None:
        ident = self._strand.ident
        if strands.get(ident) is self._strand:
            del strands[ident]
            running.pop(ident, None)


_python: Final = python_in_c()
_objects_of_thread: Final[Any] = _python.PyThreadState_GetDict
_objects_of_thread.restype = ctypes.c_void_p  # borrowed: ctypes would give it back as an object
_put: Final[Any] = _python.PyDict_SetItem
_put.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def begin_main(crew: Crew, work: Callable[[], Any]) -> None:
    """The main thread of another host than the test's own."""
    launch(crew.main, work)
    # Whoever asks, asks in the process of that host.
    vars(threading)["_active"][crew.main.ident] = threading.main_thread()


def begin_threads(crew: Crew) -> None:
    """The first thread of a host: locks take part, and so does who was alone until now."""
    locks.install()
    preempt.install(crew)
    if crew.kernel.preempt not in ("", preempt.LOCKS) and not preempt.can_interrupt():
        # Before `sys.monitoring` there was one trace function for all.
        crew.kernel.notes[_TRACED] = None
    driver = crew.baton.driver
    if driver.ident not in strands:
        take_part(driver, driver.ident)
    if not crew.threaded:
        crew.begin_threads()


def start_strand(crew: Crew, function: Callable[..., Any], args: Any, names: Any) -> Strand:
    """A new thread of a host; it runs when the tape lets it."""
    begin_threads(crew)
    thread = getattr(function, "__self__", None)
    name = thread.name if isinstance(thread, threading.Thread) else label_of(function)
    strand = Strand(crew, crew.kernel.register.enrol(name))
    strand.daemon = True  # Python itself never waits for those that are no Thread
    if isinstance(thread, threading.Thread):
        strand.thread, strand.daemon = thread, thread.daemon
        strand.starting, strand.quiet = True, 1
        starter = strand_of(get_ident())
        if starter is not None:
            starter.quiet += 1  # until `Thread.start` is done
    if JOINABLE:
        strand.handle = getattr(thread, _HANDLE, None)
    crew.strands.append(strand)
    launch(strand, lambda: function(*args, **names))
    _by_handle[id(strand.handle)] = strand
    crew.note_start(strand)
    return strand


def launch(strand: Strand, work: Callable[[], Any]) -> None:
    """Start the system's thread for `strand`."""
    one_core.begin()
    if JOINABLE:
        strand.handle = strand.handle or _c._ThreadHandle()
        _real.start_joinable_thread(lambda: _life(strand, work), handle=strand.handle, daemon=True)
        ident = strand.handle.ident
    else:
        ident = real.start_new_thread(_life, (strand, work))
    take_part(strand, ident)


def _life(strand: Strand, work: Callable[[], Any]) -> None:
    """What the system's thread does, from its first line to its last."""
    real.lock_acquire(strand.gate)
    extensions.join_thread()
    crew = strand.crew
    if crew.baton.reap is not None:
        crew.baton.see_off()
    if not JOINABLE:
        strand.sentinel = _real.set_sentinel()
        real.lock_acquire(strand.sentinel)  # given back by the interpreter, when all is freed
    begin_in_thread()
    try:
        if not strand.doomed:
            Context().run(work)  # what its variables hold is freed here, and not behind all else
    except (StrandEnded, SystemExit):
        pass
    except BaseException as error:
        _uncaught(strand, error)
    finally:
        if strand.doomed:
            relent()  # it may have been thrown from outside
        work = None  # type: ignore[assignment]  # what it kept alive ends before others go on
        _finish(strand)


def _finish(strand: Strand) -> None:
    _LastObject(strand)
    if strand.state is LOST:
        return  # the run is over, since long
    if strand.thread is not None and strand.doomed:  # ended before it could tell that it runs
        vars(threading)["_limbo"].pop(strand.thread, None)
    for lock in strand.last_locks:
        if real.lock_locked(lock):
            locks.release_for_others(lock)
        vars(threading).get("_shutdown_locks", set()).discard(lock)
    strand.state = ENDED
    # It keeps nothing of the program alive: since 3.14 a Thread has the context that it ran in.
    strand.ready = strand.waits_for = strand.thread = None
    ident = get_ident()
    if strand.is_main:
        vars(threading)["_active"].pop(ident, None)
    # What its thread-local objects do when they are freed is still done in the run: `see_off`.
    strand.crew.end(strand)


def _uncaught(strand: Strand, error: BaseException) -> None:
    strand.error = error
    report = strand.crew.kernel.on_background
    if report is not None:
        message = f"Exception in thread {strand.actor.name}"
        report({"message": message, "exception": error})


# --- what replaces the builtins --------------------------------------------------------------


def start_new_thread(crew: Crew, function: Any, args: Any, kwargs: Any = None) -> int:
    """`_thread.start_new_thread` on a host."""
    return start_strand(crew, function, args, kwargs or {}).ident


def start_joinable_thread(
    crew: Crew, function: Any, handle: Any = None, daemon: bool = True
) -> Any:
    """`_thread.start_joinable_thread` on a host."""
    return start_strand(crew, function, (), {}).handle


def answers_for(crew: Callable[[], Crew]) -> dict[str, Callable[..., Any]]:
    """What a host answers to those who start threads. No crew is made before the first does."""
    answers: dict[str, Callable[..., Any]] = {
        "_thread.start_new_thread": lambda *a: start_new_thread(crew(), *a),
        "_thread.start_joinable_thread": lambda *a, **names: start_joinable_thread(
            crew(), *a, **names
        ),
        "threads": crew,
    }
    answers["_thread.start_new"] = answers["_thread.start_new_thread"]
    return answers


_real_start: Final = threading.Thread.start


@functools.wraps(_real_start)
def _start(self: threading.Thread) -> None:
    """Nobody is interrupted between the lines by which `threading` starts a thread. There is one
    choice in them: whether the new thread or its starter goes on when it has begun."""
    _STARTING.before(_real_start)(self)  # somebody may have wrapped it before the run
    strand = strand_of(get_ident())
    if strand is not None and strand.quiet:
        strand.quiet -= 1


_STARTING: Final = Setting(threading.Thread, "start", _start)
_by_handle: Final[dict[int, Strand]] = {}


def _join(self: Any, timeout: float | None = None, /) -> None:
    """`_ThreadHandle.join` in a thread of the run."""
    me, other = strand_of(get_ident()), _by_handle.get(id(self))
    if me is None or other is None or self.is_done():
        _real.handle_join(self, timeout)
        return
    if me is other:
        raise RuntimeError("Cannot join current thread")
    me.crew.point(me)
    if other.state is not ENDED and (timeout is None or timeout != 0):
        endless = timeout is None or timeout < 0
        deadline_ns = NEVER_NS if endless else me.crew.clock.ns + int(timeout * 1e9)  # type: ignore[operator]  # not None
        words = f"the end of {other.actor.name}"
        me.crew.block(me, words, lambda: other.state is ENDED, deadline_ns)


def _set_sentinel() -> Any:
    """`_thread._set_sentinel`: a lock that is released when the calling thread ends."""
    strand = strand_of(get_ident())
    if strand is None or strand.is_main:
        return _real.set_sentinel()
    lock = real.allocate_lock()
    strand.last_locks.append(lock)
    return lock


def _excepthook(args: Any, /) -> None:
    strand = strand_of(get_ident())
    if strand is None:
        _hook_before(args)
    elif not issubclass(args.exc_type, SystemExit | StrandEnded):
        _uncaught(strand, args.exc_value)


_hook_before: Any = None


def begin_run() -> None:
    """An exception that ends a thread of the run is told to the world."""
    global _hook_before
    space = vars(threading)
    _hook_before = space["excepthook"]
    space["excepthook"] = _excepthook
    locks.begin_run()


def end_run() -> None:
    """All hooks are as they were."""
    space = vars(threading)
    if space["excepthook"] is _excepthook:
        space["excepthook"] = _hook_before
    _by_handle.clear()
    strands.clear()
    preempt.remove()
    locks.end_run()
    one_core.end()


def _set_name(name: str, /) -> None:
    """`_thread.set_name` (Python 3.14) tells the system what a thread is called; the host's main
    thread is the test runner's own, and keeps its name."""
    if computer_of(get_ident()) is None:
        _real.set_name(name)


CHANGES: Final[tuple[Swap | Setting, ...]] = (
    *locks.CHANGES,
    _STARTING,
    Setting(_c._ThreadHandle, "join", _join) if JOINABLE else Swap(_c._set_sentinel, _set_sentinel),
    *((Swap(_c.set_name, _set_name),) if sys.version_info >= (3, 14) else ()),
)
