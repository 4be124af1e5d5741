"""Threads under the tape: locks and what is made of them, order, deadlocks, what nobody caught."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import queue
import sys
import threading
import time
from _queue import SimpleQueue
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from tests.helpers import again, run_of, soak

SEEDS, SEEDS_SOAK = 12, 50
HOW: list[Any] = [
    {"order": order, "strategy": strategy}
    for order in ("any", "asyncio")
    for strategy in ("random", "pct", "delays", "fifo")
]


def in_threads(*works: Callable[[], Any]) -> None:
    """Start a thread for each, and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- what a thread is ------------------------------------------------------------------------


def test_a_thread_runs_as_itself() -> None:
    """Identity, name, thread-local data and what `threading` lists are CPython's own."""

    def main() -> Any:
        local, seen = threading.local(), []
        local.name = "main"

        def work() -> None:
            me = threading.current_thread()
            assert not hasattr(local, "name")
            local.name = me.name
            assert me.ident == threading.get_ident()
            assert me in threading.enumerate()
            seen.append(me.name)

        in_threads(work, work)
        return seen, local.name, threading.active_count()

    around = threading.active_count()  # a worker of pytest-xdist has threads of its own
    assert run_of(main, strategy="fifo").value == (
        ["Thread-1 (work)", "Thread-2 (work)"],
        "main",
        around,
    )


def primitives() -> Any:
    """Everything that `threading` and `queue` have, at once."""
    log: list[Any] = []
    go, gate, meet = threading.Event(), threading.Semaphore(2), threading.Barrier(3)
    changed, lock, items = threading.Condition(), threading.RLock(), queue.Queue[Any](2)

    def work(number: int) -> None:
        go.wait()
        with gate, lock, lock:
            log.append(number)
        meet.wait()
        with changed:
            log.append(-number)
            changed.notify_all()
        for item in range(2):
            items.put((number, item))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    threading.Timer(2.0, go.set).start()
    for thread in threads:
        thread.start()
    got = [items.get(timeout=60) for _ in range(6)]
    for thread in threads:
        thread.join()
    assert sorted(got) == [(n, item) for n in (1, 2, 3) for item in range(2)]
    assert sorted(log) == [-3, -2, -1, 1, 2, 3]
    return log, got


def pipeline() -> Any:
    """An executor whose work waits in virtual time, and feeds a second one."""
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def first(number: int) -> int:
        time.sleep(number % 3 / 10)
        return number * number

    def second(number: int) -> None:
        done.put((number, threading.current_thread().name))

    with (
        concurrent.futures.ThreadPoolExecutor(3) as one,
        concurrent.futures.ThreadPoolExecutor(2) as two,
    ):
        for future in concurrent.futures.as_completed([one.submit(first, n) for n in range(6)]):
            two.submit(second, future.result())
    return [done.get() for _ in range(6)]


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("seeds", [SEEDS, soak(SEEDS_SOAK)])
@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(how.values()))
@pytest.mark.parametrize("main", [primitives, pipeline], ids=lambda main: main.__name__)
def test_one_seed_one_run(main: Callable[[], Any], how: Any, seeds: int) -> None:
    """Equal seeds give equal digests and results; other seeds give other orders, unless calm."""
    digests = set()
    for seed in range(seeds):
        done = foretold.run(main, seed=seed, **how)
        same = foretold.run(main, seed=seed, **how)
        assert (same.digest, same.value) == (done.digest, done.value)
        digests.add(done.digest)
    assert len(digests) > 3


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("seeds", [5, soak(20)])
@pytest.mark.parametrize("main", [primitives, pipeline], ids=lambda main: main.__name__)
def test_a_recording_repeats_the_run(main: Callable[[], Any], seeds: int) -> None:
    """Any schedule of threads can be written down as holds, and read back exactly."""
    for seed in range(seeds):
        for how in HOW:
            done = run_of(main, seed=seed, recording=True, **how)
            replayed = again(main, done.tape.recorded())
            assert (replayed.digest, replayed.value) == (done.digest, done.value)
            assert replayed.broken_holds == 0


