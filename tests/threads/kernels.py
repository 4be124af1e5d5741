"""Small programs with threads, each with one mistake that real programs make, and its correction.

The patterns are those of the benchmarks for schedule testing (SCTBench and its ancestors), written
anew for Python. A program takes `fixed`; what differs between the two is a line or two, and is said
in its docstring. Where the race is on plain data, between lines that no lock separates, `lines` is
set: such a kernel is searched with `preempt=[this module]`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace as Namespace
from typing import Any, NamedTuple


def in_threads(*works: Callable[[], Any]) -> None:
    """Start a thread for each, and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- plain data ------------------------------------------------------------------------------


def account(fixed: bool) -> None:
    """A withdrawal and a deposit. The mistake: the deposit takes no lock."""
    lock, account = threading.Lock(), Namespace(balance=100)

    def withdraw() -> None:
        with lock:
            balance = account.balance
            account.balance = balance - 30

    def add() -> None:
        balance = account.balance
        account.balance = balance + 50

    def deposit() -> None:
        if fixed:
            with lock:
                add()
        else:
            add()

    in_threads(withdraw, deposit)
    assert account.balance == 120


def wrong_lock(fixed: bool) -> None:
    """One datum, guarded by two locks: each thread takes the one that it thinks is right."""
    first, second = threading.Lock(), threading.Lock()
    shared = Namespace(count=0)

    def add(lock: threading.Lock) -> None:
        with lock:
            seen = shared.count
            shared.count = seen + 1

    in_threads(
        partial(add, first),
        partial(add, first),
        partial(add, first if fixed else second),
    )
    assert shared.count == 3


def half_made(fixed: bool) -> None:
    """Double-checked, but published before it is complete: others see half of it."""
    lock, cache = threading.Lock(), Namespace(config=None)

    def make() -> None:
        config: dict[str, int] = {}
        if not fixed:
            cache.config = config
        config["port"] = 80
        config["limit"] = 10
        cache.config = config

    def use() -> None:
        if cache.config is None:
            with lock:
                if cache.config is None:
                    make()
        assert cache.config["limit"] == 10

    in_threads(use, use)


def check_then_act(fixed: bool) -> None:
    """A registry that makes what is missing. The mistake: two may find it missing."""
    lock = threading.Lock()
    registry: dict[str, object] = {}
    got: list[object] = []

    def look_up() -> object:
        if "session" not in registry:
            registry["session"] = object()
        return registry["session"]

    def user() -> None:
        if fixed:
            with lock:
                got.append(look_up())
        else:
            got.append(look_up())

    in_threads(user, user)
    assert got[0] is got[1]


class WorkQueue:
    """The owner takes from the tail without a lock while enough is there; thieves take from the
    head. Who wants the last item says so first, and looks then (the protocol of Cilk-5)."""

    def __init__(self, items: list[int], fixed: bool) -> None:
        self.items, self.head, self.tail = items, 0, len(items)
        self.lock, self.fixed = threading.Lock(), fixed

    def pop(self) -> int | None:
        """By the owner."""
        self.tail -= 1
        if self.head <= self.tail:
            return self.items[self.tail]
        self.tail += 1
        with self.lock:
            self.tail -= 1
            if self.head <= self.tail:
                return self.items[self.tail]
            self.tail += 1
            return None

    def steal(self) -> int | None:
        """By a thief. The mistake: it looks first, and says so then."""
        with self.lock:
            if not self.fixed:
                if self.head < self.tail:
                    self.head += 1
                    return self.items[self.head - 1]
                return None
            self.head += 1
            if self.head <= self.tail:
                return self.items[self.head - 1]
            self.head -= 1
            return None


def work_stealing(fixed: bool) -> None:
    """An owner and a thief share three items; none may be done twice, none be left."""
    work = WorkQueue([1, 2, 3], fixed)
    done: list[int] = []

    def drain(take: Callable[[], int | None]) -> None:
        while (item := take()) is not None:
            done.append(item)

    in_threads(partial(drain, work.pop), partial(drain, work.steal))
    assert sorted(done) == [1, 2, 3]


# --- order -----------------------------------------------------------------------------------


def lazy_init(fixed: bool) -> None:
    """Checked, then made under a lock. The mistake: not checked again under the lock."""
    lock, made = threading.Lock(), list[int]()

    def get() -> int:
        if not made:
            with lock:
                if not fixed or not made:
                    made.append(1)
        return made[0]

    in_threads(get, get)
    assert len(made) == 1


def two_stage(fixed: bool) -> None:
    """A pair, updated under two locks one after the other: a reader comes between the stages."""
    first, second, pair = threading.Lock(), threading.Lock(), Namespace(one=0, two=0)
    whole = threading.Lock()

    def write() -> None:
        with first:
            pair.one = 1
        with second:
            pair.two = pair.one + 1

    def read() -> None:
        with first:
            one = pair.one
        with second:
            two = pair.two
        assert (one, two) in ((0, 0), (1, 2))

    def guarded(work: Callable[[], None]) -> None:
        with whole:
            work()

    if fixed:
        in_threads(partial(guarded, write), partial(guarded, read))
    else:
        in_threads(write, read)


