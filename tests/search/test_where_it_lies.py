"""The cause is told where it lies: in a callback, a package, a host, a thread's own line."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio

import foretold
from foretold.story.decided import decision_text, sides_of
from foretold.story.decision import DecidingStep, Decision, Pair
from foretold.story.story import faults_of, tell, tell_run
from foretold.story.words import short
from foretold.tape import CALLBACKS, ENDED, Hold, Schedule, Tape
from foretold.trace import Place
from foretold.trace.events import CalledBack, Made, Resumed, Visited
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings
from foretold.world.world import World
from tests.search.test_story import event, lines_about, step


def run_of(main: Callable[..., Any]) -> Run:
    """The calm run, which fails."""
    tape = Tape.calm()
    done = execute(bind_main(main), tape, Settings.from_tape(tape.settings), detail=True)
    assert isinstance(done.error, AssertionError), done.error
    return done


def lines_of(main: Callable[..., Any], about: str = "") -> list[str]:
    """The lines of its story that have a word in them, without times and places."""
    story = str(tell_run(run_of(main))[0])
    return [line.strip() for line in story.splitlines() if about in line]


def test_an_error_in_a_callback_before_the_failure_is_told() -> None:
    """It is why the visitor waits; the assertion that fails a minute later only sees it."""

    async def main() -> None:
        def broken(_: object) -> None:
            raise KeyError("evicted")

        async def job() -> None:
            await asyncio.sleep(0.01)

        task = asyncio.create_task(job())
        task.add_done_callback(broken)
        visitor = asyncio.create_task(asyncio.Event().wait())
        _, stuck = await asyncio.wait([visitor], timeout=60)
        assert not stuck, "a visitor waits for ever"

    head, line = lines_of(main, "KeyError")
    assert line.endswith("a callback raises KeyError('evicted'), which is not caught")
    assert "test_where_it_lies.py" in line
    assert head.startswith("Before the failure a callback raises KeyError('evicted'), which is not")


def test_the_exception_of_a_task_that_nothing_awaits_is_no_callback_s() -> None:
    """asyncio reports it when the task is let go, in whatever step that is. It stands in the head,
    with the line that raised it; an exception that is the failure does not."""

    async def main() -> None:
        async def settle() -> None:
            await asyncio.sleep(0.01)
            raise ValueError("no rate")

        tasks = {asyncio.create_task(settle())}
        for task in list(tasks):
            task.add_done_callback(tasks.discard)
        del task
        await asyncio.sleep(1)
        raise AssertionError("it fails")

    lines = lines_of(main)
    assert lines[0].startswith("Before the failure a task that nothing awaits raises ValueError(")
    assert "test_where_it_lies.py" in " ".join(lines[:2])
    assert not any("a callback raises" in line for line in lines)


def test_a_timeout_says_whose_it_is() -> None:
    """Of asyncio.timeout, asyncio.wait and anyio; and an answer in time is no timeout."""

    async def main() -> None:
        async def hasty() -> None:
            await asyncio.wait([asyncio.create_task(asyncio.sleep(9))], timeout=1)

        async def polite() -> None:
            with anyio.move_on_after(2):
                await anyio.sleep(9)

        async def in_time() -> None:
            await asyncio.wait_for(asyncio.sleep(0.5), 3)

        await asyncio.gather(hasty(), polite(), in_time())
        raise AssertionError("it fails")

    said = [line.partition("(")[2] for line in lines_of(main, "expires)")]
    assert said == ["a timeout of hasty expires)", "a timeout of polite expires)"]


def test_what_happens_to_hosts_is_told_in_its_order_and_what_the_test_set_is_no_fault() -> None:
    """However much the hosts do: of many lines these are not left out. Times never run backwards,
    though hosts have clocks of their own."""

    async def main(world: World) -> None:
        world.network.latency(0.001, 0.002)

        async def beat() -> None:
            for number in range(60):
                await asyncio.sleep(0.05 + number / 1000)
                foretold.choose(["beats"], f"beat {number}")

        hosts = [world.host(name) for name in ("one", "two")]
        for host in hosts:
            host.start(beat)
        await asyncio.sleep(1)
        hosts[0].kill()
        hosts[1].clock.skew(3)
        await asyncio.sleep(1)
        world.network.partition("one", "two")
        await asyncio.sleep(1)
        hosts[0].restart()
        await asyncio.sleep(1)
        raise AssertionError("it fails")

    done = run_of(main)
    struck = [
        "kill one", "the clock of two is wrong by +3 s", "partition one <-> two", "restart one",
    ]  # fmt: skip
    assert faults_of(done) == struck
    story = str(tell_run(done)[0]).partition("What happened")[2].splitlines()
    assert sum("the test sets: latency everywhere" in line for line in story) == 1
    told = [line for line in story if any(map(line.endswith, struck))]
    assert [line.partition("fault: ")[2] for line in told[:3]] == struck[:3]
    assert told[3].split()[2:] == ["one", "restart", "one"], "the end of a fault is none"
    assert told[0].split()[2] == "one", "the host that it strikes"
    shown = [line.split() for line in story if " later)" not in line]
    times = [float(words[0]) for words in shown if words[1:2] == ["s"]]
    assert times == sorted(times)
    assert any("left out" in line for line in story), "there was much else to tell"


def test_threads_are_told_by_the_user_s_lines() -> None:
    """Two of them read, wait and write; the locks inside of a queue are no line of a story."""

    def main() -> None:
        jobs: queue.Queue[int | None] = queue.Queue()
        total = [0]

        def worker() -> None:
            while jobs.get() is not None:
                value = total[0]
                time.sleep(0.01)
                total[0] = value + 1

        threads = [threading.Thread(target=worker, name=f"worker {n}") for n in range(2)]
        for thread in threads:
            thread.start()
        for job in (1, 2, None, None):
            jobs.put(job)
        for thread in threads:
            thread.join()
        assert total[0] == 2

    lines = lines_of(main)
    assert not any(
        name in line for line in lines for name in ("threading.py", "queue.py", "back at")
    )
    assert sum("runs to line" in line and "time.sleep(0.01)" in line for line in lines) == 2


def test_a_poll_is_told_once() -> None:
    """With how often: of two lines that are said again and again."""

    async def main() -> None:
        async def check() -> None:
            await asyncio.sleep(0.001)

        async def poll() -> None:
            while True:
                await check()
                await asyncio.sleep(0.1)

        task = asyncio.create_task(poll())
        await asyncio.sleep(21)
        assert task.done(), "it still polls"

    (line,) = lines_of(main, "×")
    assert line.endswith("(× 207, these 2 lines)")
    assert len(lines_of(main, "  poll  ")) == 4


def test_timeouts_of_one_poll_are_told_once() -> None:
    """Whose, and how often."""

    async def main() -> None:
        async def ask() -> None:
            answered = asyncio.get_running_loop().create_future()
            for _ in range(4):
                await asyncio.wait([answered], timeout=0.02)
            assert answered.done(), "no answer"

        await asyncio.create_task(ask())

    (line,) = lines_of(main, "expires")
    assert line.endswith("(a timeout of ask expires)  (× 4)")


def test_the_line_of_a_package_in_which_a_step_waits_is_told() -> None:
    """The race may be the package's: `async with limiter:` is where the user waits, no more."""
    limiter = Place(anyio.__file__, 7, "CapacityLimiter.acquire")
    mine = Place("app.py", 3, "use")
    after = Resumed(0, "main", "use", 2, mine, inner=limiter)
    step = DecidingStep(("main", "use", 2), mine, (mine, limiter), after)
    tape = Tape.calm()
    text = decision_text(Decision(Pair(step, step, tape, tape)))
    assert "(in anyio/__init__.py:7)" in text
    assert "at anyio/__init__.py:7 in CapacityLimiter.acquire" in text


