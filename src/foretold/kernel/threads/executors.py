"""Executors that are older than the run: a pool in a module, which the program uses as it likes.

Their threads of the real world are not in the run. They would take the work and do it out there, so
for a run the executor has no threads and an empty queue; those that it starts are the run's. When
the run is over its threads have ended, and the executor gets back what it had.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from foretold.kernel import fence
from foretold.kernel.swap import Setting

sent_home: Final[list[Any]] = []
"""Executors whose workers were told to go, though nobody had shut them down."""
_lent: Final[list[tuple[Any, dict[str, Any]]]] = []
"""Executors that have threads of the real world, and what they had."""
_seen: Final[set[int]] = set()
"""Those that were used in this run, by id."""


def _empty() -> dict[str, Any]:
    return {
        "_threads": set(),
        "_work_queue": queue.SimpleQueue(),
        "_idle_semaphore": threading.Semaphore(0),
    }


def _lend(executor: Any) -> None:
    _seen.add(id(executor))
    if executor._threads:  # nothing was submitted in this run yet
        _lent.append((executor, {name: getattr(executor, name) for name in _empty()}))
        vars(executor).update(_empty())


def changes(module: ModuleType) -> Iterator[Setting]:
    """For `concurrent.futures.thread`, once it is imported."""
    kind: Any = vars(module)["ThreadPoolExecutor"]
    submit = kind.submit

    @functools.wraps(submit)
    def submitted(self: Any, /, *args: Any, **names: Any) -> Any:
        if id(self) not in _seen and fence.fenced_in() is not None:
            _lend(self)
        return submit(self, *args, **names)

    yield Setting(kind, "submit", submitted)


def open_again() -> None:
    """The threads of the run have ended. Who uses an executor next starts new ones, or finds those
    that it had before the run. If the program has shut it down these go, too."""
    for executor in sent_home:
        executor._shutdown = False
        vars(executor).update(_empty())
    sent_home.clear()
    _seen.clear()
    while _lent:
        executor, before = _lent.pop()
        vars(executor).update(before)
        if executor._shutdown:
            executor._work_queue.put(None)
