"""Threads of a run share one core of the machine; nobody notices it but the clock on the wall."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.kernel.threads import one_core, start
from foretold.kernel.threads.one_core import PAUSE_NS, PAUSE_NS_MAX, OneCore
from foretold.services.postgres import cluster
from foretold.services.postgres.cluster import Cluster

CORES = {0, 1, 2, 3}


class Machine:
    """A machine with four cores, whatever this one has: which thread may run where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cores: dict[int, set[int]] = {}
        self.now_ns = self.used_ns = 0
        monkeypatch.setattr(one_core, "_core_of_now", lambda: 2)
        monkeypatch.setattr(one_core, "real", self)

    get_native_id = staticmethod(real.get_native_id)
    listdir = staticmethod(real.listdir)

    def perf_counter_ns(self) -> int:
        """The time on the wall."""
        return self.now_ns

    def process_time_ns(self) -> int:
        """For how long of it this process had a processor."""
        return self.used_ns

    def sched_getaffinity(self, thread: int) -> set[int]:
        """Where this thread may run."""
        return self.cores.get(thread or real.get_native_id(), CORES)

    def sched_setaffinity(self, thread: int, cores: set[int]) -> None:
        """Where this thread may run from now on."""
        self.cores[thread or real.get_native_id()] = cores


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """In place of the real one, and nobody has run there yet."""
    monkeypatch.setattr(start, "one_core", OneCore())
    return Machine(monkeypatch)


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    """Where this thread may run; it is put back if a test fails."""
    found = os.sched_getaffinity(0)
    yield found
    os.sched_setaffinity(0, found)


def with_a_thread(inside: Any) -> Any:
    """A program with one thread, which does this."""

    def main() -> None:
        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()

    return main


def test_all_threads_share_a_core_and_none_keeps_it(machine: Machine, allowed: set[int]) -> None:
    """The driver is where it was when the first thread began; afterwards it may run anywhere."""
    seen: list[set[int]] = []
    driver = real.get_native_id()
    foretold.run(with_a_thread(lambda: seen.append(machine.cores[driver])))
    assert seen == [{2}]
    assert machine.cores[driver] == CORES
    assert os.sched_getaffinity(0) == allowed  # the system's own books, not those of the double


def test_a_run_without_threads_changes_nothing(machine: Machine) -> None:
    """It would pay for nothing."""
    foretold.run(lambda: None)
    assert machine.cores == {}


def test_the_system_itself_agrees(allowed: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real machine: threads inherit the core; all is as it was after a run that failed."""
    monkeypatch.setattr(start, "one_core", OneCore())
    seen: list[set[int]] = []

    def inside() -> None:
        seen.append(real.sched_getaffinity(0))
        raise RuntimeError("a failing run")

    with pytest.raises(RuntimeError, match="a failing run"):
        foretold.run(with_a_thread(inside))
    assert len(seen) == 1
    assert len(seen[0]) == 1
    assert seen[0] <= allowed
    assert os.sched_getaffinity(0) == allowed


def test_a_thread_that_outlives_the_run_is_set_free(
    allowed: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library's own thread, started in C, is not ours to keep on one core for ever."""
    monkeypatch.setattr(start, "one_core", OneCore())
    go, done = real.allocate_lock(), real.allocate_lock()
    real.lock_acquire(go)
    real.lock_acquire(done)
    found: list[set[int]] = []

    def of_a_library() -> None:
        real.lock_acquire(go)
        found.append(real.sched_getaffinity(0))
        real.lock_release(done)

    foretold.run(with_a_thread(lambda: real.start_new_thread(of_a_library, ())))
    real.lock_release(go)
    real.lock_acquire(done)
    assert found == [allowed]


def test_a_server_that_starts_in_a_run_has_all_cores(
    allowed: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL lives longer than the run in which it is first asked for."""
    place = OneCore()
    for module in (start, cluster):
        monkeypatch.setattr(module, "one_core", place)
    found: list[set[int]] = []

    def inside() -> None:
        server = Cluster()
        assert server._guardian is not None
        found.append(real.sched_getaffinity(server._guardian.pid))
        server.stop()

    foretold.run(with_a_thread(inside))
    assert found == [allowed]


def test_who_is_disturbed_lets_the_system_choose(machine: Machine) -> None:
    """Half of the run without a processor: no core is held for a while, each time for longer."""
    place, me = OneCore(), real.get_native_id()

    def held_after(wait_ns: int, used_ns: int) -> bool:
        machine.now_ns += wait_ns
        place.begin()
        held = machine.cores.get(me) == {2}
        machine.now_ns, machine.used_ns = machine.now_ns + 10_000_000, machine.used_ns + used_ns
        place.end()
        return held

    half, whole = 5_000_000, 10_000_000
    assert held_after(1, half)
    assert not held_after(PAUSE_NS - 20_000_000, whole)
    assert held_after(PAUSE_NS, half)
    assert not held_after(PAUSE_NS, whole)  # twice as long now
    assert held_after(PAUSE_NS, whole)  # undisturbed: all is forgiven
    assert held_after(1, half)
    assert held_after(PAUSE_NS, whole)


def test_the_longest_pause_is_a_minute() -> None:
    """Whoever was disturbed for hours comes back."""
    place, now_ns = OneCore(), 0
    for _ in range(40):
        place.judge(now_ns, 10_000_000, 0)
        assert place._until_ns - now_ns <= PAUSE_NS_MAX
    assert place._until_ns - now_ns == PAUSE_NS_MAX


def test_a_short_run_is_no_evidence() -> None:
    """A run of a millisecond is disturbed by everything."""
    place = OneCore()
    place.judge(0, 1_000_000, 0)
    assert place._until_ns == 0


@pytest.mark.parametrize("cores", [{2}, {0, 1}])
def test_a_user_who_has_chosen_is_obeyed(machine: Machine, cores: set[int]) -> None:
    """`taskset` with a single core; or the core of now is none of those that are allowed."""
    me = real.get_native_id()
    machine.cores[me] = cores
    place = OneCore()
    place.begin()
    assert machine.cores == {me: cores}
    place.end()
    assert machine.cores == {me: cores}


def test_a_sandbox_that_forbids_it_is_no_error(machine: Machine) -> None:
    """Containers may refuse the call."""

    def refuse(thread: int, cores: set[int]) -> None:
        raise PermissionError("seccomp")

    machine.sched_setaffinity = refuse  # type: ignore[method-assign]  # that is the point
    place = OneCore()
    place.begin()
    place.end()
    assert machine.cores == {}
