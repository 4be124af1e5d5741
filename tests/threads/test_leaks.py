"""Nothing is left of runs with threads: no thread, no descriptor, no patch, no memory."""

from __future__ import annotations

import _queue
import _thread
import asyncio
import concurrent.futures
import gc
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.world.world import World
from tests.helpers import run_of, soak
from tests.threads.kernels import KERNELS

RUNS = 100
RUNS_SOAK = 1_000
RUNS_BEFORE = 100
"""So many runs come first: tables grow, and what earlier tests have left is freed."""
MEMORY_MB_MAX = 8
TASKS_MAX = 2
"""So many threads may have ended for Python and not yet for the system."""
PATCHED: tuple[type, ...] = (
    type(threading.Lock()),
    _thread.RLock,
    _queue.SimpleQueue,
    threading.Thread,
    threading.Condition,
)

CPYTHONS_OWN = ("__slotnames__", "__annotations__")
"""What the interpreter itself puts into a class when somebody, in any thread of this process, tries
to pickle one of its objects, or asks for that attribute: no patch of ours."""


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def footprint() -> dict[str, Any]:
    """All of the process that threads could leave something in."""
    gc.collect()
    monitoring = getattr(sys, "monitoring", None)
    return {
        "threads": [thread.name for thread in threading.enumerate()],
        "limbo": len(vars(threading)["_limbo"]),
        "shutdown locks": len(vars(threading).get("_shutdown_locks", ())),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "names": (queue.SimpleQueue, _thread.start_new_thread, time.sleep, threading.excepthook),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace()),
        "tools": monitoring and [monitoring.get_tool(number) for number in range(6)],
        "tasks": len(os.listdir("/proc/self/task")),
        "memory": _memory_mb(),
        **_methods(),
    }


def _methods() -> dict[str, Any]:
    return {
        f"{kind.__name__}.{name}": value
        for kind in PATCHED
        for name, value in vars(kind).items()
        if name not in CPYTHONS_OWN
    }


ORIGINAL = _methods()


def _is_original(name: str, after: dict[str, Any]) -> bool:
    return after.get(name) == ORIGINAL.get(name)


def leaks(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is there now that was not there before."""
    allowed = {"tasks": TASKS_MAX, "memory": MEMORY_MB_MAX}
    names = (before.keys() | after.keys()) - allowed.keys()
    changed = (name for name in names if after.get(name) != before.get(name))
    # A method that is the original one again was left by an earlier test, and is freed by now.
    found = sorted(name for name in changed if "." not in name or not _is_original(name, after))
    return found + [name for name, most in allowed.items() if after[name] > before[name] + most]


# --- what runs leave -------------------------------------------------------------------------


async def everything(world: World) -> None:
    """A daemon that never ends, a host that dies with threads, a pool, a loop's own workers."""

    def stuck() -> None:
        lock = threading.Lock()
        with lock:
            lock.acquire()

    threading.Thread(target=stuck, daemon=True).start()
    host = world.host("a")
    host.start(lambda: time.sleep(3600))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(abs, (-1, -2, -3))) == 6
    await asyncio.to_thread(time.sleep, 1)
    host.crash()


def deadlocked() -> None:
    """A failing run, with threads that are stuck for ever."""
    lock = threading.Lock()

    def take() -> None:
        lock.acquire()

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "everything": (everything, {}),
    "lines": (KERNELS[0].buggy, KERNELS[0].settings),
    "deadlocks": (deadlocked, {}),
}


def leaks_of(main: Callable[..., Any], settings: dict[str, Any], runs: int) -> list[str]:
    """What many runs leave. The first ones may: modules are imported, tables grow."""
    for seed in range(RUNS_BEFORE):
        run_of(main, seed, **settings)
    before = footprint()
    for seed in range(runs):
        run_of(main, seed, **settings)
    return leaks(before, footprint())


@pytest.mark.parametrize("runs", [RUNS, soak(RUNS_SOAK)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_runs_leave_nothing(name: str, runs: int) -> None:
    """In one process, each with a session of its own; whether they fail or not."""
    main, settings = PROGRAMS[name]
    assert leaks_of(main, settings, runs) == []


@pytest.mark.parametrize("runs", [RUNS, soak(RUNS_SOAK)])
def test_a_search_leaves_nothing(runs: int) -> None:
    """All runs in one session: the same, when it is over."""
    settings = KERNELS[0].settings
    foretold.explore(KERNELS[0].fixed, runs=RUNS_BEFORE, **settings)
    before = footprint()
    foretold.explore(KERNELS[0].fixed, runs=runs, **settings)
    assert leaks(before, footprint()) == []


# --- that it would be seen -------------------------------------------------------------------


@contextmanager
def a_thread() -> Iterator[None]:
    """One that nobody joins."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="left")
    thread.start()
    yield
    end.set()
    thread.join()


@contextmanager
def a_descriptor() -> Iterator[None]:
    """A file that nobody closes."""
    left = os.open("/dev/null", os.O_RDONLY)
    yield
    os.close(left)


@contextmanager
def a_method() -> Iterator[None]:
    """One of those that runs replace."""
    kept = threading.Thread.start
    threading.Thread.start = lambda self: kept(self)  # type: ignore[method-assign]  # the mistake
    yield
    threading.Thread.start = kept  # type: ignore[method-assign]  # and its end


@contextmanager
def a_trace_function() -> Iterator[None]:
    """As `preempt` uses it."""
    threading.settrace(lambda *about: None)
    yield
    threading.settrace(None)


@contextmanager
def a_tool() -> Iterator[None]:
    """As `preempt` uses it since Python 3.12."""
    sys.monitoring.use_tool_id(4, "left")  # type: ignore[attr-defined,unused-ignore]  # not in 3.11
    yield
    sys.monitoring.free_tool_id(4)  # type: ignore[attr-defined,unused-ignore]  # not in 3.11


PLANTED: dict[str, Any] = {
    "threads": a_thread,
    "descriptors": a_descriptor,
    "Thread.start": a_method,
    "tracing": a_trace_function,
}
if sys.version_info >= (3, 12):
    PLANTED["tools"] = a_tool


@pytest.mark.parametrize("kind", PLANTED)
def test_a_leak_is_seen(kind: str) -> None:
    """Whatever is left, the comparison names it."""
    before = footprint()
    with PLANTED[kind]():
        after = footprint()
    assert kind in leaks(before, after)
    assert leaks(before, footprint()) == []


def test_memory_that_grows_is_seen() -> None:
    """A program that keeps something of each run."""
    kept: list[bytearray] = []

    def main() -> None:
        thread = threading.Thread(target=lambda: kept.append(bytearray(200_000)))
        thread.start()
        thread.join()

    assert leaks_of(main, {}, runs=200) == ["memory"]


def test_threads_that_pile_up_are_seen() -> None:
    """More threads of the system than there may be, were Python not to know of them."""
    before = footprint()
    assert leaks(before, {**before, "tasks": before["tasks"] + 1_000}) == ["tasks"]
