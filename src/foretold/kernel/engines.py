"""Other engines: what else runs a program than asyncio's own loop and Python's threads.

uvloop is asyncio's interface over another loop, and production uses it. A program that asks for it
gets the world's loop, under whatever name: the same program, without a change.

trio, gevent and processes have schedulers of their own, about which no tape decides; time_machine
rewrites the same clocks as the world. Each is
refused where it begins, in one sentence with what to write instead, rather than where it happens
to touch the real machine: there the error would name a call that nobody has written.

aiohttp leaves names to a resolver in C where one is installed; in a run it takes its other one.

Nothing is done before one of them is imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, NamedTuple

from foretold.kernel import fence
from foretold.kernel.swap import ModuleName, ProcessChange, Setting, Swap, copy_of
from foretold.kernel.syscalls.of_os import PROCESS_INSTEAD, PROCESS_WHY
from foretold.kernel.threads import executors


class _Refusal(NamedTuple):
    """A function of a module, or a method of its class, that begins what no run can have."""

    module: str
    owner: str
    """The class; empty for a function of the module."""
    name: str
    call: str
    """As it stands in the program."""
    why: str
    instead: str


_THREADS = "concurrent.futures.ThreadPoolExecutor()  # the same interface, with simulated threads"
_MEMORY = "shared memory outlives the run, and the world has no other process"

_REFUSALS: Final = (
    _Refusal("trio._core._run", "", "setup_runner", "trio.run(main)",
             "trio has a scheduler of its own, which chooses at random and waits in real time",
             'anyio.run(main, backend="asyncio")  # what is written for anyio runs on asyncio'),
    _Refusal("gevent.hub", "Hub", "__init__", "gevent's loop",
             "gevent runs greenlets on a loop of its own, in C, which waits in real time",
             "leave gevent and monkey.patch_all() out of the test: plain threads, time.sleep and "
             "sockets are simulated"),
    _Refusal("concurrent.futures.process", "ProcessPoolExecutor", "submit",
             "ProcessPoolExecutor.submit(work)", PROCESS_WHY, _THREADS),
    _Refusal("multiprocessing.pool", "Pool", "_setup_queues", "multiprocessing.Pool()",
             PROCESS_WHY,  # a ThreadPool has its own
             "multiprocessing.pool.ThreadPool()  # the same interface, with simulated threads"),
    _Refusal("multiprocessing.managers", "BaseManager", "start", "multiprocessing.Manager()",
             PROCESS_WHY, "plain objects: the threads of a host share them"),
    _Refusal("multiprocessing.process", "BaseProcess", "start", "multiprocessing.Process.start()",
             PROCESS_WHY, PROCESS_INSTEAD),
    _Refusal("multiprocessing.shared_memory", "SharedMemory", "__init__",
             "multiprocessing.shared_memory.SharedMemory()", _MEMORY,
             "bytearray(size)  # the threads of a host share it"),
    _Refusal("time_machine", "travel", "start", "time_machine.travel(…)",
             "it replaces Python's clocks in C, and so does foretold",
             "world.clock.set_time(instant), or start there: foretold.run(main, epoch_s=instant)"),
    *(_Refusal("joblib._parallel_backends", "", name, "joblib.Parallel with processes", PROCESS_WHY,
               'joblib.Parallel(n_jobs=2, backend="threading"), or around a library that uses '
               'joblib: with joblib.parallel_config(backend="threading"):')
      for name in ("get_memmapping_executor", "MemmappingPool")),  # loky, and multiprocessing
    _Refusal("watchfiles.main", "", "RustNotify", "watchfiles.awatch(…)",
             "it watches the real disk, on a thread of its own in Rust",
             "call what handles the changes yourself, after the program has written its files"),
    _Refusal("sentry_sdk.utils", "", "get_git_revision", "git, of which Sentry asks the release,",
             PROCESS_WHY, 'sentry_sdk.init(release="1.0", …)'),
)  # fmt: skip


def _refuse(refusal: _Refusal, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def refused(*args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        if computer is not None:
            computer.escaped(refusal.call, refusal.why, refusal.instead)
        return original(*args, **names)

    return refused


def _changes_for(refusal: _Refusal, module: ModuleType) -> Iterator[ProcessChange]:
    owner: Any = getattr(module, refusal.owner, None) if refusal.owner else module
    original = None if owner is None else vars(owner).get(refusal.name)
    if original is None:
        return  # another version of it; the fence still stands where it touches the real machine
    if refusal.owner:
        yield Setting(owner, refusal.name, _refuse(refusal, original))
    else:
        yield ModuleName(module, refusal.name, _refuse(refusal, original))


# --- the tracker of semaphores -----------------------------------------------------------------

_TRACKER: Final = "multiprocessing.resource_tracker"


def _tracker_changes(module: ModuleType) -> Iterator[ProcessChange]:
    """A lock of `multiprocessing` is told to a process that cleans up after crashes. Threads may
    use such locks (a `ThreadPool` does), which must not start a process for that."""
    kind: Any = getattr(module, "ResourceTracker", None)
    send = vars(kind).get("_send") if kind is not None else None
    if send is None:
        return

    def sent(self: Any, *message: Any) -> None:
        if fence.fenced_in() is None:
            send(self, *message)

    yield Setting(kind, "_send", sent)


# --- uvloop ------------------------------------------------------------------------------------

_UVLOOPS_OWN: Final = _Refusal(
    "uvloop", "Loop", "run_forever", "a uvloop.Loop that was made before the run",
    "it is uvloop's own, in C, and waits in real time",
    "make the loop inside of the run: uvloop.run(main()) there gives the world's loop",
)  # fmt: skip


def _uvloop_changes(module: ModuleType) -> Iterator[ProcessChange]:
    kind: Any = module.Loop
    new = kind.__new__

    def made(cls: Any, *args: Any, **names: Any) -> Any:
        computer = fence.fenced_in()
        make = None if computer is None else computer.answer("asyncio.loop")
        return new(cls, *args, **names) if make is None else _as_uvloops(make(), kind)

    yield Setting(kind, "__new__", staticmethod(made))
    yield Setting(kind, "run_forever", _refuse(_UVLOOPS_OWN, kind.run_forever))


def _as_uvloops(loop: Any, kind: Any) -> Any:
    """`uvloop.run` insists on a loop of its own class; a class may say that it is another."""
    ours: Any = type(loop)
    loop.__class__ = _disguised(ours, kind)
    return loop


@functools.cache
def _disguised(kind: Any, as_kind: Any) -> type:
    return type(as_kind.__name__, (kind,), {"__class__": property(lambda self: as_kind)})


# --- names in aiohttp --------------------------------------------------------------------------

_RESOLVERS: Final = "aiohttp.resolver"


def _resolver_changes(module: ModuleType) -> Iterator[ProcessChange]:
    """Where aiodns is installed, aiohttp asks a library in C for names, on a thread of that one. In
    a run it asks the loop, as it does where aiodns is not installed."""
    kind, plain = vars(module)["AsyncResolver"], vars(module)["ThreadedResolver"]
    begin = kind.__init__

    @functools.wraps(begin)
    def begun(self: Any, loop: Any = None, *args: Any, **names: Any) -> None:
        if fence.fenced_in() is None or type(self) is not kind:
            begin(self, loop, *args, **names)
        else:
            self.__class__ = plain
            self.__init__(loop)

    yield Setting(kind, "__init__", begun)


# --- the title of the process ------------------------------------------------------------------


def _title_changes(module: ModuleType) -> Iterator[ProcessChange]:
    """Servers write their state into the list of processes; in a run that would be the runner's."""
    for name in ("setproctitle", "setthreadtitle"):
        builtin: Any = vars(module).get(name)
        if type(builtin) is BuiltinFunctionType:
            yield Swap(builtin, _unless_in_a_run(copy_of(builtin)))


