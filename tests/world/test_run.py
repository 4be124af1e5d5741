"""One run: what `foretold.run` takes and gives, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import os
import random
import sys
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import foretold
from foretold.kernel import swap
from foretold.kernel.patches import patches
from foretold.kernel.policy import current_policy
from foretold.tape import Tape
from tests.helpers import PLANS, again, run_of

World = foretold.World


async def three_tasks() -> list[int]:
    """A little freedom of order."""
    log: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        log.append(number)

    await asyncio.gather(*(work(number) for number in range(5)))
    return log


# --- what it gives ---------------------------------------------------------------------------


def test_a_run_tells_all_about_itself() -> None:
    """Value, tape, trace, virtual time and steps; the tape gives the same run again."""

    async def main() -> str:
        await asyncio.sleep(2.5)
        return "done"

    done = foretold.run(main, seed=4, exact_time=True)
    assert done.value == "done"
    assert done.virtual_s == 2.5
    assert done.steps == 4
    assert done.error is None
    assert done.trace.digest == done.digest == foretold.replay(main, done.tape).digest


def test_a_seed_is_a_run() -> None:
    """The same seed gives the same run in one process, over and over; others give others."""
    digests = [foretold.run(three_tasks, seed=seed).digest for seed in range(10)]
    assert digests == [foretold.run(three_tasks, seed=seed).digest for seed in range(10)]
    assert len(set(digests)) > 5
    assert foretold.run(three_tasks).digest == digests[0]


def test_a_given_tape_keeps_what_is_changed() -> None:
    """`run(main, tape=…, order=…)`: the tape of the result says how the run really was."""
    for order, strategy in PLANS:
        done = foretold.run(three_tasks, tape=Tape.seeded(3), order=order, strategy=strategy)
        assert done.tape.settings == {"order": order, "strategy": strategy}
        replayed = foretold.replay(three_tasks, done.tape)
        assert (replayed.value, replayed.digest) == (done.value, done.digest)


def test_every_tape_in_turn() -> None:
    """`enumerate_tapes` with whole runs: each combination of the program's choices, once."""

    async def main() -> tuple[str, int]:
        first = foretold.choose("ab")
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.1))
        return first, foretold.between(0, 2)

    seen = [foretold.run(main, tape=tape).value for tape in foretold.enumerate_tapes(limit=50)]
    assert sorted(seen) == [(letter, number) for letter in "ab" for number in range(3)]


def test_an_enumeration_goes_through_the_streams_that_are_named() -> None:
    """A message between two hosts draws latencies. They stay calm, so that there are as many runs
    as the program has combinations. With all streams there are too many."""

    async def main(world: foretold.World) -> tuple[str, int]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read(1))
            writer.close()

        async def serve() -> None:
            async with await asyncio.start_server(echo, "0.0.0.0", 7) as server:
                await server.serve_forever()

        host = world.host("echo")
        host.start(serve)
        await host.listening(7)
        reader, writer = await asyncio.open_connection("echo", 7)
        writer.write(b"x")
        await reader.read(1)
        writer.close()
        size = foretold.knob("size", [1, 2])
        return foretold.choose("abc"), size

    def values(**which: Any) -> list[Any]:
        return [
            foretold.run(main, tape=tape).value for tape in foretold.enumerate_tapes(50, **which)
        ]

    assert values() == [("a", 1), ("b", 1), ("c", 1)]
    assert len(values(streams=("workload", "knob"))) == len(set("abc")) * 2
    with pytest.raises(foretold.UsageError, match="more than 50 combinations"):
        values(streams=None)
    with pytest.raises(foretold.UsageError, match="such as streams="):
        next(foretold.enumerate_tapes(streams="workload"))


def test_choices_that_matter_are_counted() -> None:
    """0 means that every tape gives this same run: a search would explore nothing."""

    async def nothing() -> None:
        await asyncio.sleep(0)

    assert run_of(nothing).choices == 0
    assert run_of(three_tasks).choices > 0
    for draw in (random.random, uuid.uuid4, lambda: os.urandom(4), random.Random):
        assert run_of(lambda draw=draw: draw() and None).choices == 1
    assert run_of(lambda: foretold.between(1, 9)).choices == 1


# --- what it takes ---------------------------------------------------------------------------


async def wants_nothing() -> str:
    """An async main without arguments."""
    return "nothing"


async def wants_world(world: World) -> str:
    """An async main that takes the world."""
    return type(world).__name__


async def wants_more(prefix: str, world: World) -> str:
    """A main that has to be bound first."""
    return prefix + type(world).__name__


class Bound:
    """Methods and callable objects are functions too."""

    async def method(self, world: World) -> str:
        return type(world).__name__

    async def __call__(self) -> str:
        return "called"


class Awaitable:
    """Something that can be awaited and is no coroutine."""

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return "awaited"


