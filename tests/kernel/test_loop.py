"""The loop of a simulated host: stock asyncio's order where it promises that, and the limits of
what `order="any"` may do (a failure that production cannot have is worse than none)."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import foretold
from tests.determinism.programs import PROGRAMS
from tests.helpers import PLANS, SOAK_FACTOR, STRATEGIES, again, outcome, run_of

SPIN_STEPS_MAX = 60_000

# --- order="asyncio" -------------------------------------------------------------------------

WITHOUT_TIMERS = (
    "task_group",
    "queues",
    "priority_queue",
    "semaphore_and_lock",
    "conditions",
    "event_storm",
    "barrier",
    "stream_reader",
    "context_variables",
    "shielded",
)


@pytest.mark.parametrize("name", WITHOUT_TIMERS)
def test_stock_order_is_that_of_stock_asyncio(name: str) -> None:
    """Where nothing comes from outside, `order="asyncio"` leaves nothing to choose.

    The result of each program is that of `asyncio.run`, for every seed.
    """
    stock = repr(asyncio.run(PROGRAMS[name]()))
    for seed in range(8):
        assert repr(foretold.run(PROGRAMS[name], seed=seed, order="asyncio").value) == stock


def test_an_iteration_is_a_snapshot() -> None:
    """What callbacks schedule runs after all that were ready with them, as in `_run_once`."""

    async def main() -> list[str]:
        loop, log = asyncio.get_running_loop(), list[str]()

        def first() -> None:
            log.append("first")
            loop.call_soon(log.append, "made by first")

        loop.call_soon(first)
        loop.call_soon(log.append, "second")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return log

    for order, strategy in PLANS:
        value = foretold.run(main, order=order, strategy=strategy).value
        assert value == ["first", "second", "made by first"], (order, strategy)


def test_timers_are_polled_between_iterations_only() -> None:
    """A timer that falls due in the middle of an iteration waits for the next one.

    It then comes after what was made ready meanwhile, as in stock asyncio.
    """

    async def main() -> list[str]:
        loop, log = asyncio.get_running_loop(), list[str]()

        def stall() -> None:
            time.sleep(0.2)
            loop.call_soon(log.append, "made ready")

        loop.call_later(0.1, log.append, "timer")
        loop.call_soon(stall)
        loop.call_soon(log.append, "same iteration")
        await asyncio.sleep(0.5)
        return log

    value = foretold.run(main, order="asyncio", exact_time=True).value
    assert value == ["same iteration", "made ready", "timer"]


def test_equal_deadlines_fire_in_the_order_of_creation() -> None:
    """Stock asyncio leaves that to its heap; here it is a promise, in both orders."""

    async def main() -> list[int]:
        loop, log = asyncio.get_running_loop(), list[int]()
        when = loop.time() + 1
        for number in range(50):
            loop.call_at(when, log.append, number)
        await asyncio.sleep(2)
        return log

    for order, strategy in PLANS:
        for seed in range(3):
            done = foretold.run(main, seed=seed, order=order, strategy=strategy)
            assert done.value == list(range(50))


def test_deadlines_in_the_past_are_due_at_once() -> None:
    """`call_at` with a time that has passed, and `call_later` with a negative delay."""

    async def main() -> tuple[list[str], float]:
        loop, log = asyncio.get_running_loop(), list[str]()
        loop.call_later(0.001, log.append, "later")
        loop.call_at(loop.time() - 100, log.append, "long past")
        loop.call_later(-1, log.append, "past")
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        return log, loop.time()

    for order in ("asyncio", "any"):
        value, now = foretold.run(main, order=order, monotonic_s=50).value
        assert value == ["long past", "past", "later"]
        assert now == pytest.approx(50.01, abs=0.002)


def test_called_off_timers_are_forgotten() -> None:
    """A program that sets and cancels a time limit for each request keeps no trace of them."""

    async def main() -> tuple[int, list[str]]:
        loop, log = asyncio.get_running_loop(), list[str]()
        loop.call_later(50, log.append, "kept")
        for _ in range(3_000):
            loop.call_later(1000, log.append, "never").cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        waiting = len(loop._alarms)  # type: ignore[attr-defined]  # how many are really kept
        await asyncio.sleep(100)
        return waiting, log

    for order in ("asyncio", "any"):
        waiting, log = foretold.run(main, order=order).value
        assert waiting < 300
        assert log == ["kept"]


# --- what order="any" may and may not do -----------------------------------------------------


async def tasks_between_callbacks() -> list[str]:
    """Tasks and callbacks become ready in turn: t0 c0 t1 c1 …"""
    loop, log = asyncio.get_running_loop(), list[str]()

    async def step(number: int) -> None:
        log.append(f"t{number}")

    tasks = []
    for number in range(6):
        tasks.append(asyncio.create_task(step(number)))
        loop.call_soon(log.append, f"c{number}")
    await asyncio.wait(tasks)
    return log


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_task_never_overtakes_a_callback(strategy: str) -> None:
    """Transports rely on it: data that was received before is handed over before.

    For every callback: no task that became ready after it runs before it, on any tape; and
    callbacks keep their order among themselves.
    """
    for seed in range(60):
        log = foretold.run(tasks_between_callbacks, seed=seed, strategy=strategy).value
        at = {name: position for position, name in enumerate(log)}
        for callback, task in itertools.product(range(6), range(6)):
            if task > callback:
                assert at[f"c{callback}"] < at[f"t{task}"], (seed, log)
        assert [name for name in log if name[0] == "c"] == [f"c{n}" for n in range(6)]


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", ["random", "pct", "delays"])
def test_a_callback_is_neither_first_nor_last(strategy: str) -> None:
    """A callback may run before or after the tasks that were ready earlier: both happen."""
    logs = [
        foretold.run(tasks_between_callbacks, seed=seed, strategy=strategy).value
        for seed in range(60)
    ]
    overtakes = [log.index("c5") < log.index("t5") for log in logs]
    assert True in overtakes
    assert False in overtakes


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_callback_that_renews_itself_starves_nobody(strategy: str) -> None:
    """anyio delivers a cancellation by a callback that calls itself again until it worked."""

    async def main() -> int:
        loop, calls = asyncio.get_running_loop(), [0]

        def again() -> None:
            calls[0] += 1
            if not finished:
                loop.call_soon(again)

        finished = False
        again()
        for _ in range(20):
            await asyncio.sleep(0)
        finished = True
        return calls[0]

    for seed in range(40):
        assert foretold.run(main, seed=seed, strategy=strategy, steps_max=SPIN_STEPS_MAX).value > 1


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_anyio_cancels_a_task_that_takes_its_time(strategy: str) -> None:
    """The same with anyio itself: children that need several steps to give in."""

    async def stubborn(log: list[str], number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(number):
                    await anyio.sleep(0)
            log.append(f"{number}")

    async def main() -> list[str]:
        log: list[str] = []
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(stubborn, log, number)
            await anyio.sleep(0)
            group.cancel_scope.cancel()
        return sorted(log)

    for seed in range(20):
        done = foretold.run(main, seed=seed, strategy=strategy, steps_max=SPIN_STEPS_MAX)
        assert done.value == ["1", "2", "3", "4"] or done.value == ["0", "1", "2", "3", "4"]


async def spin_until_set() -> int:
    """A task that polls a flag, and one that needs several turns to set it."""
    flag: list[bool] = []

    async def poll() -> int:
        turns = 0
        while not flag:
            turns += 1
            await asyncio.sleep(0)
        return turns

    async def work() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        flag.append(True)

    turns = await asyncio.gather(poll(), poll(), work())
    return int(turns[0] or 0)


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_spinning_task_never_hangs(strategy: str) -> None:
    """Unfair schedulers must turn fair in the end: `while not flag: await sleep(0)` is common."""
    for seed in range(60):
        done = run_of(spin_until_set, seed, strategy=strategy, steps_max=SPIN_STEPS_MAX)
        assert done.error is None, seed


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_spinning_until_a_timer_fires_ends(strategy: str) -> None:
    """Steps take time, so a task that polls the clock or waits for a timer gets there."""

    async def main() -> float:
        loop, fired = asyncio.get_running_loop(), list[bool]()
        start = loop.time()
        loop.call_later(0.004, fired.append, True)
        while not fired or time.monotonic() - start < 0.005:
            await asyncio.sleep(0)
        return loop.time() - start

    for seed in range(20):
        done = run_of(main, seed, strategy=strategy, steps_max=SPIN_STEPS_MAX)
        assert done.error is None
        assert done.value < 0.05


# --- methods of a task as callbacks ----------------------------------------------------------


async def cancelled_by_callbacks() -> list[Any]:
    """`task.cancel` itself is scheduled, and one of the handles is called off in time."""
    log: list[Any] = []
    loop = asyncio.get_running_loop()

    async def worker(number: int) -> None:
        try:
            for step in range(6 + number):
                await asyncio.sleep(0)
                log.append((number, step))
        except asyncio.CancelledError:
            log.append((number, "cancelled"))
            raise

    tasks = [asyncio.create_task(worker(number)) for number in range(4)]
    handles = [loop.call_soon(task.cancel) for task in tasks]
    handles += [loop.call_later(0, task.cancel) for task in tasks]
    handles[3].cancel()
    await asyncio.sleep(0)
    handles[7].cancel()
    await asyncio.wait(tasks)
    return log


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scheduled_cancel_is_a_callback(strategy: str) -> None:
    """`call_soon(task.cancel)` is no step of that task: it is not reordered as one, it can be
    called off until it runs, and the recording replays."""
    for seed in range(60):
        first = run_of(cancelled_by_callbacks, seed, recording=True, strategy=strategy)
        assert first.error is None
        assert outcome(again(cancelled_by_callbacks, first.tape.recorded())) == outcome(first)


def test_the_end_of_a_task_is_told_once() -> None:
    """A late `cancel` of a finished task is no second end of it."""

    async def quick() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(quick())
        loop.call_later(0.01, task.cancel)
        await asyncio.sleep(0.1)

    for order in ("asyncio", "any"):
        entries: list[str] = []
        tape = foretold.Tape.seeded(0, {"order": order, "strategy": "fifo"})
        again(main, tape, sink=entries.append)
        assert sum("quick returned" in entry for entry in entries) == 1
        assert "Task.cancel" in entries


# --- names -----------------------------------------------------------------------------------


async def named_tasks() -> list[str]:
    """Tasks of one coroutine function, one named by hand, and two of one name."""

    async def worker() -> str:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    tasks = [asyncio.create_task(worker()) for _ in range(3)]
    tasks += [asyncio.create_task(worker(), name=name) for name in ("mine", "mine", "worker-2")]
    return list(await asyncio.gather(*tasks))


def test_tasks_are_named_per_world() -> None:
    """Stock names count through the whole process: "Task-17" would differ from run to run."""
    for _ in range(2):
        value = foretold.run(named_tasks).value
        assert value == ["worker", "worker-2", "worker-3", "mine", "mine", "worker-2"]


def test_a_name_given_by_hand_is_the_actors_name() -> None:
    """Schedules and stories speak of `alice`, not of `worker-3`; until 3.12 asyncio names a task
    only after it was made. Who is left unnamed counts as if she had never been one of them."""

    async def worker() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker())
            group.create_task(worker(), name="alice")
            await asyncio.create_task(worker(), name="alice")
            await asyncio.create_task(worker())

    entries: list[str] = []
    again(main, foretold.Tape.seeded(0), sink=entries.append)
    ended = {entry.split()[1] for entry in entries if " returned " in entry}
    assert ended == {"worker", "alice", "alice-2", "worker-2", "main"}


def test_no_address_is_in_the_name_of_an_actor() -> None:
    """Pyro5 and RPyC call a thread after `id(self)`, which is another in each run. Numbers of other
    lengths stay, and the program sees the names that it gave."""
    names = ["Worker-140556635478672", "Worker-94470807190528", "<X at 0x7f4748020e00>"]
    names += ["order-1234567890123", "0xbeef", "1767225600000000000"]

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(asyncio.sleep(0), name=name) for name in names]
        thread = threading.Thread(target=int, name="Worker-140556635478673")
        thread.start()
        thread.join()
        await asyncio.gather(*tasks)
        return [*(task.get_name() for task in tasks), thread.name]

    entries: list[str] = []
    done = again(main, foretold.Tape.seeded(0), sink=entries.append)
    assert done.value == [*names, "Worker-140556635478673"]
    ended = {
        entry.partition(" ")[2].partition(" returned ")[0]
        for entry in entries
        if " returned " in entry
    }
    assert ended == {"Worker-…", "Worker-…-2", "Worker-…-3", "<X at …>", *names[3:], "main"}


EAGER = getattr(asyncio, "eager_task_factory", None)


@pytest.mark.skipif(EAGER is None, reason="eager tasks came with 3.12")
def test_eager_tasks_have_their_name_from_the_start() -> None:
    """An eager task runs inside its own construction, before anybody could name it."""

    async def child() -> str:
        task = asyncio.current_task()
        return task.get_name() if task else ""

    async def main() -> list[str]:
        asyncio.get_running_loop().set_task_factory(EAGER)
        return list(await asyncio.gather(child(), child()))

    entries: list[str] = []
    done = again(main, foretold.Tape.seeded(0), sink=entries.append)
    assert done.value == ["child", "child-2"]
    assert any("child-2 returned 'child-2'" in entry for entry in entries)


def test_a_task_factory_is_given_what_asyncio_gives_it() -> None:
    """Until 3.13.2 the loop names a factory's task; later on the factory is given the name. The
    stock loop of this Python is asked which."""

    async def main() -> list[Any]:
        given: list[Any] = []

        def factory(loop: Any, coro: Any, **names: Any) -> Any:
            given.append(sorted(names))
            names.pop("name", None)
            return asyncio.Task(coro, loop=loop, name="by the factory", **names)

        asyncio.get_running_loop().set_task_factory(factory)
        task = asyncio.create_task(asyncio.sleep(0), name="by the program")
        await task
        return [*given, task.get_name()]

    assert run_of(main).value == asyncio.run(main())


# --- several loops ---------------------------------------------------------------------------


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_loop_runs_its_own_tasks_only(strategy: str) -> None:
    """A plain program may have several loops; what is ready on one waits until that one runs."""

    async def steps(log: list[Any], name: str, count: int) -> None:
        home = asyncio.get_running_loop()
        for number in range(count):
            await asyncio.sleep(0)
            assert asyncio.get_running_loop() is home
            log.append((name, number))

    def main() -> list[Any]:
        log: list[Any] = []
        loops = [asyncio.new_event_loop() for _ in range(2)]
        tasks = [loop.create_task(steps(log, f"left on {n}", 6)) for n, loop in enumerate(loops)]
        for number in range(3):
            for loop in loops:
                loop.run_until_complete(steps(log, f"round {number}", 1))
            asyncio.run(steps(log, f"run {number}", 2))
        for loop, task in zip(loops, tasks, strict=True):
            loop.run_until_complete(task)
            loop.close()
        return log

    for seed in range(20):
        first = run_of(main, seed, recording=True, strategy=strategy)
        assert first.error is None
        assert len(first.value) == 2 * 6 + 3 * 2 + 3 * 2
        assert outcome(again(main, first.tape.recorded())) == outcome(first)


# --- memory ----------------------------------------------------------------------------------


async def many_steps(count: int) -> None:
    """Two chains of steps, with a short-lived task now and then."""

    async def chain() -> None:
        for number in range(count // 2):
            if number % 50 == 0:
                await asyncio.create_task(asyncio.sleep(0))
            await asyncio.sleep(0)

    await asyncio.gather(chain(), chain())


def peak_mb(main: Callable[..., Any], **how: Any) -> float:
    """By how much memory grew at most during a run."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        foretold.run(main, **how)
        return (tracemalloc.get_traced_memory()[1] - before) / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["asyncio", "any"])
def test_memory_does_not_grow_with_steps(order: str) -> None:
    """The trace is a running digest, not a list: ten times the steps, about the same memory."""
    short = peak_mb(lambda: many_steps(4_000), order=order)
    long = peak_mb(lambda: many_steps(40_000), order=order)
    assert long < short + 2


@pytest.mark.soak
@pytest.mark.parametrize("order", ["asyncio", "any"])
def test_a_million_steps_stay_below_100_mb(order: str) -> None:
    """The figure that is promised, with room to spare."""
    assert peak_mb(lambda: many_steps(50_000 * SOAK_FACTOR), order=order) < 100
