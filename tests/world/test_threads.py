"""Threads beside loops and on other hosts: executors, loops in threads, blocking code, ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio.from_thread
import anyio.to_thread
import fastapi
import httpx
import pytest

import foretold
from foretold.report.text import outcome_text
from foretold.world.world import World
from tests.helpers import PLANS, SOAK_FACTOR, again, run_of

NO_TLS = False

# --- programs ----------------------------------------------------------------------------------


async def soon(value: int) -> int:
    """A coroutine that takes a second."""
    await asyncio.sleep(1)
    return value + 1


async def beside_the_loop() -> Any:
    """All ways between a loop and threads."""
    loop = asyncio.get_running_loop()
    log: list[Any] = []

    def work(number: int) -> tuple[int, str]:
        time.sleep((3 - number) / 2)
        return number, threading.current_thread().name

    log.append(await asyncio.gather(*(asyncio.to_thread(work, n) for n in range(3))))
    log.append(await loop.run_in_executor(None, work, 2))
    back = asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(soon(41), loop).result(9))
    log.append(await back)
    told = asyncio.Event()

    def tell() -> None:
        time.sleep(2)
        loop.call_soon_threadsafe(told.set)

    threading.Thread(target=tell).start()
    await asyncio.wait_for(told.wait(), 5)
    own_loop = asyncio.to_thread(lambda: asyncio.run(soon(1)))
    log.append(await asyncio.gather(own_loop, soon(7)))
    log.append(await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(soon, 5)))
    return log


async def def_endpoints(world: World) -> Any:
    """FastAPI runs plain endpoints and dependencies in worker threads."""
    app, lock = fastapi.FastAPI(), threading.Lock()
    seen: list[Any] = []

    def waits() -> str:
        time.sleep(0.01)
        return "waited"

    def afterwards(number: int) -> None:
        seen.append(f"after {number}")

    @app.get("/{number}")
    def answer(
        number: int, background: fastapi.BackgroundTasks, how: str = fastapi.Depends(waits)
    ) -> dict[str, Any]:
        with lock:
            seen.append(number)
        background.add_task(afterwards, number)
        return {"number": number, "how": how}

    host = world.host("api")
    host.serve(app, port=80)
    await host.listening(80)
    async with httpx.AsyncClient(base_url="http://api", verify=NO_TLS) as client:
        answers = await asyncio.gather(*(client.get(f"/{n}") for n in range(5)))
    assert [a.json() for a in answers] == [{"number": n, "how": "waited"} for n in range(5)]
    return seen


def shouting_server() -> None:
    """A plain server: one thread for each connection."""
    listener = socket.create_server(("0.0.0.0", 80))

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data.upper())

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def ask(number: int) -> bytes:
    """A blocking client."""
    with socket.create_connection(("server", 80)) as sock:
        sock.sendall(b"hello %d" % number)
        return sock.recv(100)


async def plain_hosts(world: World) -> Any:
    """A plain server and a plain client with a pool of threads, and a thread of the test's own."""
    world.host("server").start(shouting_server)
    await world.host("server").listening(80)

    def client() -> list[bytes]:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            return list(pool.map(ask, range(4)))

    answers = await world.host("client").start(client)
    answers.append(await asyncio.to_thread(ask, 4))
    assert answers == [b"HELLO %d" % n for n in range(5)]
    return answers


