"""Correct programs of threads: locks, queues, conditions, executors."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import foretold
from tests.correct.program import program


@program()
def thread_queue(world: foretold.World, *, broken: bool) -> None:
    """Each consumer ends with a mark of its own. Broken: it ends when the queue looks empty, and
    two of them see the same last item."""
    items: queue.Queue[int | None] = queue.Queue(maxsize=0 if broken else 2)
    lock, taken = threading.Lock(), list[int]()

    def produce() -> None:
        for item in range(5):
            items.put(item)
        if not broken:
            items.put(None)
            items.put(None)

    def consume() -> None:
        while not (broken and items.empty()):
            item = items.get()
            if item is None:
                return
            with lock:
                taken.append(item)

    if broken:
        produce()
    names = (consume, consume) if broken else (produce, consume, consume)
    threads = [threading.Thread(target=each) for each in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0, 1, 2, 3, 4]


@program()
def executor_transfers(world: foretold.World, *, broken: bool) -> None:
    """Two locks for each transfer, in the order of the accounts. Broken: source first."""
    accounts = {"a": 100, "b": 100, "c": 100}
    locks = {name: threading.Lock() for name in accounts}

    def transfer(source: str, target: str, amount: int) -> None:
        first, second = (source, target) if broken else sorted((source, target))
        with locks[first], locks[second]:
            accounts[source] -= amount
            accounts[target] += amount

    orders = [("a", "b", 5), ("b", "a", 7), ("b", "c", 1), ("c", "a", 2)]
    with ThreadPoolExecutor(3) as executor:
        list(executor.map(lambda order: transfer(*order), orders))
    assert sum(accounts.values()) == 300
    assert accounts == {"a": 104, "b": 97, "c": 99}


@program()
def thread_condition(world: foretold.World, *, broken: bool) -> None:
    """A bounded buffer. Broken: one condition for two sorts of waiters, and one is woken."""
    lock = threading.Lock()
    not_full = threading.Condition(lock)
    not_empty = not_full if broken else threading.Condition(lock)
    items: deque[int] = deque()
    taken: list[int] = []

    def put(item: int) -> None:
        with lock:
            while len(items) == 1:
                not_full.wait()
            items.append(item)
            not_empty.notify()

    def take() -> None:
        with lock:
            while not items:
                not_empty.wait()
            taken.append(items.popleft())
            not_full.notify()

    threads = [threading.Thread(target=put, args=(n,)) for n in range(4)]
    threads += [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0, 1, 2, 3]


class ThreadsReadWriteLock:
    """The first reader locks writers out, the last one lets them in."""

    def __init__(self, *, broken: bool) -> None:
        self.broken, self.readers = broken, 0
        self.counting, self.writing = threading.Lock(), threading.Lock()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Together with other readers. Broken: only the count is locked, not what it decides."""
        if self.broken:
            with self.counting:
                self.readers += 1
                first = self.readers == 1
            if first:
                self.writing.acquire()
        else:
            with self.counting:
                self.readers += 1
                if self.readers == 1:
                    self.writing.acquire()
        try:
            yield
        finally:
            with self.counting:
                self.readers -= 1
                if not self.readers:
                    self.writing.release()


@program()
def thread_read_write_lock(world: foretold.World, *, broken: bool) -> None:
    """Readers see both halves of a write. Broken: a second reader enters while the first waits."""
    lock, pair, pause = ThreadsReadWriteLock(broken=broken), [0, 0], threading.Lock()

    def read() -> None:
        with lock.reading():
            first = pair[0]
            with pause:
                pass
            assert pair[1] == first, "half a write was read"

    def write() -> None:
        with lock.writing:
            pair[0] += 1
            with pause:
                pass
            pair[1] += 1

    with ThreadPoolExecutor(4) as executor:
        for done in [executor.submit(each) for each in (write, read, read, write)]:
            done.result()
    assert pair == [2, 2]


@program()
async def threads_and_tasks(world: foretold.World, *, broken: bool) -> None:
    """Threads hand results to the loop. Broken: they change what tasks read without a lock."""
    lock, stock, sold = threading.Lock(), [3], list[int]()

    def reserve() -> bool:
        with lock:
            left = stock[0]
            if broken and left:
                lock.release()  # "the slow part needs no lock"
                lock.acquire()
            if left:
                stock[0] = left - 1
            return left > 0

    async def buy(customer: int) -> None:
        if await asyncio.to_thread(reserve):
            sold.append(customer)

    await asyncio.gather(*(buy(customer) for customer in range(5)))
    assert len(sold) == 3
    assert stock == [0]


@program()
def worker_threads_with_errors(world: foretold.World, *, broken: bool) -> None:
    """A pool of threads drains a bounded queue. A job that fails is put back once, and `join` means
    that nothing is left. Broken: `task_done` comes before the job is put back."""
    jobs: queue.Queue[tuple[int, int]] = queue.Queue()
    stop, lock = threading.Event(), threading.Lock()
    done: list[int] = []

    def handle(number: int, attempt: int) -> None:
        with lock:
            if number % 2 and not attempt:
                raise ConnectionError("try again")
            done.append(number)

    def work() -> None:
        while not stop.is_set():
            try:
                number, attempt = jobs.get(timeout=0.05)
            except queue.Empty:
                continue
            try:
                handle(number, attempt)
            except ConnectionError:
                if broken:
                    jobs.task_done()
                jobs.put((number, attempt + 1))
                if broken:
                    continue
            jobs.task_done()

    with ThreadPoolExecutor(3) as executor:
        workers = [executor.submit(work) for _ in range(3)]
        for number in range(5):
            jobs.put((number, 0))
        jobs.join()
        finished = sorted(done)
        stop.set()
    for worker in workers:
        worker.result()
    assert finished == [0, 1, 2, 3, 4]
