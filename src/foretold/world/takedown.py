"""The last of a run: what did not end by itself is taken down, unseen by the program."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable
from typing import Any

from foretold.kernel.abandon import abandon, end_greenlets, greenlets_of, nothing_is_finalized
from foretold.kernel.hashes import leave_the_list, tasks_in
from foretold.kernel.libraries import anyio
from foretold.world.hostloop import HostLoop
from foretold.world.world import World


def take_down(world: World) -> None:
    """End what did not end by itself, in a sealed world: nothing it does has an effect."""
    living = world.living_loops()
    ended = sum(map(_close_tasks, living))
    close_loops(living)
    if ended:
        gc.collect()  # here, and not in the middle of the next run
    if world.graves:
        if not ended:
            gc.collect()  # what is garbage by now was not the dead's, and ends as it always does
        _bury_for_good(world)
        close_loops(world.living_loops())  # a `__del__` of theirs may have asked for one,
        gc.collect()  # and brought its owner back to life once more


def close_loops(loops: Iterable[HostLoop]) -> None:
    """Close those that are still open. No code of the program runs."""
    for loop in loops:
        leave_the_list(loop)
        if not loop.is_closed():
            with contextlib.suppress(RuntimeError):
                loop.close()


def _bury_for_good(world: World) -> None:
    """Processes that were killed end nothing: no `finally`, no `__exit__`, no `__aexit__`. Their
    coroutines are not closed either: CPython 3.12.1 leaks what a coroutine awaits if it is closed
    when it has ended, and with it the whole world."""
    with nothing_is_finalized():
        _leave_lying(world.graves)
        close_loops(world.graves)
        world.forget_the_dead()
        gc.collect()


def _leave_lying(loops: list[HostLoop]) -> None:
    left = tasks_in(*loops)
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was killed
    anyio.forget_tasks(left)
    generators = [each for loop in loops for each in loop._asyncgens]
    abandon(*(task.get_coro() for task in left), *generators)


def _close_tasks(loop: HostLoop) -> int:
    """End what a living process was still doing."""
    loop.abandon()
    left = tasks_in(loop)
    generators = list(loop._asyncgens)
    greenlets = greenlets_of(*(task.get_coro() for task in left), *generators)
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # said already
        coro: Any = task.get_coro()
        with contextlib.suppress(BaseException):
            coro.close()
    # To close a coroutine that waits in an asynchronous generator does not reach further; what that
    # one waits in would end when the loop is closed, and complain of it.
    for generator in generators:
        inner: Any = generator.ag_await
        if inner is not None:
            with contextlib.suppress(BaseException):
                inner.close()
    end_greenlets(greenlets)
    return len(left)
