"""What lies close together falls into one iteration of the loop, as under load.

A wake-up and a cancellation in one iteration is where pools, locks and conditions break, on stock
asyncio. Chance alone hardly ever lets two timers meet, so lateness is aimed (`kernel/pace.py`).
"""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine

import pytest

import foretold
from foretold.kernel.pace import TOGETHER_NS
from foretold.kernel.schedulers.profile import Profile
from foretold.tape.schedule import SLOW_NS_MAX
from tests.helpers import again, outcome, run_of

SEEDS = range(60)
ORDERS = pytest.mark.parametrize("order", ["asyncio", "any"])


def meeting(
    apart_s: float, *, after_s: float = 0.002, timers: int = 2
) -> Callable[[], Coroutine[None, None, bool]]:
    """A program with timers so far apart: returns whether they all fired in one iteration."""

    async def main() -> bool:
        loop, fired = asyncio.get_running_loop(), list[float]()

        def fire() -> None:
            fired.append(1)
            loop.call_soon(fired.append, 0)

        for number in range(timers):
            loop.call_later(after_s + number * apart_s, fire)
        await asyncio.sleep(after_s + 1)
        return fired == [1] * timers + [0] * timers

    return main


def share_of_meetings(main: Callable[[], Coroutine[None, None, bool]], order: str) -> float:
    """In how many of the runs they meet."""
    runs = [run_of(main, seed, order=order, strategy="fifo") for seed in SEEDS]
    return sum(bool(done.value) for done in runs) / len(runs)


@ORDERS
def test_close_timers_meet_in_many_runs(order: str) -> None:
    """The closer they lie, the more often they meet; others hardly ever."""
    close = share_of_meetings(meeting(0.4 * TOGETHER_NS[0] / 1e9), order)
    apart = share_of_meetings(meeting(0.9 * SLOW_NS_MAX / 1e9), order)
    assert 0.5 < close < 0.95
    assert 0.05 < apart < close
    assert share_of_meetings(meeting(3 * SLOW_NS_MAX / 1e9), order) < 0.1


@ORDERS
def test_timers_meet_after_a_long_sleep(order: str) -> None:
    """The step before took no hour: the loop woke late. A time limit that meets the result."""
    assert 0.5 < share_of_meetings(meeting(0.0004, after_s=3600), order) < 0.95


@ORDERS
def test_several_timers_meet(order: str) -> None:
    """Not two alone."""
    assert 0.1 < share_of_meetings(meeting(0.0002, timers=4), order) < 0.6


async def requests_meet() -> bool:
    """Two clients ask at about the same time. Returns whether the server saw both before it went on
    with either."""
    world, seen = foretold.current_world(), list[str]()
    world.network.latency(0.001, 0.0015)

    class Server(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            seen.append("asked")
            asyncio.get_running_loop().call_soon(seen.append, "goes on")

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "0.0.0.0", 80)
        async with server:
            await server.serve_forever()

    async def ask() -> None:
        _, writer = await asyncio.open_connection("server", 80)
        await asyncio.sleep(0.5)
        writer.write(b"?")
        await asyncio.sleep(1)
        writer.close()

    server = world.host("server")
    server.start(serve)
    await server.listening(80)
    clients = [world.host(name).start(ask) for name in ("one", "other")]
    await asyncio.gather(*clients)
    return seen[:2] == ["asked", "asked"]


def test_messages_meet() -> None:
    """Requests that come within half a millisecond are found together by a server that is late. The
    clients are not late for what is none of theirs: that would draw the requests apart."""
    share = share_of_meetings(requests_meet, "asyncio")
    assert 0.4 < share < 0.9, share


@pytest.mark.usefixtures("one_session")
def test_late_wakes_of_hosts_replay() -> None:
    """They are on the recorded tape, by host, and the replay is the same run."""
    late = set()
    for seed in range(12):
        done = run_of(requests_meet, seed, recording=True)
        tape = done.tape.recorded()
        assert outcome(again(requests_meet, tape)) == outcome(done)
        late |= {slow.host for slow in tape.schedule.slows.values() if slow.asleep}
    assert "server" in late


def test_a_calm_run_is_never_late() -> None:
    """The all-zero tape is the quiet run."""
    assert foretold.run(meeting(1e-6), tape=foretold.Tape.calm()).value is False


