"""Ctrl-C in a run says where the program was: the user's lines of every thread and task.

The programs press Ctrl-C themselves, by C: the simulated `signal` would stay in the world.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.search.explore import Interrupted
from foretold.story.words import short_path

libc = ctypes.CDLL(None)


def line_with(text: str) -> str:
    """The line of this file that ends with a text, as reports name it."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if line.endswith(text))}"


def press_ctrl_c() -> None:
    """Python handles signals after each call, in its main thread."""
    libc["raise"](2)  # pressed


async def with_a_sleeper() -> None:
    """One task presses; another one waits."""
    task = asyncio.create_task(asyncio.sleep(5), name="sleeper")
    await asyncio.sleep(0.1)
    press_ctrl_c()  # calls
    await task


def notes_of(error: BaseException) -> str:
    """What Python shows below the exception."""
    return "\n".join(getattr(error, "__notes__", ()))


def test_a_run_says_where_its_tasks_are() -> None:
    """The one that runs with its callers, and the others with what they wait for."""
    with pytest.raises(KeyboardInterrupt) as caught:
        foretold.run(with_a_sleeper)
    said = notes_of(caught.value)
    assert "with_a_sleeper runs at " in said
    assert line_with("press_ctrl_c()  # calls") in said
    assert "sleeper waits at " in said


def test_a_run_says_where_its_threads_are() -> None:
    """Ctrl-C reaches the main thread, which waits for the others; those are told of before they are
    ended."""

    async def main() -> None:
        def work() -> None:
            libc["raise"](2)
            while True:
                threading.get_ident()  # works

        await asyncio.to_thread(work)  # waits for it

    with pytest.raises(KeyboardInterrupt) as caught:
        foretold.run(main)
    said = notes_of(caught.value)
    place = line_with("# works").rpartition(":")
    around = [f"{place[0]}:{int(place[2]) + offset}" for offset in (-2, -1, 0)]
    assert any(f"runs at {each}" in said for each in around)
    assert f"main waits at {line_with('# waits for it')}" in said


@pytest.mark.parametrize("strategy", ["portfolio", "exhaustive"])
def test_a_search_says_where_and_what_it_found(strategy: str, tmp_path: Path) -> None:
    """Both are in what Python prints, if nobody catches it."""
    runs = 0

    async def main() -> None:
        nonlocal runs
        runs += 1
        await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
        if runs == 8:
            press_ctrl_c()
        assert runs < 4, "found before"

    with pytest.raises(Interrupted) as caught:
        foretold.explore(main, keep_going=True, strategy=strategy, save_to=tmp_path)
    [found] = caught.value.outcome.failures
    assert f"AssertionError at {short_path(__file__)}" in str(caught.value)
    assert str(found.saved_as) in str(caught.value)
    assert f"main runs at {line_with('(2)  # pressed')}" in notes_of(caught.value)
    assert caught.value.where in notes_of(caught.value)


def test_between_runs_there_is_no_place() -> None:
    """Nothing is said of a run that is over."""

    def stop(progress: foretold.Progress) -> None:
        press_ctrl_c()

    with pytest.raises(Interrupted) as caught:
        foretold.explore(with_nothing, on_progress=stop)
    assert caught.value.where == ""


async def with_nothing() -> None:
    """A program that ends."""
    await asyncio.sleep(1)


def test_the_handler_is_put_back() -> None:
    """And one that nobody hears stays so: a background process ignores Ctrl-C."""
    former = signal.getsignal(signal.SIGINT)
    foretold.run(with_nothing)
    assert signal.getsignal(signal.SIGINT) is former
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:

        async def main() -> int:
            press_ctrl_c()
            return 3

        assert foretold.run(main).value == 3
    finally:
        signal.signal(signal.SIGINT, former)


class TimeIsUpError(Exception):
    """What the runner's alarm raises."""


@pytest.mark.parametrize("how", ["run", "explore"])
def test_an_alarm_of_the_runner_is_no_failure_of_the_program(how: str) -> None:
    """pytest-timeout raises an exception wherever the test is. It ends run and search, as Ctrl-C
    does, with what is known by then; nobody shrinks it, or replays it in a fresh process."""

    def ring(number: int, frame: Any) -> None:
        raise TimeIsUpError("after 3 s")

    async def main() -> None:
        try:
            await foretold.together(asyncio.sleep(1), asyncio.sleep(1))
            libc["raise"](signal.SIGALRM)
            await asyncio.sleep(1)
        except Exception:  # a program that swallows everything
            await asyncio.sleep(100)

    former = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(TimeIsUpError, match="after 3 s") as caught:
            foretold.run(main) if how == "run" else foretold.explore(main, runs=50)
        assert signal.getsignal(signal.SIGALRM) is ring
    finally:
        signal.signal(signal.SIGALRM, former)
    said = "\n".join(caught.value.__notes__)
    assert "Where it stands:" in said
    assert (how == "explore") == ("had made 0 runs" in said)