def reorder(setters: int, fixed: bool) -> None:
    """Setters write two fields under one lock each time, a checker reads both: it may see the first
    without the second only before *any* setter has come to its end."""
    lock, pair = threading.Lock(), Namespace(a=0, b=0)

    def put() -> None:
        with lock:
            pair.a = 1
            if fixed:
                pair.b = -1
        with lock:
            pair.b = -1

    def check() -> None:
        with lock:
            assert (pair.a, pair.b) in ((0, 0), (1, -1))

    in_threads(*[put] * setters, check)


def token_ring(fixed: bool) -> None:
    """Three stations write in turn. The mistake: the token is passed on before the work is done."""
    changed, ring = threading.Condition(), Namespace(turn=0)
    written: list[int] = []

    def pass_on(station: int) -> None:
        with changed:
            ring.turn = (station + 1) % 3
            changed.notify_all()

    def work(station: int) -> None:
        for _ in range(2):
            with changed:
                while ring.turn != station:
                    changed.wait()
            if fixed:
                written.append(station)
                pass_on(station)
            else:
                pass_on(station)
                written.append(station)

    in_threads(*(partial(work, station) for station in range(3)))
    assert written == [0, 1, 2] * 2


def philosophers(seats: int, fixed: bool) -> None:
    """Each takes the fork on the left, then that on the right. Corrected: the lower one first."""
    forks = [threading.Lock() for _ in range(seats)]
    meals: list[int] = []

    def dine(seat: int) -> None:
        pair = (seat, (seat + 1) % seats)
        left, right = sorted(pair) if fixed else pair
        with forks[left], forks[right]:
            meals.append(seat)

    in_threads(*(partial(dine, seat) for seat in range(seats)))
    assert sorted(meals) == list(range(seats))


# --- wake-ups --------------------------------------------------------------------------------


class Buffer:
    """One place, one condition for both sides."""

    def __init__(self, *, looks_again: bool, wakes_all: bool) -> None:
        self.changed, self.items = threading.Condition(), list[int]()
        self.looks_again, self.wakes_all = looks_again, wakes_all

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        if self.looks_again:
            while not ready():
                self.changed.wait()
        elif not ready():
            self.changed.wait()

    def _wake(self) -> None:
        if self.wakes_all:
            self.changed.notify_all()
        else:
            self.changed.notify()

    def put(self, item: int) -> None:
        """Wait until there is room."""
        with self.changed:
            self._wait_until(lambda: not self.items)
            self.items.append(item)
            assert len(self.items) == 1
            self._wake()

    def get(self) -> int:
        """Wait until there is something."""
        with self.changed:
            self._wait_until(lambda: bool(self.items))
            item = self.items.pop()
            self._wake()
            return item


def _through(buffer: Buffer) -> None:
    got: list[int] = []
    takers = [lambda: got.append(buffer.get())] * 2
    givers = [partial(buffer.put, item) for item in (1, 2)]
    in_threads(*takers, *givers)
    assert sorted(got) == [1, 2]


def lost_wake_up(fixed: bool) -> None:
    """`notify` wakes one, and that may be one of the wrong side: all wait for ever."""
    _through(Buffer(looks_again=True, wakes_all=fixed))


def stolen_wake_up(fixed: bool) -> None:
    """`if` instead of `while`: who was woken goes on though another was faster."""
    _through(Buffer(looks_again=fixed, wakes_all=True))


# --- beside a loop ---------------------------------------------------------------------------


async def overbooked(fixed: bool) -> None:
    """Requests of an asyncio service, worked on in threads: one seat, looked at and then taken."""
    lock, seats = threading.Lock(), Namespace(left=1)
    booked: list[int] = []

    def book(guest: int) -> None:
        with lock:
            free = seats.left
            if fixed and free:
                seats.left -= 1
        if free:
            with lock:
                if not fixed:
                    seats.left -= 1
                booked.append(guest)

    await asyncio.gather(*(asyncio.to_thread(book, guest) for guest in (1, 2)))
    assert seats.left == 0
    assert len(booked) == 1


class Kernel(NamedTuple):
    """A program, and how it is searched."""

    name: str
    program: Callable[[bool], Any]
    lines: bool = False
    """It races on plain data."""

    @property
    def buggy(self) -> Callable[[], Any]:
        """With the mistake."""
        return partial(self.program, False)

    @property
    def fixed(self) -> Callable[[], Any]:
        """Without."""
        return partial(self.program, True)

    @property
    def settings(self) -> dict[str, Any]:
        """For `foretold.explore`."""
        return {"preempt": [self.program.__module__]} if self.lines else {}


KERNELS = (
    Kernel("account", account, lines=True),
    Kernel("wrong lock", wrong_lock, lines=True),
    Kernel("half made", half_made, lines=True),
    Kernel("check then act", check_then_act, lines=True),
    Kernel("work stealing", work_stealing, lines=True),
    Kernel("lazy init", lazy_init),
    Kernel("two stage", two_stage),
    Kernel("reorder 3", partial(reorder, 3)),
    Kernel("reorder 5", partial(reorder, 5)),
    Kernel("reorder 10", partial(reorder, 10)),
    Kernel("token ring", token_ring),
    Kernel("philosophers 3", partial(philosophers, 3)),
    Kernel("philosophers 5", partial(philosophers, 5)),
    Kernel("lost wake-up", lost_wake_up),
    Kernel("stolen wake-up", stolen_wake_up),
    Kernel("overbooked", overbooked),
)