# --- races -----------------------------------------------------------------------------------


def counting(locked_once: bool) -> Callable[[], None]:
    """Two threads add one; with two locks between read and write, an update can be lost."""

    def main() -> None:
        lock, total = threading.Lock(), 0

        def add_in_two_steps() -> None:
            nonlocal total
            with lock:
                seen = total
            with lock:
                total = seen + 1

        def add() -> None:
            nonlocal total
            with lock:
                total += 1

        work = add if locked_once else add_in_two_steps
        in_threads(work, work)
        assert total == 2

    return main


def test_a_lost_update_is_found_and_told() -> None:
    """Within a few runs, shrunk to one sentence that names the thread and its line."""
    outcome = foretold.explore(counting(locked_once=False), runs=50)
    (failure,) = outcome.failures
    assert len(failure.delays) == 1
    (hold,) = failure.tape.schedule.holds.values()
    assert hold.actor == "Thread-1 (add_in_two_steps)"
    assert "Thread-1 (add_in_two_steps) was held before its" in failure.story
    assert "with lock:" in failure.story


def test_the_corrected_one_survives() -> None:
    """The same program with one lock around both steps."""
    assert not foretold.explore(counting(locked_once=True), runs=500).failures


# --- deadlocks -------------------------------------------------------------------------------


def opposite_order() -> None:
    """Two locks, taken in opposite order."""
    first, second = threading.Lock(), threading.Lock()

    def one() -> None:
        with first, second:
            pass

    def two() -> None:
        with second, first:
            pass

    in_threads(one, two)


def test_a_deadlock_names_both_threads_and_who_holds_what() -> None:
    """At once, in virtual time 0; each thread with its line, and the other as the lock's owner."""
    (failure,) = foretold.explore(opposite_order, runs=50).failures
    text = str(failure.exception)
    assert isinstance(failure.exception, foretold.Deadlock)
    assert "Thread-1 (one) waits at" in text
    assert "for a lock that is held by Thread-2 (two)" in text
    assert "for a lock that is held by Thread-1 (one)" in text
    assert "MainThread waits at" in text
    assert "for the end of Thread-1 (one)" in text
    assert __file__ in text


def test_a_lock_taken_twice() -> None:
    """A thread that waits for itself is told so."""

    def main() -> None:
        lock = threading.Lock()

        def work() -> None:
            lock.acquire()
            lock.acquire()

        in_threads(work)

    error = run_of(main).error
    assert isinstance(error, foretold.Deadlock)
    assert "for a lock that is held by itself" in str(error)


def test_an_event_that_nobody_sets() -> None:
    """Not the lock inside of it is named, but what the program called."""

    def main() -> None:
        in_threads(threading.Event().wait)

    error = run_of(main).error
    assert isinstance(error, foretold.Deadlock)
    assert "Thread-1 (wait) waits at" in str(error)
    assert "for Event.wait() in threading" in str(error)


# --- alone -----------------------------------------------------------------------------------


def lock_twice() -> None:
    """As it stands in the textbook."""
    lock = threading.Lock()
    with lock, lock:
        pass