MAINS: dict[str, tuple[Callable[..., Any], str]] = {
    "async": (wants_nothing, "nothing"),
    "async, world": (wants_world, "World"),
    "plain": (lambda: "plain", "plain"),
    "plain, world": (lambda world: type(world).__name__, "World"),
    "any name": (lambda w, /: type(w).__name__, "World"),
    "keyword only": (lambda *, world: type(world).__name__, "World"),
    "returns a coroutine": (lambda: wants_nothing(), "nothing"),
    "returns an awaitable": (Awaitable, "awaited"),
    "partial": (functools.partial(wants_more, "a "), "a World"),
    "partial, keyword": (functools.partial(wants_more, prefix="a "), "a World"),
    "method": (Bound().method, "World"),
    "callable": (Bound(), "called"),
    "optional argument": (lambda other="given": other, "given"),
}


@pytest.mark.parametrize("kind", MAINS)
def test_kinds_of_main(kind: str) -> None:
    """A function with no argument or the world, async or plain, however it was made."""
    main, expected = MAINS[kind]
    assert foretold.run(main).value == expected


def test_asyncio_run_in_a_plain_main() -> None:
    """A synchronous program that starts loops of its own runs in the world, in virtual time."""

    def main() -> tuple[list[Any], float]:
        first = asyncio.run(three_tasks())
        with asyncio.Runner() as runner:
            second = runner.run(asyncio.sleep(3600, "slept"))
        return [*first, second], time.monotonic()

    value, now = foretold.run(main).value
    assert sorted(value[:5]) == [0, 1, 2, 3, 4]
    assert value[5] == "slept"
    assert now == pytest.approx(4600, abs=0.1)


async def yields() -> AsyncIterator[int]:
    """An async generator by mistake: calling it runs nothing."""
    yield 1


def yields_plainly() -> Iterator[int]:
    """The same, plainly."""
    yield 1


def refused(words: str, *args: Any, **names: Any) -> None:
    """`foretold.run` with these arguments is a usage error that says this."""
    with pytest.raises(foretold.UsageError, match=words):
        foretold.run(*args, **names)


def test_calls_that_cannot_work() -> None:
    """Each mistake has an error that guesses it and shows the line to write."""
    refused(r"right: foretold\.run\(main\)", wants_nothing())
    refused("needs a function", 5)
    refused(r"wants \(prefix, world\)", wants_more)
    refused("a seed is a whole number", three_tasks, seed="7")
    refused("a seed is a whole number", three_tasks, seed=1.5)
    refused("'asyncio' or 'any'", three_tasks, order="fifo")
    refused("'fifo', 'random'", three_tasks, strategy="fastest")
    refused("'fail' or 'ignore'", three_tasks, background_errors="log")
    refused("steps_max is a whole number, 1 or more", three_tasks, steps_max=0)
    refused("virtual_s_max must be above 0", three_tasks, virtual_s_max=-1)
    refused("there is no fault 'all'", three_tasks, faults="all")
    refused("it contains a `yield`", yields)
    refused("it contains a `yield`", yields_plainly)


def test_worlds_do_not_nest() -> None:
    """A run inside a run, async or plain, is an error, and the outer run goes on."""

    async def main() -> str:
        with pytest.raises(foretold.UsageError, match="worlds cannot be nested"):
            foretold.run(three_tasks)
        await asyncio.sleep(1)
        return "went on"

    assert foretold.run(main).value == "went on"

    def plain() -> None:
        with pytest.raises(foretold.UsageError, match="worlds cannot be nested"):
            foretold.explore(three_tasks, runs=1, confirm=False)

    assert run_of(plain).error is None


def test_a_run_inside_a_running_loop() -> None:
    """The test is async by mistake: the error shows the wrong and the right line."""

    async def by_mistake() -> None:
        foretold.run(three_tasks)

    with pytest.raises(foretold.UsageError, match=r"right: def test_x\(\)"):
        asyncio.run(by_mistake())


def test_the_world_is_at_hand() -> None:
    """`current_world()` inside is the one that main is given; outside it explains itself."""

    async def main(world: World) -> bool:
        return foretold.current_world() is world

    assert foretold.run(main).value
    with pytest.raises(foretold.UsageError, match="there is no world here"):
        foretold.current_world()


# --- how it ends -----------------------------------------------------------------------------


class Special(Exception):
    """An exception of the program's own."""


ENDINGS = (Special("own"), asyncio.CancelledError("away"), SystemExit(3), GeneratorExit())


@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
def test_what_main_raises_comes_out(error: BaseException) -> None:
    """The same object, not a wrapper; also what is no `Exception`."""

    def main() -> None:
        raise error

    async def async_main() -> None:
        raise error

    for function in (main, async_main):
        with pytest.raises(type(error)) as caught:
            foretold.run(function)
        assert caught.value is error
        assert run_of(function).error is error


