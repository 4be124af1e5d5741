"""Threads where programs are careless: finalizers, shutdowns, swallowed errors."""

from __future__ import annotations

import asyncio
import contextvars
import fcntl
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.kernel.computer import running
from foretold.kernel.threads.baton import strands
from foretold.kernel.threads.strand import Strand


def in_local(value: Callable[[], Any]) -> None:
    """A thread that ends with something in its thread-local storage."""
    local = threading.local()

    def work() -> None:
        local.value = value()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_context(value: Callable[[], Any]) -> None:
    """The same for a context variable."""
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    thread = threading.Thread(target=lambda: variable.set(value()))
    thread.start()
    thread.join()


@pytest.mark.parametrize("keep", [in_local, in_context])
def test_what_a_thread_leaves_is_freed_in_the_run(keep: Callable[..., None]) -> None:
    """On its clock and its disk, before whoever joined the thread goes on."""
    seen: list[Any] = []

    class Last:
        def __del__(self) -> None:
            time.sleep(0.5)
            with open("last-words", "w") as file:
                file.write("bye")
            seen.append(time.time())

    def main() -> tuple[int, str]:
        seen.clear()
        keep(Last)
        with open("last-words") as file:
            return len(seen), file.read()

    digests = set()
    for _ in range(3):
        done = foretold.run(main, seed=1)
        assert done.value == (1, "bye")
        assert 1_767_225_600 < seen[0] < 1_767_225_610
        digests.add(done.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("keep", [in_local, in_context])
def test_the_ident_of_a_thread_that_has_ended_is_free(
    keep: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives it to the next thread, which may be one of the test runner's: that one must
    not be taken for a thread of the run. So nobody knows the ident when the thread ends."""
    still_known: list[bool] = []
    taken_for_the_runs: list[bool] = []
    wait = Strand.wait_for_its_end

    def look(done: Any) -> None:
        taken_for_the_runs.append(real.get_ident() in running)
        real.lock_release(done)

    def then_look(strand: Strand) -> None:
        wait(strand)
        still_known.append(strand.ident in strands or strand.ident in running)
        done = real.allocate_lock()
        real.lock_acquire(done)
        real.start_new_thread(look, (done,))
        real.lock_acquire(done)

    monkeypatch.setattr(Strand, "wait_for_its_end", then_look)

    def main() -> None:
        for _ in range(10):
            keep(object)

    foretold.run(main)
    assert still_known == taken_for_the_runs == [False] * 10


def test_a_program_may_wrap_the_start_of_threads() -> None:
    """Sentry does so when it is set up. A wrapper from before the run is called in the run; one
    that is put there in the run is called until the run has ended, and then all is as it was."""
    seen: list[str] = []

    def wrap(name: str) -> None:
        start: Any = threading.Thread.start

        def wrapped(self: threading.Thread) -> None:
            seen.append(name)
            start(self)

        threading.Thread.start = wrapped  # type: ignore[method-assign]  # as Sentry does

    def main() -> None:
        wrap("in the run")
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()

    original: Any = threading.Thread.start
    try:
        wrap("before the run")
        outer = threading.Thread.start
        foretold.run(main)
        assert threading.Thread.start is outer
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]  # as it was
    assert seen == ["in the run", "before the run"]


def test_accept_ends_when_the_listener_is_shut_down() -> None:
    """With EINVAL, as on Linux: the usual way to stop a server."""

    def main() -> Any:
        server = socket.create_server(("127.0.0.1", 7272))
        came: list[int | None] = []

        def wait() -> None:
            try:
                server.accept()
            except OSError as error:
                came.append(error.errno)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(1)
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        return came

    assert foretold.run(main).value == [22]


def test_a_socket_is_open_as_long_as_somebody_waits_for_it() -> None:
    """Closed by another thread, it still receives for the one that waits."""

    def main() -> Any:
        one, other = socket.socketpair()
        came: list[bytes] = []
        thread = threading.Thread(target=lambda: came.append(one.recv(1)))
        thread.start()
        time.sleep(1)
        one.close()
        time.sleep(1)
        other.sendall(b"x")
        thread.join()
        other.close()
        return came

    assert foretold.run(main).value == [b"x"]


@pytest.mark.parametrize("seed", range(6))
def test_a_file_lock_has_one_holder(seed: int) -> None:
    """Though several wait for it."""

    def main() -> None:
        inside = 0

        def work() -> None:
            nonlocal inside
            with open("lock", "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                inside += 1
                assert inside == 1
                time.sleep(1)
                inside -= 1
                fcntl.flock(file, fcntl.LOCK_UN)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    foretold.run(main, seed=seed)


def take_twice() -> None:
    """A lock that is taken twice."""
    lock = threading.Lock()
    with lock, lock:
        pass


def wait_for_daemons() -> None:
    """Two daemons in each other's way, and somebody who waits for their result."""
    one, other, results = threading.Lock(), threading.Lock(), queue.Queue[int]()

    def work(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            time.sleep(0.1)
            with second:
                results.put(1)

    for pair in ((one, other), (other, one)):
        threading.Thread(target=work, args=pair, daemon=True).start()
    results.get()


def wait_in_a_loop() -> None:
    """A loop of its own in which nothing will ever happen."""

    async def wait() -> None:
        await asyncio.Event().wait()

    asyncio.run(wait())


@pytest.mark.parametrize("stuck", [take_twice, wait_for_daemons, wait_in_a_loop])
def test_a_deadlock_counts_even_if_it_is_caught(stuck: Callable[[], None]) -> None:
    """In production the program would stand still there."""

    def main() -> str:
        try:
            stuck()
        except Exception:
            return "all is well"
        return "done"

    with pytest.raises(foretold.Deadlock):
        foretold.run(main)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_deadlock_in_a_finalizer_counts() -> None:
    """Python only prints what a `__del__` raises."""

    def main() -> None:
        lock = threading.Lock()

        class Last:
            def __del__(self) -> None:
                lock.acquire()

        with lock:
            Last()

    with pytest.raises(foretold.Deadlock):
        foretold.run(main)


@pytest.mark.parametrize("seed", range(4))
def test_busy_threads_do_not_hold_up_the_world(seed: int) -> None:
    """Two threads of a host that never both wait: the others' time goes on beside theirs."""
    far: list[float] = []

    def busy() -> None:
        def work(number: int) -> None:
            with open(f"/file-{number}", "ab") as file:
                while True:
                    file.write(b"x")
                    file.flush()
                    os.fsync(file.fileno())
                    time.sleep(0.001)
                    far[:] = [time.monotonic()]

        for number in range(2):
            threading.Thread(target=work, args=(number,)).start()

    async def main(world: foretold.World) -> float:
        began = world.clock.monotonic()
        world.host("busy").start(busy)
        await asyncio.sleep(0.2)
        world.host("busy").crash()
        return far[0] - began

    assert foretold.run(main, seed=seed).value < 0.3


def test_threads_interleave_in_a_fork_too() -> None:
    """`threading` makes new locks of its own after a fork."""

    def race() -> None:
        count, lock = [0], threading.Lock()

        def work() -> None:
            with lock:
                found = count[0]
            with lock:
                count[0] = found + 1

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count[0] == 3

    outcome = foretold.explore(race, runs=50, isolation="fork", shrink=False, confirm=False)
    assert outcome.failure is not None


def by_event() -> None:
    """Workers that are busy until main, which sleeps, tells them to stop."""
    stop, lock, count = threading.Event(), threading.Lock(), [0]

    def work() -> None:
        while not stop.is_set():
            with lock:
                count[0] += 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.005)
    stop.set()
    for thread in threads:
        thread.join()


def by_polling(poll: Callable[[threading.Event], bool]) -> Callable[[], None]:
    """Main polls for what another thread does after a while."""

    def main() -> None:
        done = threading.Event()

        def work() -> None:
            time.sleep(0.002)
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not poll(done):
            pass
        thread.join()

    return main


def clock(done: threading.Event) -> bool:
    """Reads a clock each time."""
    return done.is_set() or time.monotonic() < 0


def nothing_to_read(done: threading.Event) -> bool:
    """Asks sockets each time."""
    return done.is_set() or bool(select.select([], [], [], 0)[0])


def no_file(done: threading.Event) -> bool:
    """Looks for a file each time."""
    return done.is_set() or os.path.exists("/nowhere")


@pytest.mark.parametrize(
    "main",
    [
        by_event,
        by_polling(lambda done: done.wait(0)),
        by_polling(clock),
        by_polling(nothing_to_read),
        by_polling(no_file),
    ],
)
def test_who_waits_for_a_time_gets_its_turn(main: Callable[[], None]) -> None:
    """However busy the others are, and though they never wait themselves."""
    for strategy in ("random", "fifo", "pct"):
        for seed in range(3):
            foretold.run(main, seed=seed, strategy=strategy, steps_max=20_000)