class Gate:
    """Lets one in at a time. The bug: a waiter that was let in and is cancelled before it runs
    keeps its place for ever."""

    def __init__(self) -> None:
        self._free = True
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        if self._free:
            self._free = False
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def leave(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._free = True


async def impatient_callers() -> None:
    """Six jobs pass a gate, two callers give up: every other job ends."""
    gate = Gate()

    async def job() -> None:
        await gate.enter()
        try:
            await asyncio.sleep(random.uniform(0, 0.004))
        finally:
            gate.leave()

    jobs = [asyncio.create_task(job()) for _ in range(6)]

    async def give_up(one: asyncio.Task[None]) -> None:
        await asyncio.sleep(random.uniform(0, 0.012))
        one.cancel()

    await asyncio.gather(*map(give_up, random.sample(jobs, 2)))
    _, stuck = await asyncio.wait(jobs, timeout=60)
    assert not stuck, f"{len(stuck)} jobs wait for ever"


@pytest.mark.usefixtures("one_session")
@ORDERS
def test_it_replays_as_any_slow_step(order: str) -> None:
    """What the aim did is on the recorded tape, as slow steps within the usual bound, and the
    replay is the same run."""
    aimed = 0
    for seed in range(25):
        done = run_of(impatient_callers, seed, order=order, recording=True)
        tape = done.tape.recorded()
        assert outcome(again(impatient_callers, tape)) == outcome(done)
        assert all(slow.ns <= SLOW_NS_MAX for slow in tape.schedule.slows.values())
        aimed += len(tape.schedule.slows)
    assert aimed > 10


def test_a_cancelled_hand_over_is_found() -> None:
    """The default search needs 10 runs at the median of 21 searches; without the aim, 45."""
    searches = [
        foretold.explore(
            impatient_callers, runs=300, seed=seed * 7_919, shrink=False, confirm=False
        )
        for seed in range(1, 8)
    ]
    runs = [search.failure.run if search.failure else 300 for search in searches]
    assert statistics.median(runs) <= 20, runs


KNOWN = Profile(decisions=300, steps=300, by_name={}).text


def threads_meet() -> bool:
    """Two threads sleep until about the same time. Returns whether one found the other at work."""
    lock, at_work, met = threading.Lock(), list[float](), list[float]()

    def work(after_s: float) -> None:
        time.sleep(after_s)
        with lock:
            met.extend(at_work)
            at_work.append(after_s)
        with lock:
            at_work.remove(after_s)

    threads = [threading.Thread(target=work, args=(after_s,)) for after_s in (0.005, 0.006)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return bool(met)


async def threads_of_a_loop_meet() -> bool:
    """The same beside a loop."""
    return await asyncio.to_thread(threads_meet)


async def thread_meets_timer() -> bool:
    """A thread sleeps until shortly before a timer of the loop. Whether both were in one batch."""
    loop, seen = asyncio.get_running_loop(), list[str]()
    loop.call_later(0.006, seen.append, "timer")
    loop.call_later(0.005, loop.call_soon, seen.append, "later")
    await asyncio.to_thread(time.sleep, 0.02)
    return seen == ["timer", "later"]


@pytest.mark.parametrize("main", [threads_meet, threads_of_a_loop_meet, thread_meets_timer])
def test_what_threads_wait_for_meets_as_well(main: Callable[[], object]) -> None:
    """A machine under load wakes threads late, too. A recording repeats it."""
    how = {"order": "asyncio", "strategy": "fifo"}
    firsts = [run_of(main, seed, recording=True, **how) for seed in SEEDS]
    assert 0.1 < sum(bool(first.value) for first in firsts) / len(firsts) < 0.95
    for first in firsts[:12]:
        assert outcome(again(main, first.tape.recorded())) == outcome(first)


async def timer_comes_in_between() -> bool:
    """Whether a timer comes in the middle of the steps that follow a wake-up."""
    loop, seen = asyncio.get_running_loop(), list[int]()

    def go_on(number: int) -> None:
        seen.append(number)
        if number < 12:
            loop.call_soon(go_on, number + 1)

    for _ in range(300):  # without an aim it would be one of these steps that is slow
        await asyncio.sleep(0)
    loop.call_later(0.002, go_on, 1)
    loop.call_later(0.003, seen.append, 0)
    await asyncio.sleep(1)
    return 1 < seen.index(0) < 12


def test_a_timer_comes_while_the_loop_is_busy() -> None:
    """The loop is late only some steps after it has woken: what comes is behind those that are
    ready by then. Only if something is known of the program; and a recording repeats it."""
    how = {"order": "asyncio", "strategy": "fifo"}
    main = timer_comes_in_between
    firsts = [run_of(main, seed, recording=True, profile=KNOWN, **how) for seed in SEEDS]
    between = [first for first in firsts if first.value]
    assert len(between) > len(firsts) / 15
    for first in between:
        assert outcome(again(main, first.tape.recorded())) == outcome(first)