def logging_threads() -> Any:
    """Several threads log through one handler."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.threadName} {record.getMessage()}")

    logger = logging.Logger("mine")
    logger.addHandler(Keep())

    def work(number: int) -> None:
        for step in range(3):
            logger.info("%d.%d", number, step)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lines


PROGRAMS = (beside_the_loop, def_endpoints, plain_hosts, logging_threads)


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_seed_one_run(program: Callable[..., Any]) -> None:
    """Unmodified code; equal seeds give equal digests, in every order, and recordings replay."""
    foretold.run(program)  # what is imported by the first use is there
    digests = set()
    for order, strategy in PLANS:
        for seed in range(4 * SOAK_FACTOR):
            how = {"order": order, "strategy": strategy}
            done = run_of(program, seed, recording=True, **how)
            assert done.error is None
            replayed = again(program, done.tape.recorded())
            assert (replayed.digest, replayed.value) == (done.digest, done.value)
            digests.add(done.digest)
    assert len(digests) > len(PLANS)


def starved_daemon() -> Any:
    """The program ends while a thread could run that was passed over until then."""
    log: list[str] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        for _ in range(3):
            with lock:
                log.append(name)

    threading.Thread(target=work, args=("daemon",), daemon=True).start()
    work("main")
    return log


async def starved_tasks(world: World) -> Any:
    """A process is killed while tasks of it could run that were passed over until then."""
    log: list[str] = []

    async def work(name: str) -> None:
        for _ in range(4):
            log.append(name)
            await asyncio.sleep(0)
        if name == "0":
            world.host("a").kill()

    async def program() -> None:
        await asyncio.gather(*(work(str(number)) for number in range(3)))

    with contextlib.suppress(foretold.HostDied):
        await world.host("a").start(program)
    return log


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("program", [starved_daemon, starved_tasks], ids=lambda p: p.__name__)
def test_who_was_passed_over_and_never_ran(program: Callable[..., Any]) -> None:
    """A recording says so too: in its replay that step is not made either."""
    for order, strategy in PLANS:
        for seed in range(20):
            done = run_of(program, seed, recording=True, order=order, strategy=strategy)
            replayed = again(program, done.tape.recorded())
            assert (replayed.digest, replayed.value) == (done.digest, done.value)


# --- blocking ----------------------------------------------------------------------------------


def test_a_sleeping_thread_does_not_stall_its_loop() -> None:
    """`time.sleep` in a thread lets the loop go on; in the loop's own thread it stalls the loop
    alone, and other threads go on."""

    async def main() -> Any:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(1)

        ticking = asyncio.create_task(tick())
        await asyncio.to_thread(time.sleep, 10)
        while_in_thread = len(ticks)
        done = threading.Event()
        threading.Timer(3, done.set).start()
        time.sleep(5)
        ticking.cancel()
        return while_in_thread, len(ticks) - while_in_thread, done.is_set()

    assert foretold.run(main, exact_time=True, strategy="fifo").value == (11, 0, True)


def test_a_task_and_a_thread_that_wait_for_each_other() -> None:
    """A deadlock between them is found at once; both are named with their lines."""

    async def main() -> None:
        lock = threading.Lock()
        asked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def holder() -> None:
            with lock:
                asyncio.run_coroutine_threadsafe(asked.wait(), loop).result()

        working = asyncio.to_thread(holder)
        task = asyncio.create_task(working, name="asker")
        await asyncio.sleep(1)
        with lock:
            asked.set()
        await task

    error = run_of(main, strategy="fifo", order="any").error
    assert isinstance(error, foretold.Deadlock)
    assert "asker waits at" in str(error)
    assert "asyncio_0 waits at" in str(error)
    assert "MainThread waits at" in str(error)
    assert "for a lock that is held by asyncio_0" in str(error)


def test_main_threads_of_hosts_are_their_own() -> None:
    """Two processes share no thread-local data; each sees itself in its main thread."""
    local = threading.local()

    async def look() -> tuple[bool, bool]:
        before = hasattr(local, "mark")
        local.mark = True
        await asyncio.sleep(1)
        return before, threading.current_thread() is threading.main_thread()

    async def main(world: World) -> Any:
        return [await world.host(name).start(look) for name in ("a", "b")]

    assert foretold.run(main).value == [(False, True), (False, True)]


@pytest.mark.usefixtures("one_session")
def test_a_plain_main_may_run_a_loop_of_its_own() -> None:
    """As most programs do: `def main(): asyncio.run(serve())`."""

    def program() -> int:
        return asyncio.run(soon(1)) + asyncio.run(soon(2))

    async def main(world: World) -> Any:
        return await asyncio.gather(*(world.host(n).start(program) for n in ("a", "b")))

    for seed in range(10):
        assert foretold.run(main, seed=seed).value == [5, 5]


def test_a_thread_that_sends_much_goes_on_when_there_is_room() -> None:
    """More than the send buffer takes, from a host on which all threads wait meanwhile."""

    def receive() -> int:
        with socket.create_server(("0.0.0.0", 80)) as listener, listener.accept()[0] as sock:
            return sum(len(data) for data in iter(lambda: sock.recv(65_536), b""))

    def send() -> None:
        with socket.create_connection(("server", 80)) as sock:
            sock.sendall(b"x" * 1_000_000)

    def client() -> None:
        threads = [threading.Thread(target=send), threading.Thread(target=time.sleep, args=(9,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def main(world: World) -> int:
        received = world.host("server").start(receive)
        await world.host("server").listening(80)
        world.host("client").start(client)
        total: int = await received
        return total

    for seed in range(5):
        assert foretold.run(main, seed=seed, steps_max=50_000).value == 1_000_000


# --- ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_threads_of_a_dead_process_never_run_again(end: str) -> None:
    """No `finally`, no release of a lock that others could see, no step; a restart begins anew."""
    ran: list[str] = []

    def work() -> None:
        try:
            while True:
                time.sleep(0.1)
                ran.append("step")
        finally:
            ran.append("finally")

    async def program() -> None:
        await asyncio.gather(asyncio.to_thread(work), asyncio.to_thread(work))

    async def main(world: World) -> Any:
        host = world.host("a")
        host.start(program)
        await asyncio.sleep(1)
        getattr(host, end)()
        before = list(ran)
        await asyncio.sleep(1)
        assert ran == before
        assert "finally" not in ran
        host.restart(program)
        await asyncio.sleep(1)
        assert len(ran) > len(before)

    for seed in range(5):
        ran.clear()
        foretold.run(main, seed=seed)


def test_a_thread_that_never_ends_is_reported() -> None:
    """Python waits for it at exit, for ever: here that is a deadlock that names it."""

    def main() -> None:
        threading.Thread(target=threading.Event().wait, name="stuck").start()

    error = run_of(main).error
    assert isinstance(error, foretold.Deadlock)
    assert "MainThread waits at" in str(error)
    assert "for the end of stuck" in str(error)


def test_a_process_waits_for_its_threads() -> None:
    """On other hosts too: what is no daemon may finish, within the grace; workers go home."""
    log: list[str] = []

    def work() -> None:
        time.sleep(10)
        log.append("finished")

    def program() -> None:
        threading.Thread(target=work).start()
        concurrent.futures.ThreadPoolExecutor(2).submit(log.append, "submitted")

    async def main(world: World) -> Any:
        host = world.host("a")
        await host.start(program)
        began = time.monotonic()
        by_itself = await host.stop()
        return by_itself, time.monotonic() - began > 9

    for seed in range(5):
        log.clear()
        assert foretold.run(main, seed=seed).value == (True, True)
        assert log == ["submitted", "finished"]


def test_threads_that_are_left_are_told() -> None:
    """By name and line, of the test and of other hosts; in the result and in the search's text."""

    def poll() -> None:
        while True:
            time.sleep(1)

    def program() -> None:
        threading.Thread(target=poll, daemon=True, name="poller").start()
        time.sleep(3)

    async def main(world: World) -> None:
        await world.host("a").start(program)
        program()

    line = poll.__code__.co_firstlineno + 2
    here, there = foretold.run(main).threads_left
    assert here == f"poller at {__file__}:{line}"
    assert there == f"poller at {__file__}:{line}, on host a"
    outcome = foretold.explore(main, runs=20)
    assert not outcome.failures
    text = outcome_text(outcome, runs=20, target="shop.py:main")
    assert f"  a thread was left running at the end: {here}" in text.splitlines()
    assert len(outcome.notes) == 2
    assert foretold.run(lambda: None).threads_left == ()


