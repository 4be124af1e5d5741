"""Other engines than asyncio's own: uvloop is the world's loop, the others are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import gc
import multiprocessing
import multiprocessing.pool
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import foretold
from foretold.kernel import engines


async def nap() -> tuple[float, str]:
    """How long five seconds take, and on which loop."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(5)
    return round(loop.time() - began), type(loop).__name__


def by_run() -> Any:
    """What uvloop recommends."""
    import uvloop

    return uvloop.run(nap())


def by_factory() -> Any:
    """What asyncio recommends."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(nap())


def by_class() -> Any:
    """The loop itself."""
    import uvloop

    loop = uvloop.Loop()
    try:
        return loop.run_until_complete(nap())
    finally:
        loop.close()


def by_policy() -> Any:
    """What most services still do, though Python 3.14 warns of it."""
    import uvloop

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        uvloop.install()
        return asyncio.run(nap())


@pytest.mark.parametrize("start", [by_run, by_factory, by_class, by_policy])
def test_uvloop_is_the_worlds_loop(start: Callable[[], Any]) -> None:
    """Whichever way a program asks for it: time is virtual, and the tape decides."""
    pytest.importorskip("uvloop")
    done = foretold.run(start)
    assert done.value == (5, "Loop")
    assert done.virtual_s >= 5
    assert foretold.run(start).digest == done.digest


def test_a_program_is_the_same_with_and_without_uvloop() -> None:
    """The factory changes nothing of the run."""
    pytest.importorskip("uvloop")

    def plain() -> Any:
        with asyncio.Runner() as runner:
            return runner.run(nap())

    with_uvloop, without = foretold.run(by_factory), foretold.run(plain)
    assert with_uvloop.virtual_s == without.virtual_s
    assert with_uvloop.steps == without.steps


def test_outside_of_a_run_uvloop_is_itself() -> None:
    """Before and after a run that used it, and `uvloop.run` is content in both places."""
    uvloop = pytest.importorskip("uvloop")
    foretold.run(by_run)
    loop = uvloop.new_event_loop()
    assert type(loop) is uvloop.Loop
    loop.close()

    async def kind() -> type:
        return type(asyncio.get_running_loop())

    assert uvloop.run(kind()) is uvloop.Loop
    assert "__new__" not in vars(uvloop.Loop)


def test_a_loop_of_uvloop_from_before_the_run_is_refused() -> None:
    """It cannot be exchanged any more; the error says where to make it."""
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()

    def main() -> Any:
        waiting = nap()
        try:
            return loop.run_until_complete(waiting)
        finally:
            waiting.close()

    try:
        with pytest.raises(foretold.EscapedWorld, match="made before the run") as caught:
            foretold.run(main)
        assert "make the loop inside of the run" in str(caught.value)
        assert loop.run_until_complete(asyncio.sleep(0, "real")) == "real"
    finally:
        loop.close()
    assert "run_forever" not in vars(uvloop.Loop)


def trio_() -> Any:
    """A loop of another kind."""
    import trio

    return trio.run(trio.sleep, 5)


def gevent_sleep() -> Any:
    """Its own time."""
    import gevent

    gevent.sleep(5)


def gevent_spawn() -> Any:
    """Its own schedule."""
    import gevent

    return gevent.spawn(int).get()


def process() -> Any:
    """By the default method."""
    multiprocessing.Process(target=int).start()


def spawned_process() -> Any:
    """By the method that is the default elsewhere."""
    multiprocessing.get_context("spawn").Process(target=int).start()


def pool() -> Any:
    """Many of them."""
    with multiprocessing.Pool(2) as processes:
        return processes.map(abs, [1])


def manager() -> Any:
    """One that holds objects for others."""
    with multiprocessing.Manager() as objects:
        return objects.dict()


def memory() -> Any:
    """What several of them would see."""
    return shared_memory.SharedMemory(create=True, size=10)


def executor() -> Any:
    """As asyncio's programs use them."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        with concurrent.futures.ProcessPoolExecutor(2) as processes:
            return await loop.run_in_executor(processes, abs, -1)

    return asyncio.run(main())


def time_machine_() -> Any:
    """Another master of the clocks."""
    import time_machine

    with time_machine.travel("2020-01-01", tick=False):
        return time.time(), datetime.datetime.now()  # as people write it