def acquire_twice() -> None:
    """The same by method calls."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


async def lock_in_two_tasks() -> None:
    """A lock of `threading`, held across an `await`."""
    lock = threading.Lock()

    async def work() -> None:
        with lock:
            await asyncio.sleep(1)

    await asyncio.gather(work(), work())


@pytest.mark.parametrize(
    "main",
    [
        lock_twice,
        acquire_twice,
        lock_in_two_tasks,
        lambda: threading.Event().wait(),
        lambda: queue.Queue[int]().get(),
        lambda: SimpleQueue[int]().get(),
        lambda: concurrent.futures.Future[int]().result(),
        lambda: threading.Semaphore(0).acquire(),
    ],
    ids=["with", "acquire", "tasks", "event", "queue", "simple-queue", "future", "semaphore"],
)
def test_nobody_is_there_to_end_the_wait(main: Callable[[], Any]) -> None:
    """A wait for ever in a run without any thread is a deadlock at once, with its line."""
    error = run_of(main).error
    assert isinstance(error, foretold.Deadlock)
    assert f"MainThread waits at {__file__}" in str(error)


def test_time_limits_of_who_is_alone() -> None:
    """They pass in virtual time, as they would with threads; what is free is got at once."""

    def main() -> Any:
        began = time.monotonic()
        lock, found = threading.Lock(), list[Any]()
        found.append(lock.acquire(timeout=3600))
        found.append(lock.acquire(timeout=3600))
        found.append(lock.acquire(False))
        found.append(lock.acquire(timeout=0))
        found.append(threading.Event().wait(60))
        for empty in (queue.Queue[int](), SimpleQueue[int]()):
            with pytest.raises(queue.Empty):
                empty.get(timeout=30)
        for wrong in ({"timeout": -2}, {"blocking": False, "timeout": 1}):
            with pytest.raises(ValueError, match="timeout"):
                threading.Lock().acquire(**wrong)  # type: ignore[arg-type]  # it is what is wrong
        return found, time.monotonic() - began

    done = run_of(main, exact_time=True)
    assert done.error is None
    assert done.value == ([True, False, False, False, False], 3720)


def test_a_lock_that_another_task_gives_back() -> None:
    """The rest of the world goes on meanwhile; but the loop is stuck, so its tasks do not."""

    async def main(world: foretold.World) -> str:
        lock, said = threading.Lock(), list[str]()
        lock.acquire()

        async def speak() -> None:
            await asyncio.sleep(1)
            said.append("hello")

        await asyncio.gather(world.host("a").start(speak), asyncio.sleep(0))
        assert not lock.acquire(timeout=5)
        lock.release()
        with lock:
            return said[0]

    assert foretold.run(main).value == "hello"


# --- time ------------------------------------------------------------------------------------


def test_time_limits_are_virtual() -> None:
    """Sleep, lock, condition, queue, join and SimpleQueue of C: hours pass in no time."""

    def main() -> Any:
        lock, end, imported = threading.Lock(), threading.Event(), SimpleQueue[int]()
        sleeper = threading.Thread(target=time.sleep, args=(7200,))
        began = time.monotonic()
        found: list[Any] = []

        def work() -> None:
            found.append(lock.acquire(timeout=3600))
            found.append(end.wait(60))
            for empty in (queue.Queue[int](), imported):
                with pytest.raises(queue.Empty):
                    empty.get(timeout=30)

        lock.acquire()
        sleeper.start()
        in_threads(work)
        sleeper.join(1)
        assert sleeper.is_alive()
        sleeper.join()
        return found, time.monotonic() - began

    done = run_of(main, exact_time=True)
    assert done.error is None
    assert done.value == ([False, False], 7200)


@pytest.mark.usefixtures("one_session")
def test_time_does_not_pass_while_a_thread_could_run() -> None:
    """A thread that spins on a lock is not overtaken by a timer an hour away."""

    def main() -> float:
        lock, flag = threading.Lock(), threading.Event()
        timer = threading.Timer(3600, flag.set)
        timer.start()

        def spin() -> None:
            for _ in range(2_000):
                with lock:
                    assert not flag.is_set()

        in_threads(spin, spin)
        now = time.monotonic()
        timer.cancel()
        return now

    for seed in range(10):
        assert foretold.run(main, seed=seed, monotonic_s=0).value < 3600


def test_a_thread_that_spins_keeps_nobody_out() -> None:
    """It waits for a flag without ever blocking; in calm order too, the other gets its turn."""

    def main() -> None:
        lock, ready = threading.Lock(), False

        def spin() -> None:
            while True:
                with lock:
                    if ready:
                        return

        def prepare() -> None:
            nonlocal ready
            with lock:
                ready = True

        in_threads(spin, prepare)

    for how in HOW:
        for seed in range(5):
            assert run_of(main, seed=seed, steps_max=100_000, **how).error is None


# --- failures --------------------------------------------------------------------------------


def test_an_exception_that_ends_a_thread_fails_the_run() -> None:
    """Nobody sees it in production but for a line on stderr; here it counts."""

    def main() -> None:
        def work() -> None:
            raise ValueError("in a thread")

        in_threads(work)

    error = run_of(main).error
    assert repr(error) == "ValueError('in a thread')"
    assert "Exception in thread Thread-1 (work)" in error.__notes__[0]  # type: ignore[union-attr]  # it is one
    assert run_of(main, background_errors="ignore").error is None


def test_a_property_may_fail_in_a_thread() -> None:
    """`foretold.always` works in threads, and its verdict is the run's."""

    def main() -> None:
        in_threads(lambda: foretold.always(False, "never in a thread"))

    assert isinstance(run_of(main).error, foretold.PropertyViolated)


