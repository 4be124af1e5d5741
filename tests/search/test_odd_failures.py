"""Failures that are hard to speak about: exceptions that cannot say what they are, runs that end
their process, programs that are not the same twice, threads in an exhaustive search."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import foretold
from foretold.report.campaign import campaign_text, group_lines
from foretold.report.data import outcome_json
from foretold.report.exports import github_annotations
from foretold.report.junit import junit_xml
from foretold.search.explore import Interrupted
from foretold.search.failures.failure import Outcome
from foretold.search.failures.retry import failure_of
from foretold.search.workers.warming import run_warm
from foretold.story.signature import TEXT_MAX, place_of
from foretold.tape.file import load
from foretold.world.run import bind_main
from foretold.world.settings import Settings
from tests.report import programs


class Mute(Exception):
    """Its `__str__` raises."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Endless(Exception):
    """Says five megabytes, with what no terminal should get."""

    def __str__(self) -> str:
        return "\x1b[31m\0" + "x" * 5_000_000


async def raced(error: BaseException) -> None:
    """Raises it if the two tasks do not take turns."""
    order: list[str] = []

    async def one(name: str) -> None:
        await asyncio.sleep(0)
        order.append(name)

    await foretold.together(one("a"), one("b"))
    if order == ["b", "a"]:
        raise error


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_that_cannot_say_what_it_is(workers: int) -> None:
    """Found, shrunk, told, and in every format."""

    async def main() -> None:
        await raced(Mute())

    outcome = foretold.explore(main, runs=200, workers=workers, confirm=False)
    assert outcome.failure is not None
    for text in (
        campaign_text(outcome, runs=200, target="x:main"),
        outcome_json(outcome, target="x:main", exit_code=1),
        junit_xml(outcome, runs=200, target="x:main"),
        "\n".join(github_annotations(outcome, "x:main")),
    ):
        assert "Mute" in text


def test_machines_get_no_endless_message() -> None:
    """Nor control characters where GitHub would show them."""

    async def main() -> None:
        await raced(Endless())

    outcome = foretold.explore(main, runs=200, shrink=False, confirm=False)
    assert len(outcome_json(outcome, target="x:main", exit_code=1)) < 10 * TEXT_MAX
    [annotation] = github_annotations(outcome, "x:main")
    assert len(annotation) < 10 * TEXT_MAX
    assert "\x1b" not in annotation
    assert "\0" not in annotation


def test_a_saved_failure_was_found_in_no_run(tmp_path: Path) -> None:
    """One that fails again before anything is searched is told so, in annotations and lists."""

    async def main() -> None:
        raise RuntimeError("always")

    outcome = foretold.explore(main, runs=1, save_to=tmp_path, target="x:main", confirm=False)
    assert outcome.failure is not None
    path = outcome.failure.saved_as
    assert path is not None
    file = load(path)
    done = run_warm(bind_main(main), file.tape, Settings(), detail=True)
    again = failure_of(done, file, path)
    assert again is not None
    both = Outcome(0, 7)
    both.failures = [again, again]
    [annotation, _] = github_annotations(both, "x:main")
    assert "(a saved failure, which fails again)" in annotation
    assert "run 0" not in annotation
    assert group_lines(both, "x:main")[0] == "2 kinds of failure of x:main:"


def test_a_fork_that_dies_is_a_failure() -> None:
    """With `isolation="fork"` a crash is found as any other failure; nothing is claimed of stock
    asyncio, which nobody has tried."""

    async def main() -> None:
        try:
            await raced(RuntimeError())
        except RuntimeError:
            ctypes.CDLL(None)._exit(7)

    outcome = foretold.explore(main, runs=200, isolation="fork")
    assert outcome.failure is not None
    assert isinstance(outcome.failure.exception, foretold.WorkerDied)
    assert "exit code 7" in str(outcome.failure.exception)
    assert "tock asyncio" not in campaign_text(outcome, runs=200, target="x:main")
    assert '"stock_asyncio": null' in outcome_json(outcome, target="x:main", exit_code=1)


DIES = """
import asyncio, ctypes
import foretold

async def main():
    order = []
    async def one(name):
        await asyncio.sleep(0)
        order.append(name)
    await foretold.together(one("a"), one("b"))
    if order == ["b", "a"]:
        ctypes.string_at(0)
"""


