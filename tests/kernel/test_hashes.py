"""Objects that libraries put into sets have the same order in each run, and never change hash."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import os
import pathlib
import subprocess
import sys
import threading
import weakref
from asyncio import futures
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from foretold.kernel import hashes
from foretold.kernel.numbers import numbers
from foretold.kernel.patches import patches
from foretold.kernel.swap import init_slot
from foretold.tape import Tape
from tests.kernel.fake_computer import FakeComputer, a_run


class PlainFuture(asyncio.Future):  # type: ignore[type-arg]  # the parameter plays no part here
    """As users write it, before anything of ours is installed."""


class OwnFuture(asyncio.Future):  # type: ignore[type-arg]  # as above
    """As our loop's futures are: it hashes by itself."""

    def __hash__(self) -> int:
        return 12_345


class Worker(threading.Thread):
    """A thread with a constructor, and attributes that need one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ready = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked of an unfinished object")


class QuietLoop:
    """Enough of a loop to make futures for, which no selector has to serve."""

    def get_debug(self) -> bool:
        return False

    def call_soon(self, *args: object, **names: object) -> None:
        pass

    def call_exception_handler(self, context: object) -> None:
        pass

    def is_closed(self) -> bool:
        return False


LOOP: Any = QuietLoop()


async def nothing() -> None:
    """A coroutine for a task."""


def new_task(kind: Any = asyncio.Task) -> Any:
    """A task that never runs, whose coroutine is closed again at once."""
    coroutine = nothing()
    task = kind(coroutine, loop=LOOP)
    task._log_destroy_pending = False
    coroutine.close()
    return task


def new_scope() -> Any:
    """anyio's cancel scope as its asyncio backend makes it."""
    return sys.modules["anyio._backends._asyncio"].CancelScope()


MAKERS: dict[str, Callable[[], Any]] = {
    "threading.Thread": threading.Thread,
    "a subclass of Thread": Worker,
    "concurrent Future": concurrent.futures.Future,
    "asyncio.Future": lambda: asyncio.Future(loop=LOOP),
    "a subclass of Future": lambda: PlainFuture(loop=LOOP),
    "asyncio.Task": new_task,
    "Python's Future": lambda: futures._PyFuture(loop=LOOP),  # type: ignore[attr-defined]  # private: no stub has it
    "Python's Task": lambda: new_task(asyncio.tasks._PyTask),  # type: ignore[attr-defined]  # private: no stub has it
    "CancelScope": new_scope,
    "asyncio.Lock": asyncio.Lock,
    "asyncio.Event": asyncio.Event,
    "asyncio.Semaphore": asyncio.Semaphore,
    "a subclass of Semaphore": lambda: asyncio.BoundedSemaphore(2),
    "asyncio.StreamReader": lambda: asyncio.StreamReader(loop=LOOP),
}


@pytest.fixture(autouse=True)
def _anyio_is_loaded(_others_out_of_sight: None) -> Iterator[None]:
    """The backend is what `anyio` imports at its first use."""
    anyio.get_all_backends()
    with a_run():
        pass
    gc.collect()
    yield
    gc.collect()


@pytest.mark.parametrize("kind", MAKERS)
def test_objects_of_a_run_are_numbered(kind: str) -> None:
    """One, two, three in each run; so sets of them have one order. Outside runs: addresses."""
    make = MAKERS[kind]
    outside = make()
    assert hash(outside) == object.__hash__(outside)
    for _ in range(2):
        with a_run():
            made = [make() for _ in range(3)]
            numbers = [hash(thing) for thing in made]
            assert numbers == [1, 2, 3]
            assert [hash(thing) for thing in set(made)] == [1, 2, 3]
            del made


@pytest.mark.parametrize("kind", MAKERS)
def test_an_object_keeps_its_hash_for_life(kind: str) -> None:
    """In each set that it was ever put into it must be found: before, in, after, and removed."""
    make = MAKERS[kind]
    holder: dict[str, Any] = {}
    places: dict[str, dict[Any, str]] = {}

    def found() -> bool:
        return all(places[when].get(holder[when]) == when for when in holder)

    def keep(when: str) -> None:
        holder[when] = make()
        places[when] = {holder[when]: when}

    keep("before")
    numbers.begin_run(Tape.calm())
    with patches.installed():
        keep("installed")
        with patches.active(FakeComputer()):
            keep("in a run")
            assert found()
        assert found()
        with patches.active(FakeComputer()):
            keep("in another run")
            assert found()
    assert found()
    with a_run():
        assert found()
    assert found()
    assert hash(holder["in a run"]) == 1
    assert hash(holder["in another run"]) == 2


