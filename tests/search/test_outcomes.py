"""What a plain test does with an outcome: raise it, print it, or pass over it with a warning."""

from __future__ import annotations

import asyncio
import enum
import gc
import re
import subprocess
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.errors import UnseenFailure
from foretold.search.failures.failure import Failure, Outcome
from foretold.story.signature import signature_of
from foretold.tape import Tape


async def fails() -> None:
    """In one run of two."""
    await asyncio.sleep(0)
    assert foretold.between(0, 1, "coin") == 0, "tails"


async def holds() -> None:
    """In every run."""
    foretold.between(0, 1)


def searched(main: Any = fails, **settings: Any) -> Outcome:
    """A short search."""
    return foretold.explore(main, **{"runs": 50, "confirm": False, **settings})


def test_raise_failure() -> None:
    """The program's own exception, with the story as a note, our frames taken out, and a line that
    replays it. Once more gives the same; a search that held raises nothing."""
    outcome = searched()
    for _ in range(2):
        with pytest.raises(AssertionError, match="tails") as raised:
            outcome.raise_failure()
        [note] = raised.value.__notes__
        assert re.search(r"\nforetold found this in run \d of 50 \(seed \d+, ", note)
        assert "coin = 1" in note
        assert note.endswith("foretold.replay(main, outcome.failure.tape)  # in Python")
        names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert names[-1] == "fails"
        assert len(names) <= 4
    assert outcome.failure is not None
    with pytest.raises(AssertionError, match="tails"):
        foretold.replay(fails, outcome.failure.tape)
    searched(holds).raise_failure()


def test_raise_failure_names_the_saved_tape(tmp_path: Path) -> None:
    """By its path, in Python: a function without a name cannot be found by the command."""
    outcome = searched(save_to=tmp_path)
    [tape] = tmp_path.glob("*.tape")
    with pytest.raises(AssertionError) as raised:
        outcome.raise_failure()
    assert f"foretold.replay(main, {str(tape)!r})" in raised.value.__notes__[0]


def test_raise_failure_of_an_exhaustive_search() -> None:
    """It asked for no number of runs, so none is named."""

    async def main() -> None:
        order: list[str] = []

        async def act(name: str) -> None:
            order.append(name)

        await foretold.together(act("a"), act("b"))
        assert order == ["a", "b"]

    with pytest.raises(AssertionError) as raised:
        searched(main, runs=None, strategy="exhaustive").raise_failure()
    assert re.search(r"\nforetold found this in run (\d) of \1 ", raised.value.__notes__[0])


def test_an_outcome_on_one_line() -> None:
    """Each verdict in a few words."""
    assert re.fullmatch(r"AssertionError: tails, found in run \d+, seed \d+", str(searched()))
    assert str(searched(holds)) == "held in 50 runs, seed 0"
    assert str(searched(asyncio.sleep(1).close, runs=3)) == "nothing was explored in 3 runs, seed 0"

    async def two() -> None:
        assert foretold.between(0, 3) != 1, "one"
        assert foretold.between(0, 3) != 1, "another"

    said = str(searched(two, keep_going=True, shrink=False))
    assert said.endswith("; 1 other failure")


# --- nobody looks ----------------------------------------------------------------------------


def raises(outcome: Outcome) -> None:
    """As a plain test does."""
    with pytest.raises(AssertionError):
        outcome.raise_failure()


LOOKS: dict[str, Callable[[Outcome], object]] = {
    "failure": lambda outcome: outcome.failure,
    "failures": lambda outcome: outcome.failures,
    "str": str,
    "raise_failure": raises,
}


def collected() -> list[warnings.WarningMessage]:
    """What is warned about when everything is collected that nobody needs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    return [each for each in caught if issubclass(each.category, UnseenFailure)]


def test_a_failure_that_nobody_looks_at_is_warned_about() -> None:
    """Once, when the outcome is gone; the warning names the line of the call and what to write."""
    collected()

    def careless() -> None:
        searched()

    careless()
    [told] = collected()
    assert "AssertionError: tails" in str(told.message)
    assert "foretold.explore(…).raise_failure()" in str(told.message)
    assert told.filename == __file__
    assert issubclass(told.category, foretold.ForetoldWarning)
    assert not collected()


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_is_enough(look: str) -> None:
    """Whatever way it is looked at; and a search that held needs none."""
    collected()

    def careful() -> None:
        LOOKS[look](searched())
        searched(holds)

    careful()
    assert not collected()


PROGRAM = """
    import foretold

    def main():
        assert foretold.between(0, 1) == 0, "tails"

    kept = foretold.explore(main, runs=50, confirm=False)
"""


@pytest.mark.parametrize("how", ["default", "error"])
def test_at_the_exit_of_the_interpreter(how: str, tmp_path: Path) -> None:
    """An outcome that is kept to the end is warned about as well, and cleanly: the warning, or with
    warnings as errors the exception, on standard error."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", how, str(script)], capture_output=True, text=True, check=False
    )
    assert done.stderr.count("foretold.explore found a failure, and its outcome was ignored") == 1
    assert f"{script}:7: UnseenFailure" in done.stderr or how == "error"