def test_a_saved_crash_still_fails(tmp_path: Path) -> None:
    """`replay` and `explore` say that the run ends its process, and do not end with it."""
    programs.write(tmp_path, DIES, "dies.py")
    how: dict[str, Any] = {
        "cwd": tmp_path, "env": programs.environment(), "capture_output": True, "text": True
    }  # fmt: skip

    def foretold_says(*words: str) -> tuple[int, str]:
        command = [programs.PYTHON, "-m", "foretold", *words]
        done = subprocess.run(command, check=False, **how)
        return done.returncode, done.stdout + done.stderr

    code, said = foretold_says("explore", "dies:main", "--seed", "1", "--workers", "2")
    assert (code, "WorkerDied" in said) == (1, True)
    [tape] = tmp_path.glob(".foretold/failures/*/*.tape")
    code, said = foretold_says("replay", "--all")
    assert (code, "STILL FAILS" in said, "SIGSEGV" in said) == (1, True, True)
    code, said = foretold_says("replay", os.fspath(tape))
    assert (code, "SIGSEGV" in said) == (1, True)
    code, said = foretold_says("explore", "dies:main", "--seed", "1")
    assert (code, "SIGSEGV" in said) == (1, True)


def test_a_run_that_is_not_the_same_twice() -> None:
    """Module state decides along with the tape: the report says so, and claims nothing of stock
    asyncio or of who took turns."""
    runs = -1  # the first one does not count

    async def main() -> None:
        nonlocal runs
        runs += 1
        if runs % 3:
            await raced(AssertionError("sometimes"))

    outcome = foretold.explore(main, runs=300, seed=5, confirm=False)
    assert outcome.failure is not None
    text = campaign_text(outcome, runs=300, target="x:main")
    assert "did not fail like this" in text
    assert "tock asyncio" not in text
    assert "all take turns" not in text


def two_threads() -> None:
    """A lost update, if both read before either writes."""
    lock, account = threading.Lock(), {"n": 0}

    def add() -> None:
        with lock:
            seen = account["n"]
        with lock:
            account["n"] = seen + 1

    threads = [threading.Thread(target=add) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account["n"] == 2


def test_exhaustive_does_not_claim_the_order_of_threads() -> None:
    """It varies the order of tasks alone, and says so; it does not call the program one without
    choices. The portfolio finds the bug."""
    outcome = foretold.explore(two_threads, strategy="exhaustive")
    assert outcome.failure is None
    assert not outcome.vacuous
    assert "the order of threads was not varied" in outcome.covered
    assert foretold.explore(two_threads, runs=200, confirm=False).failure is not None


def test_an_interrupted_search_has_not_passed() -> None:
    """In JUnit's words it is an error, unless something had failed before."""

    async def main() -> None:
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))

    def stop(progress: foretold.Progress) -> None:
        if progress.runs == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as raised:
        foretold.explore(main, runs=50, on_progress=stop)
    suite = ElementTree.fromstring(junit_xml(raised.value.outcome, runs=50, target="x:main"))
    assert suite.get("errors") == "1"
    assert suite.find("testcase/error") is not None


def hangs() -> None:
    """In C, where nothing can interrupt it."""
    ctypes.CDLL(None).pause()


def test_time_is_up_for_a_worker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search ends, kills it, and does not say that the program held."""
    monkeypatch.setattr("foretold.search.explore.RUNS_S", 0.0)
    outcome = foretold.explore(hangs, runs=10, workers=2, time_s=0.1, confirm=False)
    assert outcome.runs == 0
    assert outcome.vacuous
    text = campaign_text(outcome, runs=10, target="x:main")
    assert "no run of x:main was over when the time was up" in " ".join(text.split())


def test_a_line_of_compiled_code_is_not_the_users() -> None:
    """Cython names a file that was there when the package was built: who called it is meant."""
    compiled: dict[str, Any] = {}
    exec(compile("def one_row(): raise LookupError", "lib/rows/_cy.py", "exec"), compiled)
    with pytest.raises(LookupError) as caught:
        compiled["one_row"]()
    place = place_of(caught.value)
    assert place is not None
    assert place.file == __file__


async def first_of(numbers: list[int]) -> int:
    """The mistake is here: `next` without a default."""
    await asyncio.sleep(0)
    return next(number for number in numbers if number > 5)


async def some_of(numbers: list[int]) -> AsyncIterator[int]:
    """The same, of a generator."""
    yield await asyncio.sleep(0, 1)
    yield next(number for number in numbers if number > 5)


@pytest.mark.parametrize("of", [first_of, some_of])
def test_a_stop_that_leaves_a_coroutine_is_told_where_it_was_raised(of: Any) -> None:
    """Python makes another error of it, whose own lines are only those that await."""

    async def main() -> None:
        if of is first_of:
            await first_of([1])
        else:
            async for _ in some_of([1]):
                pass

    outcome = foretold.explore(main, runs=1, confirm=False)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.exception, RuntimeError)
    line = of.__code__.co_firstlineno + 3
    assert outcome.failure.signature.place == f"{__file__}:{line}"
