"""A session: the process is made ready once for one run or for thousands of them.

Inside: the standard library is patched, the garbage collector is off (a collection at a chance
moment ends forgotten tasks at a chance moment) and everything that exists is frozen, so that the
collection at each run's boundary looks at that run alone: microseconds instead of milliseconds.
Afterwards everything is as it was.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from foretold.kernel.patches import patches

_depth = 0
_sessions = 0
_failures = 0
SESSIONS_PER_COLLECTION = 200
FAILURES_PER_COLLECTION = 50


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Make the process ready for runs. May be nested; the outermost does the work."""
    global _depth
    if _depth:
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
        return
    was_enabled = gc.isenabled()
    installed = False
    # Those who watch the collector (Dask's workers do) would look at the real machine in a run.
    watchers, gc.callbacks[:] = gc.callbacks[:], []
    try:
        gc.disable()
        _collect_what_runs_left()
        patches.install()
        installed, _depth = True, 1
        patches.catch_bound_methods()
        gc.freeze()
        yield
    finally:
        _depth = 0
        gc.collect()  # the last world, while all else is out of sight
        if installed:
            patches.remove()  # after it: a collection makes the next session scan the whole heap
        gc.unfreeze()  # also what others froze: that only makes it collectable again
        gc.callbacks[:0] = watchers
        if was_enabled:
            gc.enable()


def note_failure() -> None:
    """The run has failed: something of it may be in use when the next one begins."""
    global _failures
    _failures += 1


def begin_run() -> None:
    """Inside a session, before a run: free what is left of the one before, and put all else out of
    sight, also what that one imported and what a search has noted since. So the collection at the
    end of a run looks at this run alone, however long the search is.

    Of a run that failed something may still be in use here, and be frozen with the rest; so once in
    a while everything is looked at.
    """
    global _failures
    if _depth < 2:
        return  # a session for this run alone
    if _failures >= FAILURES_PER_COLLECTION:
        _failures = 0
        gc.unfreeze()
    gc.collect()
    gc.freeze()


def _collect_what_runs_left() -> None:
    """A failing run lives as long as its exception, and is then old garbage that nobody looks for.

    Python itself collects old objects rarely, and what is frozen never; so every so many sessions
    we do. A full collection takes some ten milliseconds on a large heap.
    """
    global _sessions
    _sessions += 1
    if _sessions % SESSIONS_PER_COLLECTION == 0:
        gc.collect()
