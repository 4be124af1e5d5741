"""What becomes of threads when the run is over, or their host is.

As Python ends a process: threads that are not daemons are waited for, idle threads of executors are
told to go; one that never ends is a deadlock. Daemons are cut off where they stand. The system's
threads behind them must be freed all the same, so `StrandEnded` is raised in each of them, when the
world is sealed: what their `finally` blocks do has no effect any more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.kernel.threads.executors import sent_home
from foretold.kernel.threads.stacks import place_of_strand
from foretold.kernel.threads.strand import ENDED, LOST, Strand
from foretold.kernel.watchdog import RunCut, watchdog

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew


def join_threads(crew: Crew | None) -> list[str]:
    """The program's main has returned: wait for its threads, as Python does at exit. What is left
    is told: each by its name and the line at which it stands."""
    if crew is None or not crew.living():
        return []
    _send_idle_workers_home(crew)
    waited = [s for s in crew.living() if not s.daemon]
    if waited:
        names = ", ".join(s.actor.name for s in waited)
        crew.block(crew.main, f"the end of {names}", lambda: all(s.state is ENDED for s in waited))
    return threads_left(crew)


def threads_left(crew: Crew) -> list[str]:
    """The threads that have not ended when their process does, noted in the trace too."""
    left = crew.living()
    for strand in left:
        crew.kernel.trace.note("left running", strand.actor.name)
    return [f"{strand.actor.name} at {place_of_strand(strand)}" for strand in left]


def _send_idle_workers_home(crew: Crew) -> None:
    """As `concurrent.futures` does when the interpreter ends; but each executor is told, because
    those of other hosts go on."""
    module: Any = sys.modules.get("concurrent.futures.thread")
    if module is None:
        return
    queues = {id(thread): queue for thread, queue in module._threads_queues.items()}
    for strand in crew.living():
        queue = queues.get(id(strand.thread))
        given = getattr(strand.thread, "_args", None)  # gone when its work is done
        if queue is not None and given:
            executor = given[0]()
            if executor is not None and not executor._shutdown:
                executor._shutdown = True
                sent_home.append(executor)
            queue.put(None)


def end_threads(crews: Iterable[Crew]) -> None:
    """Free every thread that is left, in a sealed world."""
    for crew in crews:
        crew.note_never_picked()
        mains = [crew.main] if crew.main is not crew.baton.driver and crew.main.ident else []
        end_strands([*crew.living(), *mains])


def end_strands(left: Iterable[Strand]) -> None:
    """Free these threads, one by one."""
    for strand in left:
        baton = strand.crew.baton
        baton.closing = strand.doomed = True
        if strand.state not in (ENDED, LOST):
            try:
                baton.hand(baton.driver, strand)
            except RunCut:
                watchdog.cut()  # it did not end, and was left behind
