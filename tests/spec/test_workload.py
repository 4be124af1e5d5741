"""What a workload chooses and starts: `choose`, `between`, `draw` and `together`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

import foretold
from foretold.tape import WORKLOAD, Choice, Tape
from foretold.trace.events import Chose
from tests.helpers import PLANS, again, run_of

# --- values from the tape --------------------------------------------------------------------


def some_values() -> list[Any]:
    """A plain main that draws one of each."""
    return [
        foretold.choose(["calm", "wild", "wilder"], "mood"),
        foretold.between(10, 20, "size"),
        foretold.draw(st.lists(st.integers(0, 5), max_size=4), "items"),
        foretold.choose("xyz"),
    ]


def test_zero_is_calm() -> None:
    """On the all-zero tape: the first option, the lower bound, the simplest value."""
    assert foretold.run(some_values, tape=Tape.calm()).value == ["calm", 10, [], "x"]


@pytest.mark.usefixtures("one_session")
def test_values_differ_by_seed_and_replay() -> None:
    """Another seed, other values; the recording gives the same ones again."""
    values = set()
    for seed in range(20):
        first = run_of(some_values, seed, recording=True)
        values.add(repr(first.value))
        assert again(some_values, first.tape.recorded()).value == first.value
    assert len(values) > 15


def test_values_are_choices_with_labels() -> None:
    """They lie in the workload stream one by one, so that each can be read and shrunk."""
    done = run_of(some_values, 3, recording=True)
    choices = done.tape.recorded().choices[WORKLOAD]
    assert [(choice.bound, choice.label) for choice in choices[:2]] == [(3, "mood"), (11, "size")]
    assert {choice.label for choice in choices[2:-1]} <= {"items"}
    assert choices[-1] == Choice("xyz".index(done.value[3]), 3, "")


def test_values_can_be_written_by_hand() -> None:
    """S2.5: a scenario is a tape whose workload is written by hand."""
    choices = {WORKLOAD: [Choice(2, 3, "mood"), Choice(7, 11, "size")]}
    assert foretold.run(some_values, tape=Tape("derived", choices=choices)).value[:2] == [
        "wilder",
        17,
    ]


def test_values_are_told_in_the_trace() -> None:
    """What was chosen is content: it is in the digest, and in the story with its label."""
    entries: list[str] = []
    done = again(some_values, Tape.calm(), sink=entries.append, detail=True)
    assert "choose mood = 'calm'" in entries
    assert "between size = 10" in entries
    texts = [str(event) for event in done.trace.events if isinstance(event, Chose)]
    assert texts == ["mood = 'calm'", "size = 10", "items = []", "choose = 'x'"]


WRONG_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "a number": (lambda: foretold.choose(3), r"foretold\.between\(low, high\)"),  # type: ignore[arg-type]  # the mistake
    "a set": (lambda: foretold.choose({"a", "b"}), "picks from a sequence"),  # type: ignore[arg-type]  # the mistake
    "nothing": (lambda: foretold.choose([]), "nothing to choose from"),
    "floats": (lambda: foretold.between(0.5, 1), r"foretold\.draw\(st\.floats"),  # type: ignore[arg-type]  # the mistake
    "a bool": (lambda: foretold.between(False, 9), "whole numbers"),
    "the wrong way round": (lambda: foretold.between(9, 1), r"between\(9, 1\) is empty"),
}


@pytest.mark.parametrize("mistake", WRONG_CALLS)
def test_wrong_calls_are_explained(mistake: str) -> None:
    """Each mistake has an error that shows what to write."""
    call, words = WRONG_CALLS[mistake]
    with pytest.raises(foretold.UsageError, match=words):
        foretold.run(call)


def test_there_is_no_tape_outside_a_run() -> None:
    """The error names the call and where it may stand."""
    for call in (
        lambda: foretold.choose("ab"),
        lambda: foretold.between(1, 2),
        lambda: foretold.draw(st.integers()),
    ):
        with pytest.raises(foretold.UsageError, match="there is no run here"):
            call()


# --- together --------------------------------------------------------------------------------


class Failed(Exception):
    """What one of several raises."""


async def after(seconds: float, result: Any = None, log: list[Any] | None = None) -> Any:
    """Sleep, then return or raise."""
    try:
        await asyncio.sleep(seconds)
    finally:
        if log is not None:
            log.append(time.monotonic() - 1_000)
    if isinstance(result, Exception):
        raise result
    return result


def test_results_come_in_the_order_of_the_arguments() -> None:
    """Not in the order in which they ended."""

    async def main() -> list[str]:
        return await foretold.together(after(3, "a"), after(1, "b"), after(2, "c"))

    for order, strategy in PLANS:
        for seed in range(5):
            done = foretold.run(main, seed=seed, order=order, strategy=strategy)
            assert done.value == ["a", "b", "c"]
            assert 3 <= done.virtual_s < 3.1


def test_nothing_together_is_nothing() -> None:
    """No arguments, no results, no waiting."""
    assert foretold.run(lambda: foretold.together()).value == []


def test_all_kinds_of_awaitables() -> None:
    """Coroutines, tasks, futures, and the same task twice."""

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_later(1, future.set_result, "future")
        task = asyncio.create_task(after(2, "task"))
        done = loop.create_future()
        done.set_result("done before")
        return await foretold.together(after(0, "coroutine"), future, task, done, task)

    expected = ["coroutine", "future", "task", "done before", "task"]
    assert foretold.run(main).value == expected


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_the_first_exception_in_time_after_all_have_ended(order: str, strategy: str) -> None:
    """As it is, not in a group; nobody is cancelled because somebody else has failed."""
    log: list[float] = []
    late, early = Failed("late"), Failed("early")

    async def main() -> float:
        with pytest.raises(Failed) as caught:
            await foretold.together(
                after(5, "ok", log), after(2, late, log), after(1, early, log), after(3, "ok", log)
            )
        assert caught.value is early
        return time.monotonic() - 1_000

    log.clear()
    done = run_of(main, order=order, strategy=strategy, exact_time=True)
    assert done.value == 5
    assert log == [1, 2, 3, 5]


def test_the_other_exceptions_are_not_reported() -> None:
    """Both failed, one is raised; the other was looked at and does not fail the run besides."""

    async def main() -> None:
        with pytest.raises(Failed, match="one"):
            await foretold.together(after(1, Failed("one")), after(2, Failed("two")))

    assert run_of(main).error is None


@pytest.mark.parametrize(("order", "strategy"), PLANS)
def test_a_cancelled_caller_cancels_all(order: str, strategy: str) -> None:
    """And waits until they have cleaned up, however long that takes."""
    log: list[str] = []

    async def tidy(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            log.append(name)
            raise

    async def main() -> float:
        task = asyncio.create_task(foretold.together(tidy("a"), tidy("b")))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - 1_000

    log.clear()
    done = run_of(main, order=order, strategy=strategy, exact_time=True)
    assert done.value == 6
    assert sorted(log) == ["a", "b"]


def test_a_time_limit_around_together() -> None:
    """The limit cancels all of them, and is a `TimeoutError` for the caller."""

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await foretold.together(after(10), after(20))

    assert foretold.run(main).virtual_s < 1.5


def test_a_cancelled_member_is_a_failure() -> None:
    """Somebody else cancelled one of them: the caller learns of it, after all have ended."""

    async def main() -> float:
        member = asyncio.create_task(after(100))
        asyncio.get_running_loop().call_later(1, member.cancel)
        with pytest.raises(asyncio.CancelledError):
            await foretold.together(member, after(3))
        return time.monotonic() - 1_000

    assert foretold.run(main, exact_time=True).value == 3


@pytest.mark.parametrize("mistake", ["a function", "a list"])
def test_what_cannot_be_awaited_is_refused(mistake: str) -> None:
    """Called without parentheses, or as one list: the error shows the line to write, the others
    are not started, and no further failure is reported for them."""

    async def main() -> int:
        wrong: Any = after if mistake == "a function" else []
        with pytest.raises(foretold.UsageError, match=r"right: together\(work\(\), work\(\)\)"):
            await foretold.together(after(1000), wrong)
        return len(asyncio.all_tasks())

    assert foretold.run(main).value == 1


@pytest.mark.usefixtures("one_session")
def test_they_really_run_at_once() -> None:
    """Their steps are interleaved, in different ways on different tapes."""

    async def main() -> str:
        log: list[str] = []

        async def steps(name: str) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
                log.append(name)

        await foretold.together(*map(steps, "abc"))
        return "".join(log)

    orders = {foretold.run(main, seed=seed).value for seed in range(30)}
    assert len(orders) > 15
    assert foretold.run(main, order="asyncio").value == "abcabcabc"