REFUSED: dict[Callable[[], Any], tuple[str, str]] = {
    trio_: ("trio.run(main)", 'anyio.run(main, backend="asyncio")'),
    gevent_sleep: ("gevent's loop", "leave gevent"),
    gevent_spawn: ("gevent's loop", "leave gevent"),
    process: ("multiprocessing.Process.start()", 'world.host("worker").start(main)'),
    spawned_process: ("multiprocessing.Process.start()", 'world.host("worker").start(main)'),
    pool: ("multiprocessing.Pool()", "multiprocessing.pool.ThreadPool()"),
    manager: ("multiprocessing.Manager()", "plain objects"),
    memory: ("multiprocessing.shared_memory.SharedMemory()", "bytearray(size)"),
    time_machine_: ("time_machine.travel(…)", "world.clock.set_time(instant)"),
    executor: ("ProcessPoolExecutor.submit(work)", "concurrent.futures.ThreadPoolExecutor()"),
}


@pytest.mark.parametrize("main", REFUSED, ids=lambda main: main.__name__)
def test_it_is_refused_in_one_sentence(main: Callable[[], Any]) -> None:
    """The error names what the program has written, not what that happens to call, and a remedy."""
    library = main.__name__.rstrip("_").removesuffix("_sleep").removesuffix("_spawn")
    if library in ("trio", "gevent", "time_machine"):
        pytest.importorskip(library)
    call, instead = REFUSED[main]
    with pytest.raises(foretold.EscapedWorld) as caught:
        foretold.run(main)
    said = str(caught.value).splitlines()
    assert said[0] == f"{call} would leave the simulated world."
    assert said[2].startswith(f"Instead: {instead}")


@pytest.mark.parametrize(
    ("module", "name", "call", "instead"),
    [
        ("joblib._parallel_backends", "get_memmapping_executor",
         "joblib.Parallel with processes", 'joblib.Parallel(n_jobs=2, backend="threading")'),
        ("joblib._parallel_backends", "MemmappingPool",
         "joblib.Parallel with processes", 'joblib.Parallel(n_jobs=2, backend="threading")'),
        ("watchfiles.main", "RustNotify",
         "watchfiles.awatch(…)", "call what handles the changes yourself"),
    ],
)  # fmt: skip
def test_libraries_that_are_not_here_are_refused_where_they_begin(
    module: str, name: str, call: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module with that function stands for the library. Otherwise joblib would be refused for the
    signals that it blocks first, with a remedy that has nothing to do with it; and watchfiles for
    its thread, with a remedy that does not help: each watch has a thread of its own."""
    library = ModuleType(module)
    vars(library)[name] = dict
    monkeypatch.setitem(sys.modules, module, library)
    with pytest.raises(foretold.EscapedWorld) as caught:
        foretold.run(lambda: vars(library)[name](n_jobs=2))
    engines._changes_of.cache_clear()  # nothing of the stand-in stays
    said = str(caught.value).splitlines()
    assert said[0] == f"{call} would leave the simulated world."
    assert said[2].startswith(f"Instead: {instead}")
    assert vars(library)[name] is dict


def test_a_semaphore_leaves_no_name_on_the_real_machine() -> None:
    """Whatever way of starting processes is the default: where that is not `fork`, semaphores keep
    a name in the real machine until a process of `multiprocessing` removes it. So libraries may
    make one, as long as they start nothing."""
    names = {path.name for path in Path("/dev/shm").glob("sem.*")}

    def main() -> bool:
        lock = multiprocessing.get_context("spawn").Lock()
        with lock:
            return bool(lock.acquire(block=False))

    assert foretold.run(main).value is False
    gc.collect()
    assert {path.name for path in Path("/dev/shm").glob("sem.*")} <= names


def test_the_remedies_help() -> None:
    """What the errors propose in place of processes runs in a world."""

    def main() -> Any:
        with multiprocessing.pool.ThreadPool(2) as threads:
            mapped = threads.map(abs, [-1, 2])
        with concurrent.futures.ThreadPoolExecutor(2) as threads_too:
            return mapped, threads_too.submit(abs, -3).result()

    assert foretold.run(main).value == ([1, 2], 3)


def test_nothing_is_left_of_the_refusals() -> None:
    """Methods are the modules' own when no session lasts."""
    kinds = (multiprocessing.process.BaseProcess, multiprocessing.pool.Pool)
    before = [dict(vars(kind)) for kind in kinds]
    with pytest.raises(foretold.EscapedWorld):
        foretold.run(process)
    assert [dict(vars(kind)) for kind in kinds] == before
    assert before[0]["start"].__code__.co_filename == multiprocessing.process.__file__


def test_the_title_of_the_process_stays() -> None:
    """A server that writes its state into the list of processes would write into the runner's."""
    titles = pytest.importorskip("setproctitle")
    before = titles.getproctitle()
    foretold.run(lambda: titles.setproctitle("worker: idle"))
    assert titles.getproctitle() == before