@pytest.mark.parametrize("kind", MAKERS)
def test_a_number_dies_with_its_object(kind: str) -> None:
    """The next object at the same address is another one: nothing of the old may stick to it."""
    make = MAKERS[kind]
    with patches.installed():
        of_others = dict(hashes._numbers_by_id)  # what a library holds of the run of another test
        with patches.active(FakeComputer()):
            make()
        gc.collect()
        after = [make() for _ in range(50)]
        assert all(hash(thing) == object.__hash__(thing) for thing in after)
        assert hashes._numbers_by_id == of_others


COMPOUND: dict[str, Callable[[], Any]] = {
    "asyncio.Queue": asyncio.Queue,
    "a subclass of Queue": asyncio.PriorityQueue,
    "asyncio.Condition": asyncio.Condition,
    "asyncio.Barrier": lambda: asyncio.Barrier(2),
}


@pytest.mark.parametrize("kind", COMPOUND)
def test_objects_made_of_others_are_numbered_as_well(kind: str) -> None:
    """A queue holds an event, a condition a lock, which take numbers too: they only count up."""
    seen = []
    for _ in range(2):
        with a_run():
            made = [COMPOUND[kind]() for _ in range(5)]
            seen.append([hash(thing) for thing in made])
            assert seen[-1] == sorted(seen[-1])
            assert max(seen[-1]) <= 15
            del made
    assert seen[0] == seen[1]


def slots() -> dict[str, object]:
    """All that `install` changes, as it is now."""
    kinds = (threading.Thread, concurrent.futures.Future, asyncio.Future, asyncio.Task, PlainFuture)
    names = ("__hash__", "__init__", "__del__")
    entries = {f"{k.__name__}.{n}": vars(k).get(n) for k in kinds for n in names}
    inits = {f"{k.__name__} init": init_slot(k) for k in (*kinds, OwnFuture)}
    scope = sys.modules["anyio._backends._asyncio"].CancelScope
    return entries | inits | {f"CancelScope.{n}": vars(scope).get(n) for n in names}


def removal_is_exact_when_nothing_is_left() -> None:
    """Class attributes and C slots are the very objects and pointers of before."""
    before = slots()
    with patches.installed(), patches.active(FakeComputer()):
        for make in MAKERS.values():
            make()
        during = slots()
    assert slots() == before
    assert during["Thread.__hash__"] is hashes.hash_by_number
    assert during["CancelScope.__hash__"] is hashes.hash_by_id


def removal_waits_for_the_last_numbered_object() -> None:
    """While one lives, the classes keep their hash; a removal after its death takes it away."""
    before = slots()
    with a_run():
        survivor = concurrent.futures.Future[None]()
    assert slots() != before
    assert hash(survivor) == 1
    assert hash(concurrent.futures.Future()) > 1_000
    del survivor
    with patches.installed():
        pass
    assert slots() == before


def removal_is_not_held_up_by_garbage() -> None:
    """Runs leave cycles behind, which nobody can look up in a set: they do not count."""
    before = slots()
    gc.disable()
    try:
        with a_run():
            future: Any = concurrent.futures.Future()
            future.cycle = future
            del future
        assert slots() == before
    finally:
        gc.enable()


def removal_collects_until_nothing_more_is_freed() -> None:
    """What a finalizer brings back to life for a moment is garbage only in the next round."""
    before = slots()
    shelf: list[object] = []

    class Phoenix:
        def __init__(self) -> None:
            self.me, self.future = self, concurrent.futures.Future[None]()

        def __del__(self) -> None:
            shelf.append(self)

    def forget(phase: str, info: object) -> None:
        if phase == "stop":
            shelf.clear()

    gc.callbacks.append(forget)
    try:
        with a_run():
            Phoenix()
        assert slots() == before
    finally:
        gc.callbacks.remove(forget)


REMOVALS = (
    removal_is_exact_when_nothing_is_left,
    removal_waits_for_the_last_numbered_object,
    removal_is_not_held_up_by_garbage,
    removal_collects_until_nothing_more_is_freed,
)
IN_A_PROCESS = """
import anyio
anyio.get_all_backends()
from tests.kernel import test_hashes
with test_hashes.a_run():
    pass
test_hashes.{name}()
"""


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda each: each.__name__)
def test_removal(removal: Callable[[], None]) -> None:
    """Each in a process of its own: here, libraries that other tests use may hold objects of their
    runs for good (FastAPI keeps endpoints in caches), and then nothing may be removed."""
    in_a_process(IN_A_PROCESS.format(name=removal.__name__))


IMPORTED_LATE = """
import sys
import foretold

async def main():
    import anyio
    return [hash(anyio.CancelScope()) for _ in range(3)]

assert "anyio" not in sys.modules
first, second = (foretold.run(main).value for _ in range(2))
assert first == second, (first, second)
"""


