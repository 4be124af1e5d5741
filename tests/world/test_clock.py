"""`world.clock`: what a test reads and moves, in async tests and in plain ones."""

from __future__ import annotations

import asyncio
import datetime
import functools
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from foretold.tape import ENDED, Hold, Schedule, Tape
from foretold.world.world import World
from tests.helpers import PLANS, run_of

World = World
Log = list[Any]


def ticker(world: World, log: Log, every_s: float) -> Callable[[], None]:
    """A callback that schedules itself again and again."""

    def tick() -> None:
        log.append(round(world.clock.monotonic() - 1_000, 6))
        world.clock.schedule(tick, every_s)

    return tick


# --- advancing -------------------------------------------------------------------------------


def test_advance_does_what_falls_due_in_order_of_time() -> None:
    """S2.3: due work runs in order of its time, and what follows from it before time goes on."""

    async def main(world: World) -> Log:
        log: Log = []

        async def chain(name: str) -> None:
            for step in range(3):
                await asyncio.sleep(0)
                log.append((name, step, world.clock.monotonic() - 1_000))

        world.clock.schedule(lambda: chain("late"), 2)
        world.clock.schedule(lambda: chain("early"), 1)
        world.clock.schedule(lambda: log.append("never"), 5)
        await world.clock.advance(3)
        log.append(world.clock.monotonic() - 1_000)
        return log

    expected = [(name, step, at) for name, at in (("early", 1), ("late", 2)) for step in range(3)]
    for order, strategy in PLANS:
        done = run_of(main, 3, order=order, strategy=strategy, exact_time=True)
        assert done.value == [*expected, 3]


@pytest.mark.usefixtures("one_session")
def test_advance_includes_its_last_instant() -> None:
    """What is due exactly at the end is done, and so is what it starts, when `advance` returns."""

    async def main(world: World) -> Log:
        log: Log = []

        async def work() -> None:
            await asyncio.sleep(0)
            log.append("worked")

        async def periodic() -> None:
            for number in range(10):
                await asyncio.sleep(0.1)
                log.append(number)

        task = asyncio.create_task(periodic())
        world.clock.schedule(work, 1)
        await world.clock.advance(1)
        assert task.done()
        return log

    for order, strategy in PLANS:
        for seed in range(10):
            done = run_of(main, seed, order=order, strategy=strategy, exact_time=True)
            assert sorted(map(str, done.value)) == sorted([*map(str, range(10)), "worked"])


def test_advance_by_nothing_and_backwards() -> None:
    """Zero drains what is ready now; the past is refused with the way to get there."""

    async def main(world: World) -> Log:
        log: Log = []
        asyncio.get_running_loop().call_soon(log.append, "ready")
        await world.clock.advance(0)
        with pytest.raises(foretold.UsageError, match=r"world\.clock\.set_time"):
            await world.clock.advance(-1)
        return log

    assert foretold.run(main).value == ["ready"]


@pytest.mark.usefixtures("one_session")
def test_settle_waits_for_all_that_is_ready() -> None:
    """Nothing is left to do at this instant, and no timer was made to fire by waiting for that."""

    async def main(world: World) -> Log:
        log: Log = []

        async def work(number: int) -> None:
            for _ in range(number):
                await asyncio.sleep(0)
            log.append(number)

        tasks = [asyncio.create_task(work(number)) for number in range(5)]
        world.clock.schedule(lambda: log.append("timer"), 1)
        await world.clock.settle()
        assert all(task.done() for task in tasks)
        return log

    for order, strategy in PLANS:
        for seed in range(10):
            value = foretold.run(main, seed=seed, order=order, strategy=strategy).value
            assert sorted(value) == [0, 1, 2, 3, 4]


