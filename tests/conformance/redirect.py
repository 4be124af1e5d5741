"""Leads CPython's own asyncio tests onto our loop.

Used in a child process that ends afterwards, so nothing is undone. What a test of CPython may ask
for a loop, it gets one of ours:

- `asyncio.new_event_loop()`, and with it `asyncio.run` and `IsolatedAsyncioTestCase`;
- `test_utils.TestLoop`, whose time a generator foretells: ours lets its own time pass, and the
  generator only checks when each alarm was set for;
- `asyncio.BaseEventLoop()` and `asyncio.SelectorEventLoop()`, by name.

Threads and processes cannot be started, as in a run: whether a thread ended before the loop looked
would be chance, and with it the result of the test. Only in a world (`worlds.py`) there are
threads, which are threads of the world.
"""

from __future__ import annotations

import importlib
import multiprocessing.process
import sys
import threading
import types
from typing import Any, ClassVar, NoReturn

from foretold.kernel.clock import NS, VirtualClock
from foretold.kernel.kernel import Kernel
from foretold.kernel.loop import WorldLoop
from foretold.kernel.policy import StockPolicy
from foretold.tape import Tape
from foretold.trace.record import Trace

MODULES = (
    "test_base_events",
    "test_buffered_proto",
    "test_context",
    "test_eager_task_factory",
    "test_events",
    "test_futures",
    "test_futures2",
    "test_graph",
    "test_locks",
    "test_pep492",
    "test_proactor_events",
    "test_queues",
    "test_runners",
    "test_selector_events",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_ssl",
    "test_sslproto",
    "test_staggered",
    "test_streams",
    "test_taskgroups",
    "test_tasks",
    "test_threads",
    "test_timeouts",
    "test_unix_events",
    "test_waitfor",
)

STOCK_LOOPS = ("test_proactor_events", "test_selector_events")
"""Modules about one stock loop, its selector mocked. Only their TestLoop is ours: stock transports
then live on it."""

IN_A_WORLD = (
    "test_base_events",
    "test_buffered_proto",
    "test_events",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_ssl",
    "test_sslproto",
    "test_streams",
    "test_threads",
    "test_unix_events",
)
"""Modules that use sockets. Each of their tests runs in a world of its own, on its host's loops."""

LEFT_OUT = {
    "test_protocols": "takes no step of a loop",
    "test_subprocess": "real processes only",
    "test_transports": "takes no step of a loop",
    "test_windows_events": "Windows only",
    "test_windows_utils": "Windows only",
}
if sys.version_info >= (3, 14):
    LEFT_OUT |= {
        "test_free_threading": "threads that run at the same time, each with a loop",
        "test_tools": "takes no step of a loop",
    }


class OurLoop(WorldLoop):
    """A loop that can be made as the stock ones are. Time passes while code runs."""

    kernels: ClassVar[list[Kernel]] = []
    """The kernels of all loops since the list was last emptied: they know their steps."""

    def __init__(self, selector: object = None) -> None:
        super().__init__(self._make_kernel(VirtualClock()))

    def _make_kernel(self, clock: VirtualClock) -> Kernel:
        kernel = Kernel("main", Tape.seeded(0), Trace(), clock, order="asyncio")
        self.kernels.append(kernel)
        return kernel


class OurTestLoop(OurLoop):
    """What `test_utils.TestLoop` inherits from. Time is exact, starts at 0, and is our own."""

    _timers: list[float]

    def __init__(self) -> None:
        clock = VirtualClock(monotonic_s=0)
        clock.make_exact()
        WorldLoop.__init__(self, self._make_kernel(clock))

    @property
    def _time(self) -> float:
        return self._clock.ns / NS

    @_time.setter
    def _time(self, time_s: float) -> None:
        assert time_s == 0, "TestLoop.__init__ alone may set the time"

    def call_later(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]  # passed through
        handle = super().call_later(*args, **more)
        self._timers.append(handle.when())  # the stock call_later goes through call_at, which does
        return handle

    def _deadlock(self) -> NoReturn:
        if self.is_running():
            super()._deadlock()
        # A bare `loop._run_once()` with nothing to do: the selector of a TestLoop never blocks.
        return  # type: ignore[misc]  # for this loop alone it is no error


class NumberingLoop(OurLoop):
    """Calls tasks without a name as asyncio does. Ours are called after their functions."""

    def create_task(self, coro: Any, **more: Any) -> Any:
        return super().create_task(coro, **{"name": "Task-1", **more})


class LastInFirstOutLoop(OurLoop):
    """A planted mistake: the newest callback runs first. Many tests must notice."""

    def call_soon(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]  # passed through
        handle = super().call_soon(*args, **more)
        self._ready.rotate()
        return handle


class StandIn(types.ModuleType):
    """A module with some names of ours; all others are the original's."""

    def __init__(self, original: types.ModuleType, **ours: object) -> None:
        super().__init__(original.__name__)
        self.__dict__.update(ours, _original=original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def lead(module_name: str, loop: type[WorldLoop] = OurLoop) -> Any:
    """Import one of CPython's test modules, led onto our loop."""
    utils: Any = importlib.import_module("test.test_asyncio.utils")
    module: Any = importlib.import_module(f"test.test_asyncio.{module_name}")
    utils.TestLoop.__bases__ = (OurTestLoop,)
    utils.TestLoop.advance_time = _let_our_time_pass
    if module_name in STOCK_LOOPS:
        return module
    policy: Any = StockPolicy
    policy._loop_factory = NumberingLoop if module_name == "test_graph" else loop
    _lead_by_name(module, loop)
    if module_name == "test_events":
        _lead_test_events(module)
    for kind in (threading.Thread, multiprocessing.process.BaseProcess):
        kind.start = _refuse  # type: ignore[method-assign, assignment]  # this process ends soon
    return module


_SENDFILE = "test.test_asyncio.test_sendfile"


def _let_our_time_pass(test_loop: OurTestLoop, advance: float) -> None:
    """In place of `TestLoop.advance_time`."""


def _refuse(thread_or_process: object) -> NoReturn:
    raise RuntimeError("outside of a world there is no thread, and nowhere a process")


def _lead_by_name(module: Any, loop: type[WorldLoop]) -> None:
    names = dict.fromkeys(("BaseEventLoop", "SelectorEventLoop", "EventLoop"), loop)
    for name in ("asyncio", "base_events"):
        # test_sendfile asks base_events for what a loop without a sendfile does, not for a loop.
        if hasattr(module, name) and (name, module.__name__) != ("base_events", _SENDFILE):
            setattr(module, name, StandIn(getattr(module, name), **names))
    for name in ("EPollEventLoopTests", "PollEventLoopTests"):
        if hasattr(module, name):  # as SelectEventLoopTests but for the selector, and ours is one
            delattr(module, name)


def _lead_test_events(module: Any) -> None:
    # Every test attaches one, and with it a signal handler, lest it start a process.
    watcher: Any = getattr(module.asyncio, "SafeChildWatcher", None)  # 3.14: there are none
    if watcher is not None:
        watcher.attach_loop = lambda self, loop: None