def test_inside_of_a_run_nobody_is_warned() -> None:
    """A warning there would be a part of the run. It comes with the next search."""
    collected()
    error = AssertionError("tails")  # without a traceback, which would keep the outcome alive
    thrown = [Outcome(1, 0, [Failure(error, Tape.calm(), signature_of(error), 1, 0)])]
    thrown[0].expect_a_look(sys._getframe())

    def main() -> None:
        thrown.clear()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        foretold.run(main)
    held = [each for each in caught if issubclass(each.category, UnseenFailure)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert searched().failure is not None
    late = [each for each in caught if issubclass(each.category, UnseenFailure)]
    assert (len(held), len(late)) == (0, 1)


# --- all schedules ---------------------------------------------------------------------------


async def two_failures() -> None:
    """Which one depends on who is first."""
    order: list[str] = []

    async def act(name: str) -> None:
        await asyncio.sleep(0)
        order.append(name)

    await foretold.together(act("a"), act("b"), act("c"))
    if order[0] == "b":
        raise ValueError("b first")
    if order[1] == "c":
        raise KeyError("c before b")


def test_exhaustive_goes_on_after_a_failure(tmp_path: Path) -> None:
    """With `keep_going` to the end of the schedules: both failures, how often each was met, worked
    out and saved. Without it the first one ends the search."""
    whole = searched(
        two_failures, runs=None, strategy="exhaustive", delays=1, keep_going=True, save_to=tmp_path
    )
    assert {type(each.exception) for each in whole.failures} == {ValueError, KeyError}
    assert whole.covered == "all schedules with at most 1 delay"
    assert all(each.story and each.saved_as for each in whole.failures)
    assert sum(each.times for each in whole.failures) > 2
    assert len(list(tmp_path.glob("*.tape"))) == 2
    first = searched(two_failures, runs=None, strategy="exhaustive", delays=1)
    assert len(first.failures) == 1
    assert first.runs < whole.runs


def test_an_interrupted_exhaustive_search_knows_what_it_found() -> None:
    """Ctrl-C loses nothing there either."""

    def stop(progress: foretold.Progress) -> None:
        if progress.runs == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        searched(two_failures, runs=None, strategy="exhaustive", keep_going=True, on_progress=stop)
    assert raised.value.outcome.interrupted  # type: ignore[attr-defined]  # it is an Interrupted
    assert raised.value.outcome.failures  # type: ignore[attr-defined]  # as above


# --- whose mistake ---------------------------------------------------------------------------


HOWS: list[dict[str, Any]] = [{}, {"isolation": "fork"}, {"workers": 2}]


@pytest.mark.parametrize("how", HOWS, ids=["here", "fork", "workers"])
def test_a_wrong_call_is_no_failure_of_the_program(how: dict[str, Any]) -> None:
    """It is raised as what it is, with all that it says."""

    async def main() -> None:
        raise foretold.UsageError("two lines\n  right: this one")

    with pytest.raises(foretold.UsageError, match="two lines\n  right: this one\n  at "):
        searched(main, **how)


class Odd(Exception):
    """Cannot be read when it was pickled: it wants two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize("error", [TypeError("a mistake"), Odd(1, 2)], ids=["plain", "odd"])
@pytest.mark.parametrize("how", HOWS[1:], ids=["fork", "workers"])
def test_a_mistake_of_foretold_is_no_failure_of_the_program(
    how: dict[str, Any], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted in the code that makes runs: it is raised here, and its traceback is a note."""

    def broken(done: object) -> None:
        raise error

    monkeypatch.setattr("foretold.search.workers.isolation.brief_of", broken)
    with pytest.raises((TypeError, RuntimeError), match=f"{error}$") as raised:
        searched(holds, **how)
    [note] = raised.value.__notes__
    assert note.startswith("foretold: raised in another process:\nTraceback")
    assert ", in broken\n" in note


def test_a_run_that_ends_its_process_is_still_a_failure() -> None:
    """Nothing was raised: the process is gone."""

    def main() -> None:
        import ctypes

        ctypes.CDLL(None)._exit(3)

    outcome = searched(main, runs=2, isolation="fork")
    assert isinstance(outcome.failures[0].exception, foretold.WorkerDied)
    assert "exit code 3" in str(outcome)


@pytest.mark.parametrize("how", [{"isolation": "fork"}, {"workers": 2}])
def test_names_that_are_members_of_an_enumeration(how: dict[str, Any]) -> None:
    """A process that makes runs sends back the texts alone, not a class that only it may know."""

    class Name(enum.StrEnum):
        POINT = "somewhere"
        KNOB = "size"
        MUTANT = "no check"

    async def main() -> None:
        foretold.sometimes(True, Name.POINT)
        foretold.knob(Name.KNOB, [1, 2])
        foretold.mutant(Name.MUTANT)
        await asyncio.sleep(0)

    outcome = searched(main, runs=4, **how)
    assert outcome.failure is None
    assert [(type(name), name) for name in outcome.reached] == [(str, "somewhere")]