def test_settle_does_not_leave_a_held_task_behind() -> None:
    """A tape that holds a task until another has ended, which sleeps: it is ready, so it is due."""

    async def held(log: Log) -> None:
        await asyncio.sleep(0)
        log.append("held")

    async def sleeper() -> None:
        await asyncio.sleep(0.5)

    async def main(world: World) -> Log:
        log: Log = []
        tasks = [asyncio.create_task(held(log)), asyncio.create_task(sleeper())]
        await world.clock.settle()
        seen = list(log)
        await asyncio.wait(tasks)
        return seen

    schedule = Schedule.of([Hold("main", "held", 2, "sleeper", ENDED)])
    assert foretold.run(main, tape=Tape("derived", schedule=schedule)).value == ["held"]


# --- until idle ------------------------------------------------------------------------------


def test_run_until_idle_ends_when_nothing_is_scheduled() -> None:
    """Everything that was going to happen has happened, however far in the future."""

    async def main(world: World) -> tuple[Log, float]:
        log: Log = []
        for hours in (5, 1, 3):
            world.clock.schedule(functools.partial(log.append, hours), 3600 * hours)

        async def chain() -> None:
            await asyncio.sleep(3600 * 7)
            log.append("chain")

        task = asyncio.create_task(chain())
        await world.clock.run_until_idle()
        assert task.done()
        return log, world.clock.monotonic() - 1_000

    for order, strategy in PLANS:
        done = run_of(main, 1, order=order, strategy=strategy, exact_time=True)
        assert done.value == ([1, 3, 5, "chain"], 3600 * 7)


def test_run_until_idle_may_be_called_by_several() -> None:
    """Each of them is woken once, when the rest has come to rest."""

    async def main(world: World) -> Log:
        log: Log = []

        async def watcher(number: int) -> None:
            await world.clock.run_until_idle()
            log.append(number)

        world.clock.schedule(lambda: log.append("work"), 10)
        await asyncio.gather(watcher(1), watcher(2))
        return log

    assert foretold.run(main, order="asyncio").value == ["work", 1, 2]
    for order, strategy in PLANS:
        work, *woken = foretold.run(main, order=order, strategy=strategy).value
        assert work == "work"
        assert sorted(woken) == [1, 2]  # in which order is the scheduler's choice


def test_work_that_renews_itself_is_never_idle() -> None:
    """It would never end: past its limit it is an error that says what to do."""

    async def main(world: World) -> Log:
        log: Log = []
        ticker(world, log, 60)()
        with pytest.raises(foretold.LimitExceeded, match="renews itself for ever") as caught:
            await world.clock.run_until_idle(limit_s=600)
        assert "world.clock.advance" in str(caught.value)
        assert "limit_s" in str(caught.value)
        return log

    assert len(foretold.run(main, exact_time=True).value) == 11

    def plain(world: World) -> None:
        ticker(world, [], 60)()
        world.drive_until_idle()

    with pytest.raises(foretold.LimitExceeded, match="renews itself for ever"):
        foretold.run(plain)


# --- scheduling ------------------------------------------------------------------------------


def test_what_is_scheduled_can_be_called_off() -> None:
    """The token cancels once; afterwards, and after the call, it does no harm."""

    async def main(world: World) -> Log:
        log: Log = []
        kept = world.clock.schedule(lambda: log.append("kept"), 1)
        gone = world.clock.schedule(lambda: log.append("gone"), 1)
        before = gone.cancelled
        gone.cancel()
        gone.cancel()
        log.append((before, gone.cancelled))
        await world.clock.advance(2)
        kept.cancel()
        return log

    assert foretold.run(main).value == [(False, True), "kept"]


def test_equal_times_happen_in_the_order_of_scheduling() -> None:
    """Scenarios rely on it, whatever the scheduler."""

    async def main(world: World) -> Log:
        log: Log = []
        for number in range(20):
            world.clock.schedule(functools.partial(log.append, number), 1)
        await world.clock.advance(1)
        return log

    for order, strategy in PLANS:
        for seed in range(5):
            done = run_of(main, seed, order=order, strategy=strategy, exact_time=True)
            assert done.value == list(range(20))


