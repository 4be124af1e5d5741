"""Virtual time: it passes while code runs, jumps where nothing does, and is exact when asked.

A clock that stands still changes programs; one that runs away makes time limits fire that would
not in production. Both edges are shown here, and the clocks that a program can be handed.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.kernel.clock import EPOCH_S_DEFAULT, MONOTONIC_S_DEFAULT
from foretold.tape import Slow, Tape
from foretold.tape.schedule import SLOW_NS_MAX
from foretold.trace.events import Stalled
from tests.helpers import PLANS, again, run_of

CLOCKS: dict[str, Callable[[], Any]] = {
    "time.time": time.time,
    "time.time_ns": time.time_ns,
    "time.monotonic": time.monotonic,
    "time.monotonic_ns": time.monotonic_ns,
    "time.perf_counter": time.perf_counter,
    "time.perf_counter_ns": time.perf_counter_ns,
    "time.process_time": time.process_time,
    "time.process_time_ns": time.process_time_ns,
    "time.thread_time": time.thread_time,
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "time.clock_gettime_ns": lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC),
    "datetime.now": datetime.datetime.now,
    "datetime.now utc": lambda: datetime.datetime.now(datetime.UTC),
    "datetime.today": datetime.datetime.today,
    "loop.time": lambda: asyncio.get_running_loop().time(),
    "world.clock.now": lambda: foretold.current_world().clock.now(),
    "world.clock.monotonic": lambda: foretold.current_world().clock.monotonic(),
    "world.clock.datetime": lambda: foretold.current_world().clock.datetime(),
}

# --- time passes -----------------------------------------------------------------------------


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("name", CLOCKS)
def test_two_reads_are_never_equal(name: str) -> None:
    """With a frozen clock `updated_at` does not change and an ORM sends no UPDATE: reads differ.

    Each clock, read again and again, grows strictly, whatever the tape says.
    """

    async def main() -> list[Any]:
        seen = [CLOCKS[name]() for _ in range(50)]
        await asyncio.sleep(0)
        return [*seen, CLOCKS[name]()]

    for seed in range(12):
        seen = foretold.run(main, seed=seed).value
        assert all(early < late for early, late in itertools.pairwise(seen))


def test_mixed_reads_are_never_equal() -> None:
    """All ways to read a clock show one time: whichever comes later shows a later instant."""

    async def main() -> list[float]:
        generator = random.Random(1)
        start_wall, start_monotonic = time.time(), time.monotonic()
        elapsed = [
            lambda: time.time() - start_wall,
            lambda: time.monotonic() - start_monotonic,
            lambda: time.perf_counter() - start_monotonic,
            lambda: datetime.datetime.now(datetime.UTC).timestamp() - start_wall,
            lambda: asyncio.get_running_loop().time() - start_monotonic,
        ]
        return [generator.choice(elapsed)() for _ in range(100)]

    for seed in range(6):
        seen = foretold.run(main, seed=seed, epoch_s=1_000, monotonic_s=1_000).value
        # The two starts were read one after the other: as much grace as a read may take.
        assert all(late - early > -8e-6 for early, late in itertools.pairwise(seen))
        assert all(late > early for early, late in zip(seen[::4], seen[8::4], strict=False))


@pytest.mark.usefixtures("one_session")
def test_steps_take_time() -> None:
    """Also code that reads no clock takes time: a hundred steps are not one instant."""

    async def main() -> float:
        start = time.monotonic()
        for _ in range(100):
            await asyncio.sleep(0)
        return time.monotonic() - start

    took = [foretold.run(main, seed=seed, order="asyncio").value for seed in range(20)]
    assert min(took) >= 100 * 1e-6
    assert max(took) < 1
    assert len(set(took)) > 3


def test_the_calm_tape_takes_the_least_time() -> None:
    """0 is the smallest choice, and not zero: a microsecond for a step, another for a read."""

    async def main() -> tuple[int, int]:
        first, second = time.monotonic_ns(), time.monotonic_ns()
        await asyncio.sleep(0)
        return second - first, time.monotonic_ns() - second

    assert foretold.run(main, tape=Tape.calm()).value == (1_000, 2_000)


@pytest.mark.usefixtures("one_session")
def test_a_limit_can_expire_between_two_steps() -> None:
    """Nothing waits here, and still the time limit fires: the steps themselves take too long."""

    async def main() -> int:
        steps = 0
        try:
            async with asyncio.timeout(0.0005):
                for _ in range(300):
                    await asyncio.sleep(0)
                    steps += 1
        except TimeoutError:
            pass
        return steps

    for order in ("asyncio", "any"):
        steps = {foretold.run(main, seed=seed, order=order).value for seed in range(40)}
        assert 300 in steps
        assert any(0 < count < 300 for count in steps)


@pytest.mark.usefixtures("one_session")
def test_a_healthy_limit_does_not_expire() -> None:
    """A few steps under a limit of 100 ms: no tape makes them late, that would be our doing."""

    async def main() -> None:
        async with asyncio.timeout(0.1):
            await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(3)))

    for seed in range(150):
        assert run_of(main, seed).error is None


# --- a loop is late --------------------------------------------------------------------------


async def two_close_timers() -> int:
    """How many of two sleeps, half a millisecond apart, have ended when the first is noticed."""
    naps = [asyncio.create_task(asyncio.sleep(seconds)) for seconds in (0.0100, 0.0105)]
    busy = asyncio.create_task(chatter())
    done, _ = await asyncio.wait(naps, return_when=asyncio.FIRST_COMPLETED)
    busy.cancel()
    return len(done)


async def chatter() -> None:
    """Steps, so that one of them can be slow."""
    while True:
        await asyncio.sleep(0.0002)


@pytest.mark.usefixtures("one_session")
def test_slow_steps_batch_timers() -> None:
    """A late loop finds both timers due: they come in one batch, as on a busy machine.

    In stock order this happens on some tapes and not on others; on the calm tape it does not.
    """
    counts = [foretold.run(two_close_timers, seed=n, order="asyncio").value for n in range(200)]
    assert set(counts) == {1, 2}
    assert foretold.run(two_close_timers, tape=Tape.calm({"order": "asyncio"})).value == 1


@pytest.mark.usefixtures("one_session")
def test_slow_steps_are_bounded_and_recorded() -> None:
    """No slow step is so slow that a healthy time limit expires by it, and each is on the tape."""
    slows: list[Slow] = []
    for seed in range(60):
        done = run_of(two_close_timers, seed, recording=True, order="asyncio")
        slows += done.tape.recorded().schedule.slows.values()
    assert len(slows) > 50
    assert all(0 < slow.ns <= SLOW_NS_MAX for slow in slows)
    assert max(slow.ns for slow in slows) > SLOW_NS_MAX / 4


# --- exact time ------------------------------------------------------------------------------


def test_exact_time_stands_still_while_code_runs() -> None:
    """For tests that assert instants: time moves only where the program waits."""

    async def main() -> tuple[float, ...]:
        start = time.monotonic()
        for _ in range(50):
            await asyncio.sleep(0)
            time.time()
        first = time.monotonic()
        await asyncio.sleep(1.5)
        second = time.monotonic()
        async with asyncio.timeout(100):
            await asyncio.gather(asyncio.sleep(2), asyncio.sleep(3))
        return first - start, second - first, time.monotonic() - second

    for order, strategy in PLANS:
        for seed in range(4):
            done = foretold.run(main, seed=seed, order=order, strategy=strategy, exact_time=True)
            assert done.value == (0.0, 1.5, 3.0)
            assert done.virtual_s == 4.5


def test_nanoseconds_are_kept() -> None:
    """Inside, time is a whole number of nanoseconds: ten million tiny sleeps would not drift."""

    async def main() -> int:
        start = time.monotonic_ns()
        for _ in range(1_000):
            await asyncio.sleep(0.000_000_1)
        return time.monotonic_ns() - start

    assert foretold.run(main, exact_time=True).value == 100_000


# --- where clocks begin ----------------------------------------------------------------------


def test_clocks_begin_where_they_are_set() -> None:
    """Wall clock and monotonic clock are set apart from each other."""

    async def main() -> tuple[float, float, str]:
        return time.time(), time.monotonic(), time.strftime("%Y", time.gmtime())

    done = foretold.run(main, epoch_s=86_400, monotonic_s=5, exact_time=True)
    assert done.value == (86_400.0, 5.0, "1970")
    done = foretold.run(main, epoch_s=0, monotonic_s=0, exact_time=True)
    assert done.value == (0.0, 0.0, "1970")
    done = foretold.run(main, exact_time=True)
    assert done.value == (float(EPOCH_S_DEFAULT), float(MONOTONIC_S_DEFAULT), "2026")
    assert foretold.replay(main, done.tape).value == done.value


def test_other_threads_see_real_time() -> None:
    """A thread that is not of the run lives on in the real world, in the middle of a run."""
    asked, answered = threading.Event(), real.allocate_lock()
    real.lock_acquire(answered)
    seen: list[float] = []

    def outside() -> None:
        asked.wait(60)
        seen.append(time.time())
        answered.release()

    before = time.time()
    thread = threading.Thread(target=outside, daemon=True)
    thread.start()

    async def main() -> float:
        asked.set()
        real.lock_acquire(answered)  # a lock of the run would not wait for the real world
        return time.time()

    inside = foretold.run(main, epoch_s=1_000).value
    thread.join()
    assert inside < 1_001
    assert before <= seen[0] <= time.time()


# --- waiting ---------------------------------------------------------------------------------


def test_sleep_in_a_coroutine_stalls_the_host() -> None:
    """`time.sleep` takes no real time, stops everybody else meanwhile, and the trace says so."""

    async def polite(log: list[float]) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            log.append(time.monotonic())

    async def main() -> list[float]:
        log: list[float] = []
        task = asyncio.create_task(polite(log))
        await asyncio.sleep(1.5)
        time.sleep(3600)
        await task
        return log

    entries: list[str] = []
    done = again(main, Tape.seeded(0, {"exact_time": True}), sink=entries.append, detail=True)
    assert done.value == [1_001, 4601.5, 4602.5]
    assert "stall main 3600000000000" in entries
    [event] = [event for event in done.trace.events if isinstance(event, Stalled)]
    assert (event.actor, event.ns) == ("main", 3_600_000_000_000)


def test_sleeping_for_ever_is_no_timer() -> None:
    """`asyncio.sleep(inf)` can be cancelled, lets no time run away, and alone is a deadlock."""

    async def bounded() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(math.inf), 2)
        return asyncio.get_running_loop().time()

    assert foretold.run(bounded, exact_time=True).value == MONOTONIC_S_DEFAULT + 2
    with pytest.raises(foretold.Deadlock, match=r"sleep\(\) in tasks"):
        foretold.run(lambda: asyncio.sleep(math.inf))
    with pytest.raises(foretold.Deadlock):
        foretold.run(lambda: asyncio.sleep(1e300))


# --- clocks that a program is handed ---------------------------------------------------------


def elapsed_between(clock: foretold.Clock, work: Callable[[], None]) -> float:
    """A program that takes its clock as an argument: how long does something take?"""
    start = clock.monotonic()
    work()
    return clock.monotonic() - start


def timed_out(clock: foretold.Clock, started_s: float, limit_s: float) -> bool:
    """Another: has a limit passed?"""
    return clock.now() - started_s > limit_s


def bucket(clock: foretold.Clock, width_s: float = 0.1) -> int:
    """Another: in which interval are we?"""
    return round(clock.now() * 1e9) // int(width_s * 1e9)


def test_all_clocks_are_clocks() -> None:
    """What production, tests and simulations pass all satisfy one protocol."""
    assert isinstance(foretold.SystemClock(), foretold.Clock)
    assert isinstance(foretold.ManualClock(), foretold.Clock)

    async def main(world: foretold.World) -> bool:
        return isinstance(world.clock, foretold.Clock)

    assert foretold.run(main).value


def test_elapsed_time_between_calls() -> None:
    """S4.2: the clock is moved between two calls, and that is what was measured."""
    clock = foretold.ManualClock()
    assert elapsed_between(clock, lambda: clock.advance(0.25)) == 0.25
    assert elapsed_between(clock, lambda: clock.advance_nanos(1)) == pytest.approx(1e-9)
    assert elapsed_between(clock, lambda: None) == 0


def test_a_limit_of_100_ms_when_200_ms_have_passed() -> None:
    """S4.2: a time limit without waiting for it."""
    clock = foretold.ManualClock(1_000)
    assert not timed_out(clock, 1_000, 0.1)
    clock.advance(0.2)
    assert timed_out(clock, 1_000, 0.1)


def test_the_boundary_of_a_bucket() -> None:
    """S4.2: one nanosecond before 100 ms belongs to the first bucket, 100 ms to the second."""
    clock = foretold.ManualClock(0)
    clock.advance_nanos(99_999_999)
    assert bucket(clock) == 0
    clock.advance_nanos(1)
    assert bucket(clock) == 1
    assert clock.now_ns() == 100_000_000


def test_an_absolute_clock_moves_only_when_told() -> None:
    """S4.1, the default mode; setting it back is allowed, advancing it backwards is not."""
    clock = foretold.ManualClock(10)
    assert (clock.now(), clock.now()) == (10, 10)
    clock.set_time(5)
    clock.set_skew(-2)
    assert clock.now() == 3
    clock.set_skew(1)
    assert clock.now() == 6
    assert clock.monotonic() == 0
    assert clock.datetime() == datetime.datetime(1970, 1, 1, 0, 0, 6, tzinfo=datetime.UTC)
    with pytest.raises(foretold.UsageError, match="backwards"):
        clock.advance(-1)


def test_a_relative_clock_follows_another() -> None:
    """S4.1: at a distance, which may change; both of its clocks follow."""
    base = foretold.ManualClock(100)
    clock = foretold.ManualClock(mode="relative", base=base)
    assert clock.now() == 100
    clock.set_skew(-7)
    base.advance(10)
    assert (clock.now(), clock.monotonic()) == (103, 10)
    clock.advance(0.5)
    assert (clock.now(), clock.monotonic()) == (103.5, 10.5)
    clock.set_skew(0)
    clock.set_time(2_000)
    base.advance(1)
    assert clock.now() == 2_001


def test_a_relative_clock_in_a_run_follows_the_world() -> None:
    """The system's clock is the world's while a run lasts, so a skewed one is skewed to that."""

    async def main() -> list[float]:
        clock = foretold.ManualClock(mode="relative")
        clock.set_skew(60)
        first = clock.now()
        await asyncio.sleep(5)
        system = foretold.SystemClock()
        return [first, clock.now(), system.now(), system.monotonic()]

    value = foretold.run(main, exact_time=True, epoch_s=1_000, monotonic_s=3).value
    assert value == [1_060, 1_065, 1_005, 8]


def test_a_manual_clock_may_be_shared_by_threads() -> None:
    """S4.1: nothing is lost when several threads advance it."""
    clock = foretold.ManualClock()

    def advance() -> None:
        for _ in range(5_000):
            clock.advance_nanos(1)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now_ns() == 20_000


def test_wrong_modes_are_refused() -> None:
    """The error says what to write."""
    with pytest.raises(foretold.UsageError, match='"absolute" or "relative"'):
        foretold.ManualClock(mode="skewed")  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(foretold.UsageError, match='mode="relative"'):
        foretold.ManualClock(base=foretold.SystemClock())