def test_pytest_outcomes_are_errors_too() -> None:
    """`pytest.fail()` is no `Exception`; it fails the run all the same."""

    async def main() -> None:
        pytest.fail("by hand")

    assert isinstance(run_of(main).error, pytest.fail.Exception)


def test_what_is_left_is_cancelled() -> None:
    """As `asyncio.run` does at its end: tasks are cancelled and awaited, generators closed."""
    log: list[str] = []

    async def left_running() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            log.append(f"cancelled, {time.monotonic():.0f}")
            raise

    async def main() -> None:
        task = asyncio.create_task(left_running())
        await asyncio.sleep(1)
        assert not task.done()

    done = foretold.run(main, exact_time=True)
    assert log == ["cancelled, 1006"]
    assert done.virtual_s == 6


def test_recorded_failures_come_first() -> None:
    """A failed property is the cause, what main raised later is a consequence of it."""

    async def main() -> None:
        try:
            foretold.always(False, "the cause")
        except foretold.PropertyViolated:
            raise Special("a consequence") from None

    with pytest.raises(foretold.PropertyViolated, match="the cause") as caught:
        foretold.run(main)
    assert caught.value.__cause__ is None
    chain: list[BaseException] = [caught.value]
    while chain[-1].__context__ is not None:
        assert chain[-1].__context__ not in chain  # a cycle would hang whoever prints it
        chain.append(chain[-1].__context__)


# --- nothing is left behind ------------------------------------------------------------------


def footprint() -> dict[str, Any]:
    """What a run changes while it lasts, and must give back."""
    return {
        "policy": current_policy(),
        "swapped": [f for f in (time.time, os.urandom, time.sleep) if swap.is_swapped(f)],
        "computer": patches._computer,
        "gc": (gc.isenabled(), gc.get_freeze_count() > 0),
        "warn": warnings._warn_unawaited_coroutine,  # type: ignore[attr-defined]  # what CPython calls
        "random": random.getstate(),
        "hooks": sys.get_asyncgen_hooks(),
        "stdin": sys.stdin,
        "running": asyncio._get_running_loop(),
    }


async def fails() -> None:
    """A main that raises."""
    raise Special


async def interrupted() -> None:
    """Ctrl-C in the middle of a run, with a task still at work."""
    task = asyncio.create_task(asyncio.sleep(1000))
    await asyncio.sleep(1)
    raise KeyboardInterrupt(task)


def interrupted_plainly() -> None:
    """Ctrl-C in a plain main."""
    raise KeyboardInterrupt


ALL_ENDS = (three_tasks, fails, interrupted, interrupted_plainly, lambda: asyncio.Event().wait())


@pytest.mark.parametrize("main", ALL_ENDS, ids=["returns", "raises", "^C", "plain ^C", "deadlock"])
def test_everything_is_as_it_was(main: Callable[..., Any]) -> None:
    """However a run ends: clock, entropy, policy, collector and hooks are those of before, and
    the next run is not disturbed."""
    before, real = footprint(), time.time()
    for _ in range(2):
        with contextlib.suppress(Special, KeyboardInterrupt, foretold.Deadlock):
            foretold.run(main)
        assert footprint() == before
        assert foretold.run(wants_nothing).value == "nothing"
    assert 0 <= time.time() - real < 60


def test_runs_do_not_see_each_other() -> None:
    """What one run sets in its context, or draws from `random`, is not there in the next."""
    variable = contextvars.ContextVar("variable", default=0)

    def main() -> tuple[int, float]:
        variable.set(variable.get() + 1)
        random.seed(5)
        return variable.get(), random.random()

    assert foretold.run(main).value == foretold.run(main).value
    assert variable.get() == 0


def test_a_plain_result_is_part_of_the_trace() -> None:
    """Two processes that get different results must not have equal digests."""
    results = iter([1, 2, 2])
    digests = [run_of(lambda: next(results)).digest for _ in range(3)]
    assert digests[0] != digests[1] == digests[2]


# --- results in the trace --------------------------------------------------------------------


class Loud(str):
    """A string whose repr must not be asked for."""

    def __repr__(self) -> str:
        raise RuntimeError("never call me")


class Plain:
    """An object whose repr would show its address."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Loud("a"), "'a'"),
        (True, "True"),
        (10**5000, hex(10**5000)),
        ({"b", "a", "c"}, "{'a', 'b', 'c'}"),
        (Plain(), "<tests.world.test_run.Plain>"),
        ([1, (2.5, None)], "[2: 1, [2: 2.5, None]]"),
    ],
    ids=["str of its own", "bool", "large", "set", "object", "list"],
)
def test_any_result_can_be_traced(value: object, text: str) -> None:
    """Plain data is spelled out; nothing that a program returns can break the run."""

    async def main() -> object:
        return value

    entries: list[str] = []
    assert again(main, Tape.seeded(0), sink=entries.append).value is value
    [entry] = [entry for entry in entries if "main returned" in entry]
    assert entry.split("returned ")[1] == text