def test_a_library_that_the_run_imports_has_hashes_at_once() -> None:
    """Not only from the next run on: with `isolation="fork"` each run is the first of its process,
    and one in which scopes hash by their addresses would not repeat."""
    in_a_process(IMPORTED_LATE)


def in_a_process(program: str) -> None:
    """Run it in a fresh one."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=pathlib.Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_our_own_futures_are_left_alone() -> None:
    """They are made on the hot path: not even the C function that makes them is replaced."""
    before = init_slot(OwnFuture)
    with a_run():
        own = OwnFuture(loop=LOOP)
        assert hash(own) == 12_345
        assert init_slot(OwnFuture) == before
        assert init_slot(PlainFuture) != init_slot(OwnFuture)
        assert not hasattr(own, hashes._ATTRIBUTE)
        assert hash(asyncio.Future(loop=LOOP)) == 1, "it took no number"


def test_two_calls_of_init_give_one_number() -> None:
    """`anyio.CancelScope()` initialises its object twice; so may any subclass."""
    with a_run():
        thread = threading.Thread()
        thread_hash = hash(thread)
        threading.Thread.__init__(thread)
        scope = new_scope()
        scope_hash = hash(scope)
        scope.__init__()
        assert (hash(thread), hash(scope)) == (thread_hash, scope_hash) == (1, 2)


def test_threads_enter_the_librarys_own_sets_with_their_number() -> None:
    """`threading` puts a thread into a set while it is being made: numbered before, not after."""
    with a_run():
        thread = threading.Thread()
        dangling: weakref.WeakSet[Any] = vars(threading)["_dangling"]
        assert thread in dangling
    assert thread in dangling


def test_other_threads_get_no_numbers() -> None:
    """What a bystander makes during a run is none of the run's business."""
    made: list[Any] = []
    started, go_on = threading.Event(), threading.Event()

    def bystander() -> None:
        started.set()
        go_on.wait(30)
        made.append(concurrent.futures.Future())

    thread = threading.Thread(target=bystander)
    thread.start()
    started.wait(30)
    with a_run():
        go_on.set()
        thread.join(30)
        assert hash(concurrent.futures.Future()) == 1
    assert hash(made[0]) == object.__hash__(made[0])


def test_constructors_keep_their_signature() -> None:
    """Tools that look at `Thread` (and mocks made of it) must see its parameters."""
    before = inspect.signature(threading.Thread)
    with a_run():
        assert inspect.signature(threading.Thread) == before
        with pytest.raises(TypeError, match="unexpected keyword"):
            threading.Thread(planted=1)  # type: ignore[call-arg]  # the mistake


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind.endswith(("Future", "Task"))])
def test_a_future_made_in_debug_mode_names_its_maker(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio shows where a future was made: that is the user's line, not one of ours."""
    monkeypatch.setattr(QuietLoop, "get_debug", lambda self: True)

    def stack() -> list[str]:
        made = MAKERS[kind]()
        # The newest frames: asyncio keeps ten, and ours took the place of the oldest.
        return [frame.name for frame in getattr(made, "_source_traceback", None) or ()][-4:]

    outside = stack()
    with a_run():
        assert stack() == outside
    assert ("stack" in outside) == (kind != "concurrent Future"), "vacuous otherwise"


PROGRAM = """
import sys, threading
sys.path[:0] = {path!r}
import anyio
from foretold.kernel import hashes
from foretold.kernel.patches import patches
from tests.kernel.fake_computer import FakeComputer
from tests.kernel.test_hashes import MAKERS

if {planted}:
    import anyio._backends._asyncio
    hashes.install = hashes.begin_run = lambda: None
ballast = [threading.Thread() for _ in range({ballast})]
with patches.installed(), patches.active(FakeComputer()):
    made = [make() for _ in range(20) for make in MAKERS.values()]
    index = {{id(thing): i for i, thing in enumerate(made)}}
    print([index[id(thing)] for thing in set(made)])
"""


def orders(*, planted: bool) -> set[str]:
    """What the program prints in processes whose heaps differ."""
    root = pathlib.Path(__file__).parents[2]
    path = [str(root / "src"), str(root)]
    printed = set()
    for ballast in (0, 1, 7, 100):
        text = PROGRAM.format(path=path, ballast=ballast, planted=planted)
        result = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        printed.add(result.stdout)
    return printed


def test_processes_agree_on_the_order_of_a_set() -> None:
    """Four processes with different heaps print one order; planted without numbers, several.

    Of anyio only the package itself is imported there: its backend, which is loaded with the first
    use, must be in time for the first run.
    """
    assert len(orders(planted=False)) == 1
    assert len(orders(planted=True)) > 1