def test_daemons_and_idle_workers_may_stay() -> None:
    """They are cut off when the run ends, and so are the workers of a pool that nobody shut."""
    unwound: list[str] = []

    def main() -> str:
        def wait() -> None:
            try:
                threading.Event().wait()
            finally:
                unwound.append(threading.current_thread().name)

        threading.Thread(target=wait, daemon=True, name="daemon").start()
        concurrent.futures.ThreadPoolExecutor(2).submit(len, "abc")
        return "done"

    assert foretold.run(main).value == "done"
    assert unwound == ["daemon"]  # after the end, where nothing counts any more


def test_nothing_is_left_after_many_runs() -> None:
    """No thread, no descriptor, no entry in `threading`'s tables after 200 runs."""

    async def main(world: World) -> None:
        def work() -> None:
            lock = threading.Lock()
            with lock:
                lock.acquire()

        threading.Thread(target=work, daemon=True).start()
        host = world.host("a")
        host.start(lambda: time.sleep(3600))
        await asyncio.to_thread(time.sleep, 1)
        host.crash()

    foretold.run(main)
    gc.collect()
    descriptors, tasks = os.listdir("/proc/self/fd"), os.listdir("/proc/self/task")
    threads = threading.enumerate()  # other tests' libraries may have left some
    for seed in range(200):
        foretold.run(main, seed=seed)
    assert threading.enumerate() == threads
    assert not vars(threading)["_limbo"]
    # The last one may not have left the system yet.
    assert len(os.listdir("/proc/self/task")) <= len(tasks) + 2
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_the_first_word_of_a_logger_counts_in_each_run() -> None:
    """A logger takes a lock when it first learns its level: each run begins without that."""
    logger = logging.getLogger("never used before")

    async def main() -> None:
        def work() -> None:
            logger.debug("nobody reads this")

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len({foretold.run(main, seed=1).digest for _ in range(3)}) == 1


