"""A session: the process is made ready once for one run or for thousands of them.

Inside: the standard library is patched, the garbage collector is off (a collection at a chance
moment ends forgotten tasks at a chance moment) and everything that exists is frozen, so that the
collection at each run's boundary looks at that run alone: microseconds instead of milliseconds.
Afterwards everything is as it was.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any, Final

from foretold.errors import UsageError
from foretold.kernel import real
from foretold.kernel.interrupt import interrupts
from foretold.kernel.patches import patches

_THREAD: Final = "thread"
_owner: dict[str, int] = {}
"""The thread whose session it is. A dictionary, because `setdefault` cannot be interrupted."""
_ONE_AT_A_TIME: Final = (
    "another thread of this process is in the middle of a run or a search. A run replaces clocks, "
    "sockets and files for the whole process, so a process makes one run at a time. Call foretold "
    "from one thread, or use processes: foretold.explore(main, workers=4), pytest -n 4"
)
_claims = _depth = 0
_sessions = 0
_failures = 0
SESSIONS_PER_COLLECTION = 200
FAILURES_PER_COLLECTION = 50
OBJECTS_USUAL = 100_000
"""A look at everything takes longer on a larger heap, and is made less often there: up to ten times
as seldom."""
RUNS_PER_LOOK = 20
GROWTH = 1.25
BLOCKS_MORE = 300_000
"""Some thirty megabytes."""
_runs = _blocks_due = 0
_sessions_due, _failures_due = SESSIONS_PER_COLLECTION, FAILURES_PER_COLLECTION


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Make the process ready for runs. May be nested; the outermost does the work. What is made
    ready is the whole process, so only one thread may do that at a time."""
    global _depth, _blocks_due
    _claim()
    if _depth:
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
            _release()
        return
    was_enabled = gc.isenabled()
    installed = False
    watchers: list[Any] = []
    try:
        gc.disable()
        _collect_what_runs_left()
        # Those who watch the collector (Dask's workers do) would look at the real machine in a run.
        watchers, gc.callbacks[:] = gc.callbacks[:], []
        patches.aging.pause(watchers)
        patches.install()
        installed, _depth = True, 1
        patches.catch_bound_methods()
        gc.freeze()
        _blocks_due = _grown()
        with interrupts.heard():
            yield
    finally:
        _depth = 0
        gc.collect()  # the last world, while all else is out of sight
        if installed:
            patches.remove()  # after it: a collection makes the next session scan the whole heap
        gc.unfreeze()  # also what others froze: that only makes it collectable again
        patches.aging.begin_anew(watchers)
        gc.callbacks[:0] = watchers
        if was_enabled:
            gc.enable()
        _release()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, no other thread begins a run: something of the whole process is changed meanwhile."""
    _claim()
    try:
        yield
    finally:
        _release()


def _claim() -> None:
    global _claims
    if _owner.setdefault(_THREAD, real.get_ident()) != real.get_ident():
        raise UsageError(_ONE_AT_A_TIME)
    _claims += 1


def _release() -> None:
    global _claims
    _claims -= 1
    if not _claims:
        _owner.clear()


def note_failure() -> None:
    """The run has failed: something of it may be in use when the next one begins."""
    global _failures
    _failures += 1


def begin_run() -> None:
    """Inside a session, before a run: free what is left of the one before, and put all else out of
    sight, also what that one imported and what a search has noted since. So the collection at the
    end of a run looks at this run alone, however long the search is.

    Of a run that failed something may still be in use here, and be frozen with the rest; so once in
    a while everything is looked at. So it is if memory grows: an application that exists once holds
    an event of the latest run, and with it the whole world, until the next run replaces it.
    """
    global _failures, _failures_due, _runs, _blocks_due
    if _depth < 2:
        return  # a session for this run alone
    _runs += 1
    grown = not _runs % RUNS_PER_LOOK and sys.getallocatedblocks() > _blocks_due
    if grown or _failures >= _failures_due:
        _failures = 0
        gc.unfreeze()
        gc.collect()
        _failures_due = _due(FAILURES_PER_COLLECTION)
        _blocks_due = _grown()
    else:
        gc.collect()
    gc.freeze()


def _grown() -> int:
    """So many blocks of memory are more than there should be from here on."""
    return int(sys.getallocatedblocks() * GROWTH) + BLOCKS_MORE


def _due(usual: int) -> int:
    """After how many the next look at everything is due, when one has just been made."""
    return int(usual * min(max(1.0, len(gc.get_objects()) / OBJECTS_USUAL), 10.0))


def _collect_what_runs_left() -> None:
    """A failing run lives as long as its exception, and is then old garbage that nobody looks for.

    Python itself collects old objects rarely, and what is frozen never; so every so many sessions
    we do. A full collection takes some tenths of a second on a large heap.
    """
    global _sessions, _sessions_due
    _sessions += 1
    if _sessions >= _sessions_due:
        gc.collect()
        _sessions, _sessions_due = 0, _due(SESSIONS_PER_COLLECTION)