def test_an_endless_thread_meets_the_limit() -> None:
    """It can't be cancelled; the limit on steps ends the run all the same."""

    def main() -> None:
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    pass

        in_threads(work)

    assert isinstance(run_of(main, steps_max=5_000).error, foretold.LimitExceeded)


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="tools of sys.monitoring do not conflict")
def test_lines_can_not_be_points_under_a_debugger() -> None:
    """Python 3.11 has one trace function; that preempt has no effect is said, not hidden."""

    def main() -> None:
        in_threads(lambda: None)

    assert run_of(main, preempt="lines").notes == []
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        (note,) = run_of(main, preempt="lines").notes
        assert run_of(main).notes == []
    finally:
        sys.settrace(before)
    assert note.startswith("preempt had no effect: a debugger")


# --- what was there before ---------------------------------------------------------------------

MADE_BEFORE = threading.Condition()
QUEUE_BEFORE: queue.Queue[int] = queue.Queue(1)


@pytest.mark.usefixtures("one_session")
def test_locks_from_before_the_run_take_part() -> None:
    """A condition made at import keeps bound methods of its lock; they are found on the heap."""

    def main() -> Any:
        log: list[Any] = []

        def consumer() -> None:
            for _ in range(3):
                log.append(QUEUE_BEFORE.get())
            MADE_BEFORE.acquire()
            MADE_BEFORE.notify()
            MADE_BEFORE.release()

        def producer() -> None:
            for number in range(3):
                QUEUE_BEFORE.put(number)

        with MADE_BEFORE:
            for work in (consumer, producer):
                threading.Thread(target=work).start()
            assert MADE_BEFORE.wait(10)
        return log

    for how in HOW:
        for seed in range(10):
            assert foretold.run(main, seed=seed, **how).value == [0, 1, 2]


def test_outside_of_runs_locks_are_as_ever() -> None:
    """After a run with threads the methods are the very same objects as before."""
    of_threads = (type(threading.Lock()), type(threading.RLock()), SimpleQueue, threading.Thread)
    kinds = (*of_threads, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
    before = [dict(vars(kind)) for kind in kinds]
    hook, made = threading.excepthook, queue.SimpleQueue
    run_of(primitives)
    assert [dict(vars(kind)) for kind in kinds] == before
    assert (threading.excepthook, queue.SimpleQueue) == (hook, made)
    in_threads(lambda: None)


def test_a_new_thread_that_is_kept_waiting_is_a_choice() -> None:
    """Else a run in which all others went first would look like one without any choice."""

    def main() -> None:
        lock = threading.Lock()

        def work() -> None:
            with lock:
                pass

        thread = threading.Thread(target=work)
        thread.start()
        with lock:
            pass
        thread.join()

    outcome = foretold.explore(main, runs=20)
    assert (outcome.runs, outcome.vacuous) == (20, False)
