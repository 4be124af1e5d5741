"""Which threads there are: a program sees those of its host, and not the test runner's own.

Its main thread is the one that runs the test, whichever that is for the runner.

`threading.enumerate`, `threading.active_count`, `sys._current_frames` and their kin read the books
of the whole process.
"""

from __future__ import annotations

import _thread
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from foretold.kernel.computer import computer_of
from foretold.kernel.machine_patches import NewCode
from foretold.kernel.swap import Swap, copy_of
from foretold.kernel.threads.baton import strand_of


def idents() -> list[int] | None:
    """The threads of the calling thread's host, its main thread first. None outside of a run."""
    ident = get_ident()
    if computer_of(ident) is None:
        return None
    strand = strand_of(ident)
    if strand is None:
        return [ident]
    crew = strand.crew
    return [each.ident for each in (crew.main, *crew.living()) if each.ident]


def threads() -> list[threading.Thread] | None:
    """As `threading` knows them."""
    found = idents()
    if found is None:
        return None
    active = vars(threading)["_active"]
    starting = {thread.ident: thread for thread in vars(threading)["_limbo"].values()}
    known = [active.get(ident) or starting.get(ident) for ident in found]
    return [thread for thread in known if thread is not None]


# Only the code of these is used, in the globals of `threading`.


def _enumerate() -> Any:
    from foretold.kernel.threads import listing

    found = listing.threads()
    if found is None:
        with _active_limbo_lock:  # type: ignore[name-defined]  # noqa: F821  # threading's own
            return list(_active.values()) + list(_limbo.values())  # type: ignore[name-defined]  # noqa: F821  # threading's own
    return found


def _active_count() -> Any:
    from foretold.kernel.threads import listing

    found = listing.threads()
    if found is None:
        with _active_limbo_lock:  # type: ignore[name-defined]  # noqa: F821  # threading's own
            return len(_active) + len(_limbo)  # type: ignore[name-defined]  # noqa: F821  # threading's own
    return len(found)


def _main_thread_of_the_host() -> Any:
    from foretold.kernel.threads import listing

    return (listing.threads() or [_main_thread])[0]  # type: ignore[name-defined]  # noqa: F821  # threading's own


def _of_the_host(original: Callable[[], dict[int, Any]]) -> Callable[[], dict[int, Any]]:
    def asked() -> dict[int, Any]:
        found, known = original(), idents()
        return found if known is None else {each: found[each] for each in known if each in found}

    return asked


_real_count: Final = copy_of(_thread._count)


def _count() -> int:
    found = idents()
    return _real_count() if found is None else len(found) - 1  # as the real one: without the main


_exceptions: Final[Any] = vars(sys)["_current_exceptions"]
CHANGES: Final[tuple[Any, ...]] = (
    NewCode(threading.enumerate, _enumerate),
    NewCode(threading.active_count, _active_count),
    NewCode(threading.main_thread, _main_thread_of_the_host),
    Swap(sys._current_frames, _of_the_host(copy_of(sys._current_frames))),
    Swap(_exceptions, _of_the_host(copy_of(_exceptions))),
    Swap(_thread._count, _count),
)