POOL = concurrent.futures.ThreadPoolExecutor(1)


def test_an_executor_that_is_older_than_the_run() -> None:
    """Libraries keep one for the life of the process. Each run finds it open and without threads,
    and so does the program afterwards."""

    async def main() -> int:
        return await asyncio.get_running_loop().run_in_executor(POOL, lambda: 5)

    assert [foretold.run(main).value for _ in range(3)] == [5, 5, 5]
    assert foretold.explore(main, runs=5).failure is None
    assert POOL.submit(lambda: 6).result() == 6


@pytest.mark.parametrize("shuts_down", [False, True])
def test_an_executor_with_threads_from_before_the_run(shuts_down: bool) -> None:
    """They live in the real world, and would do the run's work out there. In the run the executor
    has others; afterwards it has its own again, which end if the program has shut it down."""
    pool = concurrent.futures.ThreadPoolExecutor(2)
    before = pool.submit(threading.current_thread).result()

    def main() -> Any:
        began = time.time()
        pool.submit(time.sleep, 50).result()
        ended, thread = time.time(), pool.submit(threading.current_thread).result()
        if shuts_down:
            pool.shutdown()
        assert thread is not before
        return round(ended - began)

    assert foretold.run(main).value == 50
    if shuts_down:
        before.join()
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(int)
    else:
        assert foretold.run(main).value == 50
        assert pool.submit(threading.current_thread).result() is before
        pool.shutdown()


def test_who_waits_for_a_thread_from_before_the_run_is_told_so() -> None:
    """The thread lives in the real world: the deadlock names it, in a note."""
    ask, answer = queue.Queue[int](), queue.Queue[int]()
    thread = threading.Thread(target=lambda: answer.put(ask.get()), name="older")
    thread.start()
    try:
        with pytest.raises(foretold.Deadlock) as caught:
            foretold.run(lambda: answer.get())
    finally:
        ask.put(1)
        thread.join()
    (note,) = caught.value.__notes__
    assert "not in it, and end no wait: " in note
    assert "older" in note
    assert note.endswith("start it inside the run.")


def test_an_executor_that_the_program_has_shut_down_stays_so() -> None:
    """As in production."""
    pool = concurrent.futures.ThreadPoolExecutor(1)

    def main() -> None:
        pool.submit(int).result()
        pool.shutdown()

    foretold.run(main)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)


@pytest.mark.usefixtures("one_session")
def test_threads_that_are_stuck_between_two_lines_are_ended() -> None:
    """With `preempt="lines"` Python 3.11 traces them, and a traced thread that is ended entered no
    function again: the run never came back."""

    def main() -> None:
        locks = [threading.Lock() for _ in range(5)]

        def eat(n: int) -> None:
            right = (n + 1) % 5
            with locks[n]:
                locks[right].acquire()
                locks[right].release()

        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            list(pool.map(eat, range(5)))

    plan: Any = {"preempt": "lines", "order": "any", "strategy": "random"}
    errors = (run_of(main, seed, **plan).error for seed in range(60))
    assert any(isinstance(error, foretold.Deadlock) for error in errors)