def test_the_past_cannot_be_scheduled() -> None:
    """A negative delay is a mistake, not "at once"."""

    async def main(world: World) -> None:
        world.clock.schedule(lambda: None, -0.5)

    with pytest.raises(foretold.UsageError, match=r"-0\.5.*past"):
        foretold.run(main)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failing_callback_fails_the_run(is_async: bool) -> None:
    """Nobody awaits what is scheduled; its exception must not vanish."""

    def broken() -> None:
        raise LookupError("scheduled")

    async def broken_later() -> None:
        await asyncio.sleep(0)
        broken()

    async def main(world: World) -> None:
        world.clock.schedule(broken_later if is_async else broken, 1)
        await world.clock.advance(2)

    with pytest.raises(LookupError, match="scheduled"):
        foretold.run(main)


# --- setting and skewing ---------------------------------------------------------------------


def test_the_wall_clock_can_be_set_either_way() -> None:
    """As an administrator or NTP does; the monotonic clock and timers go on undisturbed."""

    async def main(world: World) -> Log:
        clock, log = world.clock, list[Any]()
        log.append((clock.now(), clock.monotonic()))
        clock.set_time(5_000)
        log.append((time.time(), time.monotonic()))
        await asyncio.sleep(10)
        clock.set_time(1)
        log.append((clock.now(), clock.monotonic(), clock.now_ns(), clock.monotonic_ns()))
        return log

    value = foretold.run(main, exact_time=True, epoch_s=9_000).value
    assert value == [(9_000, 1_000), (5_000, 1_000), (1, 1_010, 10**9, 1_010 * 10**9)]


def test_skew_is_not_added_up() -> None:
    """A skew replaces the one before; setting the clock ends it."""

    async def main(world: World) -> list[float]:
        clock, seen = world.clock, list[float]()
        for skew in (30, -30, 0.25):
            clock.skew(skew)
            seen.append(time.time())
        clock.set_time(500)
        seen.append(time.time())
        clock.skew(1)
        clock.skew(0)
        return [*seen, time.time(), time.monotonic()]

    value = foretold.run(main, exact_time=True, epoch_s=100).value
    assert value == [130, 70, 100.25, 500, 500, 1_000]


def test_the_date_is_aware_and_exact() -> None:
    """`world.clock.datetime()` is what `datetime.now(UTC)` says, to the microsecond."""

    async def main(world: World) -> tuple[datetime.datetime, datetime.datetime]:
        await asyncio.sleep(0.123_456)
        return world.clock.datetime(), datetime.datetime.now(datetime.UTC)

    ours, theirs = foretold.run(main, exact_time=True).value
    assert ours == theirs == datetime.datetime(2026, 1, 1, 0, 0, 0, 123_456, datetime.UTC)


# --- plain tests -----------------------------------------------------------------------------


def test_plain_tests_drive_the_world() -> None:
    """S2.3: without a single `await`, time passes and async work is done."""

    def main(world: World) -> Log:
        log: Log = []

        async def work() -> None:
            await asyncio.sleep(2)
            log.append(("worked", time.monotonic() - 1_000))

        world.clock.schedule(work, 1)
        world.drive(2.5)
        log.append(("driven", time.monotonic() - 1_000))
        world.drive(1)
        world.clock.schedule(lambda: log.append("much later"), 100)
        world.drive_until_idle()
        return [*log, time.monotonic() - 1_000]

    for order, strategy in PLANS:
        done = run_of(main, 2, order=order, strategy=strategy, exact_time=True)
        assert done.value == [("driven", 2.5), ("worked", 3), "much later", 103.5]
        assert done.virtual_s == 103.5


def test_driving_inside_a_loop_is_refused() -> None:
    """In an async test the line to write is another one, and the error shows it."""

    async def main(world: World) -> None:
        with pytest.raises(foretold.UsageError, match=r"await world\.clock\.advance\(seconds\)"):
            world.drive(1)
        with pytest.raises(foretold.UsageError, match=r"await world\.clock\.run_until_idle\(\)"):
            world.drive_until_idle()

    assert run_of(main).error is None


