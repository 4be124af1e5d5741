"""The main thread of a host other than the test's own.

Each simulated process has a main thread of its own, as real ones have: thread-local data, the
running loop and the thread's identity are its own, and code that blocks there blocks nobody else.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foretold.kernel.abandon import end_greenlets, greenlets_of
from foretold.kernel.hashes import tasks_in
from foretold.kernel.threads.baton import StrandEnded

if TYPE_CHECKING:
    from foretold.world.host import Host
    from foretold.world.hostloop import HostLoop

_tasks: Any = asyncio.tasks  # private names, which no stub has


def live(host: Host) -> None:
    """Run the loops of `host`, one iteration at each turn, as long as the process lives."""
    hook = getattr(threading, "_trace_hook", None)
    if hook is not None:
        sys.settrace(hook)  # a debugger or a measure of coverage that follows threads
    crew = host.crew
    while True:
        try:
            _iterate(host)
        except StrandEnded:
            raise
        except BaseException as error:
            crew.baton.thrown = error
        try:
            crew.end_iteration(crew.main)
        except StrandEnded:
            _end_greenlets(host)
            raise


def _end_greenlets(host: Host) -> None:
    """They belong to this thread: nobody else could, and they would never be freed."""
    if "greenlet" not in sys.modules:
        return
    loops = [*host.loops, *(loop for loop in host.world.graves if loop.host is host)]
    coros: list[Any] = [task.get_coro() for task in tasks_in(*loops)]
    end_greenlets(greenlets_of(*coros, *(each for loop in loops for each in loop._asyncgens)))


def _iterate(host: Host) -> None:
    for loop in host.loops:
        if loop.is_closed() or loop.runner is not None or not loop.get_ready():
            continue
        asyncio._set_running_loop(loop)
        sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
        try:
            loop._run_once()
            crew = host.kernel.crew  # None if the process has died in this iteration
            if crew is not None and crew.threaded and not loop.has_work():
                loop.fall_asleep()
        finally:
            asyncio._set_running_loop(None)


async def call_plain(main: Callable[[], Any], loop: HostLoop) -> Any:
    """Call a plain main as a process would: no loop and no task runs there, so that it may."""
    task = asyncio.current_task(loop)
    _tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    loop.host.in_plain_main = True
    try:
        result = main()
    finally:
        loop.host.in_plain_main = False
        asyncio._set_running_loop(loop)
        _tasks._enter_task(loop, task)
    return await result if inspect.isawaitable(result) else result