def test_the_steps_that_decide_have_the_names_of_the_story() -> None:
    """A request behind BaseHTTPMiddleware is a task that Starlette calls coro."""
    mine = Place("app.py", 3, "handler")
    step = DecidingStep(("web", "coro-4", 2), mine, (mine,), None)
    names = {("web", "coro-4"): "POST /x of ann"}
    pair = Pair(step, step, Tape.calm(), Tape.calm())
    decision = Decision(pair)
    assert "  1. POST /x of ann (2nd step)" in decision_text(decision, names)
    assert "coro" not in decision_text(decision, names)
    assert sides_of(pair, names)[0].who == "POST /x of ann"


def test_steps_inside_of_packages_are_left_out() -> None:
    """A task that has left the user's own lines goes on in those of the package that called it."""

    async def main() -> None:
        async def stop() -> None:
            await asyncio.sleep(0.01)

        stack = contextlib.AsyncExitStack()
        stack.push_async_callback(anyio.sleep, 0.01)
        stack.push_async_callback(anyio.sleep, 0.02)
        stack.push_async_callback(stop)
        await asyncio.create_task(stack.aclose(), name="closing")
        raise AssertionError("it fails")

    starts, goes_on = lines_of(main, "  closing  ")
    assert "runs to line" in starts or "runs to tests" in starts
    assert goes_on.endswith("goes on, and leaves the lines of the program")