def test_a_loop_made_by_asyncio_run_has_the_same_clock() -> None:
    """In a plain test `asyncio.run` starts another loop; what is scheduled there happens there."""

    def main(world: World) -> Log:
        log: Log = []

        async def inner() -> None:
            world.clock.schedule(lambda: log.append("scheduled"), 1)
            await world.clock.advance(2)
            await world.clock.run_until_idle()
            log.append(time.monotonic() - 1_000)

        asyncio.run(inner())
        world.drive(1)
        return [*log, time.monotonic() - 1_000]

    for order, strategy in PLANS:
        done = run_of(main, order=order, strategy=strategy, exact_time=True)
        assert done.value == ["scheduled", 2, 3]


def test_a_clock_drifts() -> None:
    """Too fast or too slow by so much a second: the wall clock, and the times of files; not the
    monotonic clock. What it has drifted stays until somebody puts it right."""

    async def main(world: World) -> list[float]:
        clock, found = world.host("one").clock, []
        world.host("one").start(asyncio.sleep(1e6))

        def wrong_by_s() -> float:
            ours, theirs = world.clock, clock
            assert abs(theirs.monotonic() - ours.monotonic()) < 1
            wall_s = (theirs.now_ns() - theirs.monotonic_ns()) / 1e9
            return round(wall_s - (ours.now_ns() - ours.monotonic_ns()) / 1e9, 3)

        for act in (
            lambda: clock.drift(100),
            lambda: clock.drift(-200),
            lambda: clock.drift(0),
            lambda: clock.skew(5),
            lambda: clock.drift(1000),
            lambda: clock.skew(0),
            lambda: clock.drift(0),
        ):
            act()
            world.host("one").wake()
            await world.clock.advance(1000)
            world.host("one").wake()
            found.append(wrong_by_s())
        return found

    drifted = foretold.run(main, exact_time=True).value
    assert drifted == [0.1, -0.1, -0.1, 5.0, 6.0, 1.0, 1.0]


def test_a_drifting_clock_can_be_set() -> None:
    """It shows what it was set to, and drifts on from there."""

    async def main(world: World) -> list[int]:
        world.clock.drift(1_000_000)
        await asyncio.sleep(10)
        world.clock.set_time(5_000)
        found = [world.clock.now_ns()]
        await asyncio.sleep(10)
        return [*found, world.clock.now_ns()]

    assert foretold.run(main, exact_time=True).value == [5_000 * 10**9, 5_020 * 10**9]


def test_a_processor_is_not_busy_with_waiting() -> None:
    """process_time and its kind pass while the program runs, and while it waits for a timer, a
    sleep, a thread or another host they do not. Two reads never show the same."""
    clocks = (time.process_time, time.thread_time, lambda: os.times().user)

    async def hour() -> float:
        begun = time.process_time()
        await asyncio.sleep(3_600)
        return time.process_time() - begun

    async def main(world: World) -> Any:
        seen = []
        for clock in clocks:
            begun = clock()
            await asyncio.sleep(1_000)
            time.sleep(1_000)
            await asyncio.to_thread(time.sleep, 1_000)
            await world.host("other").start(hour)
            seen.append(clock() - begun)
        return seen, await hour(), time.process_time() < time.process_time()

    seen, alone, passes = foretold.run(main).value
    assert all(0 < each < 1 for each in (*seen, alone))
    assert passes


def test_a_processor_is_busy_with_a_loop_that_spins() -> None:
    """A program that waits by looking at the clock uses all of that time."""

    def main() -> float:
        begun, until = time.process_time(), time.monotonic() + 0.01
        while time.monotonic() < until:
            pass
        return time.process_time() - begun

    assert foretold.run(main).value >= 0.01