def _unless_in_a_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **names: Any) -> Any:
        return original(*args, **names) if fence.fenced_in() is None else None

    return called


# --- all of them -------------------------------------------------------------------------------

_adopted: Final[set[str]] = set()
_OTHERS: Final[dict[str, tuple[str, Callable[[ModuleType], Iterator[ProcessChange]]]]] = {
    "uvloop": ("new_event_loop", _uvloop_changes),
    _TRACKER: ("main", _tracker_changes),
    _RESOLVERS: ("DefaultResolver", _resolver_changes),
    "setproctitle": ("getthreadtitle", _title_changes),
    "concurrent.futures.thread": ("ThreadPoolExecutor", executors.changes),
}
"""Modules, a name that they have when they are imported, and what is changed then."""


def new_changes() -> Iterator[ProcessChange]:
    """For the engines that were imported since the last time."""
    for name, (last, _) in _OTHERS.items():
        if name not in _adopted and hasattr(sys.modules.get(name), last):
            _adopted.add(name)
            yield from _changes_of_other(name)
    for refusal in _REFUSALS:
        key = f"{refusal.module}.{refusal.owner}.{refusal.name}"
        module = None if key in _adopted else sys.modules.get(refusal.module)
        if module is not None and hasattr(module, refusal.owner or refusal.name):
            _adopted.add(key)
            yield from _changes_of(refusal)


@functools.cache
def _changes_of(refusal: _Refusal) -> tuple[ProcessChange, ...]:
    """Made once: they are applied and undone for every session."""
    return tuple(_changes_for(refusal, sys.modules[refusal.module]))


@functools.cache
def _changes_of_other(name: str) -> tuple[ProcessChange, ...]:
    return tuple(_OTHERS[name][1](sys.modules[name]))


def forget() -> None:
    """All changes are undone."""
    _adopted.clear()