def test_a_run_knows_the_line_of_a_package() -> None:
    """Of a task that waits in one; of one that waits in its own line or in asyncio, none."""

    async def main() -> None:
        await anyio.sleep(1)
        await asyncio.sleep(1)
        raise AssertionError("it fails")

    steps = [e for e in run_of(main).trace.events if isinstance(e, Resumed) and e.actor == "main"]
    inner = [event.inner.file if event.inner is not None else "" for event in steps]
    assert "anyio" in inner[1]
    assert inner[2] == ""


def test_a_thread_of_a_pool_is_told_by_the_line_that_it_comes_to() -> None:
    """Between two jobs no line of the user's own waits. The frames of the pool say nothing."""
    waits = Place(threading.__file__, 327, "Condition.wait")
    job = Place(__file__, 1, "job")
    back = Resumed(1, "main", "api_1", 32, waits)
    step = DecidingStep(("main", "api_1", 31), waits, (waits, waits), back, leads=job)
    text = decision_text(Decision(Pair(step, step)))
    assert f"  1. api_1 (31st step) goes on in a package, and comes next to {short(job)}" in text
    assert "Condition.wait" not in text
    assert "Condition.wait" in decision_text(Decision(Pair(step._replace(leads=None), step)))


def test_the_lines_of_a_request_are_those_of_all_its_tasks() -> None:
    """A middleware has its library run the endpoint in a task of its own. Of many requests those
    that are shown are shown with it, under one name; and what the library does besides is not."""
    told = [step("main", 1)]
    package = anyio.__file__
    for n in (1, 2, 3, 4, 5):
        told += [
            event(Visited, f"POST /x-{n}", 0, client="ann", asks=f"POST /x/{n}"),
            *(step(f"POST /x-{n}", k, line=29) for k in (1, 2)),
            event(Made, f"coro-{n}", 0, by=f"POST /x-{n}"),
            *(
                event(Resumed, f"coro-{n}", k, place=Place("app.py", 50 + k, "spend"))
                for k in (1, 2, 3)
            ),
            event(Made, f"wrap-{n}", 0, by=f"coro-{n}"),
            *(step(f"wrap-{n}", k, file=package, line=7) for k in (1, 2)),
        ]
    held = Schedule.of([Hold("main", "POST /x-5", 2, "POST /x-4", ENDED)])
    story, _ = tell(held, [*told, step("POST /x-4", 3, line=31)], 0)
    (line,) = lines_about(story, "app.py:53")
    assert "  POST /x/5 of ann  " in line
    assert "coro" not in story
    assert "anyio" not in story


def test_whoever_lets_a_timeout_expire_is_shown() -> None:
    """The line in which it was cancelled may be the cause, and its name is told anyway."""
    told = [step("main", 1), *(step(f"job-{n}", 1) for n in range(1, 6))]
    told += [
        event(CalledBack, CALLBACKS, 1, name="", is_timeout=True, whose="job-4"),
        step("job-4", 2, line=23),
        step("main", 2),
    ]
    story, _ = tell(Schedule(), told, 0)
    assert "(a timeout of job-4 expires)" in story
    assert "app.py:23" in story
    assert "(job × 4)" in story


def test_a_step_that_decides_is_never_folded() -> None:
    """Nor is it left out of a long story: not among rounds, not among what is told once."""
    noise = [step("poll", n) for n in range(1, 60)]
    told = [step("main", 1), *noise, *(step("main", n, line=n) for n in range(2, 90))]
    keys = [("main", "poll", 30), ("main", "main", 45)]
    first, second = (DecidingStep(key, None, (), None) for key in keys)
    story = tell(Schedule(), told, 0, decision=Decision(Pair(first, second)))[0]
    lines = lines_about(story, "  poll  ")
    assert len(lines) == 4
    assert "goes on, is back at this line" in lines[1]
    assert lines_about(story, "app.py:45")
