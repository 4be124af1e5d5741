"""Threads for CPython's tests: their servers and clients are plain blocking code in threads.

Simulated threads come in a later version of foretold; these are enough for a test. They are real
threads, of which one alone runs at a time: it runs until it waits for a socket, for another thread
or for time to pass, and then hands over. To the world each is a host beside the one under test,
with something to do when what it waits for has happened. So nothing here is chance.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from foretold.kernel.computer import running
from foretold.kernel.fence import passage
from foretold.world.host import Host
from foretold.world.outside import NEVER
from foretold.world.world import World, enter, world_or_none

NS = 10**9
_real_start: Any = threading.Thread.start
_real_join: Any = threading.Thread.join
_real_sleep_ns: Any = Host.sleep_ns


class Strand:
    """A thread of the world. For `Outside` it is a host, and its only loop as well."""

    by_ident: ClassVar[dict[int, Strand]] = {}

    def __init__(self, world: World, thread: threading.Thread) -> None:
        self.world, self.thread = world, thread
        self.kernel = world.home.kernel
        self.modules = world.home.modules
        self.stack = world.home.stack
        self.loops = [self]
        self.done = False
        self._ready: Callable[[], bool] = lambda: True
        self._deadline_ns: int | None = None
        self._go, self._back = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._back.acquire()
        self._body = thread.run
        thread.run = self._run  # type: ignore[method-assign]  # it waits for its turn first

    # What Outside asks a host, and its loop

    def next_ns(self) -> int:
        if self.done:
            return NEVER
        now_ns = self.kernel.clock.ns
        if self._ready():
            return now_ns
        return NEVER if self._deadline_ns is None else max(now_ns, self._deadline_ns)

    def is_closed(self) -> bool:
        return self.done

    def get_ready(self) -> bool:
        return self.next_ns() <= self.kernel.clock.ns

    _asyncgen_firstiter_hook = _asyncgen_finalizer_hook = None

    def _run_once(self) -> None:
        self._go.release()
        self._back.acquire()
        enter(self.world)
        if self.done:
            self.world.outside.others.remove(self)  # type: ignore[arg-type]  # it plays a host

    # In the thread itself

    def _run(self) -> None:
        ident = _thread.get_ident()
        self._go.acquire()
        try:
            self.by_ident[ident] = self
            running[ident] = self.world.home
            enter(self.world)
            self._body()
        finally:
            running.pop(ident, None)
            del self.by_ident[ident]
            self.done = True
            self._back.release()

    def wait(self, ready: Callable[[], bool], deadline_ns: int | None) -> bool:
        """Hand over until then. False if the time is up."""
        self._ready, self._deadline_ns = ready, deadline_ns
        self._back.release()
        self._go.acquire()
        if world_or_none() is not self.world:
            enter(self.world)
        return ready()


def wait(host: Host, ready: Callable[[], bool], timeout_s: float | None) -> bool:
    """Wait as blocking code does, on whichever thread this is."""
    clock = host.kernel.clock
    deadline_ns = None if timeout_s is None else clock.ns + int(timeout_s * NS)
    if ready():
        return True
    strand = Strand.by_ident.get(_thread.get_ident())
    if strand is not None:
        return strand.wait(ready, deadline_ns)
    try:
        host.world.outside.block(host, ready, timeout_s)
    except TimeoutError:
        return False
    return True


def _block_until(host: Host, ready: Callable[[], bool], timeout_s: float | None) -> None:
    if not wait(host, ready, timeout_s):
        raise TimeoutError("timed out")


def _sleep_ns(host: Host, ns: int) -> None:
    if _thread.get_ident() in Strand.by_ident:
        wait(host, lambda: False, ns / NS)
    else:
        _real_sleep_ns(host, ns)


class Event:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        world = world_or_none()
        assert world is not None
        return wait(world.home, self.is_set, timeout)


class Lock:
    """`threading.Lock`."""

    def __init__(self) -> None:
        self._locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._locked:
            world = world_or_none()
            assert world is not None
            patience_s = None if timeout < 0 else timeout
            if not blocking or not wait(world.home, lambda: not self._locked, patience_s):
                return False
        self._locked = True
        return True

    def release(self) -> None:
        self._locked = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Queue:
    """`queue.Queue` and `queue.SimpleQueue`."""

    def __init__(self, maxsize: int = 0) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        world = world_or_none()
        assert world is not None
        if not self._items and (not block or not wait(world.home, self._filled, timeout)):
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def _filled(self) -> bool:
        return bool(self._items)


def _start(thread: threading.Thread) -> None:
    world = world_or_none()
    if world is None:
        _real_start(thread)
        return
    strand = Strand(world, thread)
    thread._strand = strand  # type: ignore[attr-defined]  # for _join, which finds it there
    with passage():
        _real_start(thread)
    world.outside.join(strand)  # type: ignore[arg-type]  # it plays a host


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    strand: Strand | None = getattr(thread, "_strand", None)
    if strand is not None and not wait(strand.world.home, lambda: strand.done, timeout):
        return
    _real_join(thread, timeout)


def lead_threads() -> None:
    """From here on threads, and what blocks in them, are those above. This process ends soon."""
    thread: Any = threading.Thread
    thread.start, thread.join = _start, _join
    host: Any = Host
    host.block_until, host.sleep_ns = _block_until, _sleep_ns
