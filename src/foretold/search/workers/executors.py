"""Who makes the runs of a campaign: anything that is a `concurrent.futures.Executor`.

By default forks of this process, `ForkPool`: the program is imported and warm when they begin, a
function without a name can be searched as well, and this process gets no thread (a process with
threads had better not fork). With `--executor dask://host:port` the workers of a Dask cluster.

A worker may die: the program may crash it, or the machine may run out of memory. Then the future
of what it was doing says so (`WorkerDied`), another worker takes its place, and nothing else is
lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from multiprocessing.connection import Connection, Pipe
from multiprocessing.connection import wait as wait_for_data
from typing import Any

from foretold.errors import UsageError, WorkerDied
from foretold.kernel import real
from foretold.kernel.watchdog import watchdog
from foretold.platforms import fork
from foretold.search.workers.aside import Aside
from foretold.search.workers.isolation import death_of
from foretold.search.workers.portable import portable

WORKERS_MAX = 512
DASK = "dask://"
CONNECT_S_MAX = 10.0
_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


class _Promise(Future[Any]):
    """A future of a pool that has no thread: who waits for it lets the pool go on."""

    def __init__(self, pool: ForkPool) -> None:
        super().__init__()
        self._pool = pool

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        until_s = None if timeout is None else real.monotonic() + timeout
        while not self.done():
            left_s = None if until_s is None else until_s - real.monotonic()
            if left_s is not None and left_s <= 0:
                return
            self._pool.pump(left_s)


class _Worker:
    """A forked child and the way to it."""

    def __init__(self, pid: int, connection: Connection[Any, Any], aside: Aside) -> None:
        self.pid = pid
        self.connection = connection
        self.aside = aside
        self.promise: _Promise | None = None
        """What it is doing."""


class ForkPool(Executor):
    """So many children of this process, each with everything that this process has imported."""

    def __init__(self, workers: int) -> None:
        self._size = workers
        self._workers: list[_Worker] = []
        self._waiting: deque[tuple[_Promise, bytes]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        promise = _Promise(self)
        self._waiting.append((promise, pickle.dumps((fn, args, kwargs))))
        self._hand_out()
        return promise

    def _hand_out(self) -> None:
        while self._waiting:
            worker = next((each for each in self._workers if each.promise is None), None)
            if worker is None:
                if len(self._workers) >= self._size:
                    return
                worker = self._fork()
            promise, message = self._waiting.popleft()
            if promise.set_running_or_notify_cancel():
                worker.promise = promise
                # One that died idle is noticed where its answer is read.
                with contextlib.suppress(OSError):
                    worker.connection.send_bytes(message)

    def _fork(self) -> _Worker:
        aside, (ours, theirs) = Aside(), Pipe()
        others = [worker.connection for worker in self._workers]
        parent = os.getpid()
        pid = fork()
        if pid == 0:
            try:
                aside.speak()
                _serve(theirs, [ours, *others], parent)
            finally:
                os._exit(0)  # the child must not run this process's clean-up
        theirs.close()
        worker = _Worker(pid, ours, aside)
        self._workers.append(worker)
        return worker

    def pump(self, timeout_s: float | None = None) -> None:
        """Wait until a worker has something to say, and hear it."""
        busy = {each.connection: each for each in self._workers if each.promise is not None}
        for connection in wait_for_data(list(busy), timeout_s):
            self._hear(busy[connection])  # type: ignore[index]  # typeshed: also sockets, numbers
        self._hand_out()

    def _hear(self, worker: _Worker) -> None:
        promise = worker.promise
        assert promise is not None, "only the busy are asked"
        try:
            held, answer = pickle.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            promise.set_exception(WorkerDied(self._bury(worker)))
            return
        worker.promise = None
        if held:
            promise.set_result(answer)
            return
        if isinstance(answer, WorkerDied):  # its last words
            self._bury(worker)
        promise.set_exception(answer)

    def _bury(self, worker: _Worker) -> str:
        """Returns what it died of."""
        self._workers.remove(worker)
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        how = worker.aside.after(death_of(status))
        worker.aside.close()
        return how

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let all go. Those that are in the middle of something are killed if it is cancelled."""
        if cancel_futures:
            for promise, _ in self._waiting:
                promise.cancel()
            self._waiting.clear()
        elif wait:
            while self._waiting or any(each.promise for each in self._workers):
                self.pump()
        for worker in list(self._workers):
            if worker.promise is not None:
                os.kill(worker.pid, signal.SIGKILL)
                worker.promise.cancel()
            self._bury(worker)


def _serve(connection: Connection[Any, Any], others: Iterable[Any], parent: int) -> None:
    """What a child does until nobody wants anything from it any more."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    for other in others:
        other.close()  # else nobody would notice the end of those on the other side
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    watchdog.last_words = lambda said: connection.send_bytes(
        pickle.dumps((False, WorkerDied(said)))
    )
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, args, kwargs = pickle.loads(connection.recv_bytes())
            connection.send_bytes(_answer(function, args, kwargs))


def _die_with(parent: int) -> None:
    """Not to go on searching for nobody if the parent is killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _answer(function: Callable[..., Any], args: Any, kwargs: Any) -> bytes:
    try:
        return pickle.dumps((True, function(*args, **kwargs)))
    except BaseException as error:
        return pickle.dumps((False, portable(error)))


# Which


@contextlib.contextmanager
def executor_named(name: str | None, workers: int) -> Iterator[Executor]:
    """The executor that `--executor` names; None is for forks of this process."""
    if name is None or name == "processes":
        pool = ForkPool(workers)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    elif name.startswith(DASK):
        with _dask_client(name) as client:
            yield client.get_executor(pure=False)
    else:
        raise UsageError(
            f"executor is 'processes', or the address of a Dask scheduler, such as "
            f"dask://127.0.0.1:8786; got {name!r}"
        )


def _dask_client(name: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "a Dask cluster needs the package distributed: pip install 'foretold[dask]'"
        ) from None
    address = name.removeprefix(DASK)
    try:
        return Client(f"tcp://{address}", timeout=CONNECT_S_MAX, set_as_default=False)  # type: ignore[no-untyped-call]  # it has no hints
    except (OSError, ValueError) as error:
        raise UsageError(f"there is no Dask scheduler at {address}: {error}") from None


def is_cluster(executor: Executor) -> bool:
    """Whether its workers have a life of their own: threads, and an event loop."""
    return type(executor).__module__.partition(".")[0] == "distributed"


def wait_for_some(
    executor: Executor, futures: Iterable[Future[Any]], until_s: float | None = None
) -> list[Future[Any]]:
    """Wait until at least one of them is done, or until an instant of `real.monotonic`; those that
    are done."""
    asked = list(futures)
    if isinstance(executor, ForkPool):
        while not any(future.done() for future in asked):
            left_s = None if until_s is None else until_s - real.monotonic()
            if left_s is not None and left_s <= 0:
                break
            executor.pump(left_s)
    else:
        left_s = None if until_s is None else max(0.0, until_s - real.monotonic())
        wait(asked, left_s, return_when=FIRST_COMPLETED)
    return [future for future in asked if future.done()]
