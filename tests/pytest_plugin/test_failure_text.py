"""What a user reads when a simulated test fails: their assertion, the story, one command.

The whole output of pytest is compared with stored text (`failure.txt`), with what differs between
machines made equal. To renew it after a change that was meant, delete the file and run the test: it
fails once, having written what it saw.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pytest_plugin.programs import holds, lost_update

pytest_plugins = ["pytester"]

STORED = Path(__file__).parent


def normalised(result: pytest.RunResult) -> str:
    """The output from the first failure on, without what differs from one machine to the next."""
    text = "\n".join(line.rstrip() for line in result.outlines)
    _, _, text = text.partition("= FAILURES =")
    text = re.sub(r"\d[\d,]* runs/s", "N runs/s", text)
    text = re.sub(r"in \d+\.\d+s", "in N s", text)
    text = re.sub(r"^=+ ?|(?<= )=+$", "===", text, flags=re.MULTILINE)
    return text.lstrip("=\n") + "\n"


def assert_as_stored(text: str, name: str) -> None:
    """Compare with the stored text; where there is none, store it and fail."""
    path = STORED / name
    if not path.exists():
        path.write_text(text, "utf-8")
        pytest.fail(f"{path.name} was missing and is written anew: read it, then commit it")
    assert text == path.read_text("utf-8")


def test_the_whole_text(pytester: pytest.Pytester):
    """Found, shrunk, replayed in a fresh process, told; the last line of the note replays it."""
    pytester.makepyfile(test_bank=lost_update(settings=""))
    result = pytester.runpytest("--foretold-seed=1")
    assert_as_stored(normalised(result), "failure.txt")


def test_a_deadlock_is_shown_at_its_test(pytester: pytest.Pytester):
    """No line of the user's raised it, so the test's own definition stands in; never our code."""
    pytester.makepyfile(
        test_stuck="""
        import asyncio
        import foretold

        @foretold.simulate(confirm=False)
        async def test_waits_for_nobody():
            await asyncio.Event().wait()
        """
    )
    result = pytester.runpytest("--foretold-seed=1")
    result.stdout.fnmatch_lines(
        [
            "    @foretold.simulate(confirm=False)",
            ">   async def test_waits_for_nobody():",
            "E   foretold.errors.Deadlock: nothing can run *",
            "E     test_waits_for_nobody waits at *test_stuck.py:6 for *",
            "E   Replay it: foretold replay .foretold/failures/*.tape",
            "test_stuck.py:5: Deadlock",
            "FAILED test_stuck.py::test_waits_for_nobody - foretold.errors.Deadlock: *",
        ]
    )


@pytest.mark.parametrize("style", ["long", "short", "line"])
def test_no_frame_of_ours_is_shown(pytester: pytest.Pytester, style: str):
    """In every style but native, where pytest hides nothing."""
    pytester.makepyfile("""
        import asyncio
        import foretold

        async def fails():
            await asyncio.sleep(0)
            raise LookupError("mine") from ValueError("its cause")

        @foretold.simulate(confirm=False)
        async def test_in_a_task():
            await foretold.together(fails(), fails())

        @foretold.simulate(confirm=False)
        async def test_property():
            foretold.always(False, "a property")
    """)
    result = pytester.runpytest(f"--tb={style}")
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    for inner in (
        "simulate.py",
        "trial.py",
        "run.py",
        "workload.py",
        "properties.py",
        "base_events",
    ):
        assert inner not in text.replace("in test_", "")
    result.stdout.fnmatch_lines(["FAILED *test_in_a_task - LookupError: mine"])


def test_the_summary_shows_the_assertion_in_continuous_integration(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """There pytest does not cut the line, and would show the story a second time."""
    monkeypatch.setenv("CI", "1")
    pytester.makepyfile(lost_update())
    result = pytester.runpytest()
    _, _, summary = result.stdout.str().partition("short test summary info")
    assert "assert 93 == 88" in summary
    assert "Replay it" not in summary


def test_values_of_the_assertion_are_shown(pytester: pytest.Pytester):
    """pytest's rewriting of assertions works in a run, and the exception is the user's own."""
    pytester.makepyfile("""
        import foretold

        @foretold.simulate(confirm=False)
        async def test_lists():
            left, right = [1, 2, 3], [1, 2, 4]
            assert left == right, "not the same"
    """)
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        ["E*AssertionError: not the same", "E*assert [[]1, 2, 3] == [[]1, 2, 4]*", "E*At index 2 *"]
    )


def test_only_the_failing_run_is_heard(pytester: pytest.Pytester):
    """Output and log of one run are shown, not those of all runs of search and shrinking."""
    pytester.makepyfile("""
        import asyncio, logging, sys
        import foretold

        @foretold.simulate(confirm=False)
        async def test_talks():
            print("said once")
            print("to stderr", file=sys.stderr)
            logging.getLogger("app").warning("logged once")
            assert foretold.between(0, 3) < 2
    """)
    result = pytester.runpytest("--foretold-seed=3")
    result.assert_outcomes(failed=1)
    _, _, captured = result.stdout.str().partition("Captured stdout call")
    for text in ("said once", "to stderr", "logged once"):
        assert captured.count(text) == 1 + captured.count(f"stderr call -*\n{text}"), text


def test_what_the_summary_says(pytester: pytest.Pytester):
    """Figures in one line; per test with -v; nothing with -q but what deserves a second look."""
    pytester.makepyfile(
        test_a=holds("(runs=10)"),
        test_b="""
        import asyncio, foretold

        @foretold.simulate
        async def test_no_choice():
            await asyncio.sleep(1)

        @foretold.simulate(runs=5)
        async def test_points():
            number = foretold.between(0, 1)
            foretold.sometimes(number > 1, "more than one")
            foretold.sometimes(number >= 0, "a number")
            foretold.reachable("here")
        """,
    )
    usual, verbose, quiet = (pytester.runpytest(*args) for args in ([], ["-v"], ["-q"]))
    for result in (usual, verbose, quiet):
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(
            [
                "foretold: nothing to explore in test_b.py::test_no_choice: no choice was *",
                "foretold: never true in any run: more than one (test_b.py::test_points)",
            ]
        )
        result.stdout.no_fnmatch_line("*never true*a number*")
    for result in (usual, verbose):
        result.stdout.fnmatch_lines(["foretold: 3 tests simulated, 23 runs, * runs/s"])
    quiet.stdout.no_fnmatch_line("*simulated*")
    usual.stdout.no_fnmatch_line("*test_holds: *")
    verbose.stdout.fnmatch_lines(["  test_a.py::test_holds: 10 runs, seed *, * runs/s, held"])


def test_a_point_that_another_test_reaches_is_reached(pytester: pytest.Pytester):
    """`sometimes` is about the campaign, and a pytest run is one; a failed search says nothing."""
    pytester.makepyfile("""
        import foretold

        def point(value):
            foretold.sometimes(value, "shared")

        @foretold.simulate(runs=2)
        def test_passes_by():
            foretold.between(0, 9)
            point(False)

        @foretold.simulate(runs=2)
        def test_reaches():
            foretold.between(0, 9)
            point(True)

        @foretold.simulate(runs=2, confirm=False)
        def test_fails_too_early():
            foretold.sometimes(False, "too early to say")
            assert foretold.between(0, 9) > 9
    """)
    pytester.runpytest().stdout.no_fnmatch_line("*never true*")


def test_nothing_to_explore_is_no_warning(pytester: pytest.Pytester):
    """One run, passed, told in a line; even where warnings are errors."""
    pytester.makepyfile("""
        import foretold

        @foretold.simulate
        def test_no_choice():
            pass
    """)
    result = pytester.runpytest("-v", "-W", "error")
    result.assert_outcomes(passed=1, warnings=0)
    result.stdout.fnmatch_lines(["*test_no_choice: ? run*", "foretold: nothing to explore in *"])


def test_threads_that_are_left_are_told(pytester: pytest.Pytester):
    """Once for each test, by name and line, even with -q; it is no failure."""
    pytester.makepyfile("""
        import threading, foretold

        @foretold.simulate(runs=5)
        def test_daemon():
            foretold.between(0, 9)
            threading.Thread(target=threading.Event().wait, daemon=True, name="idler").start()
    """)
    result = pytester.runpytest("-q")
    result.assert_outcomes(passed=1)
    told = "foretold: *::test_daemon: a thread was left running at the end: idler at *:*"
    result.stdout.fnmatch_lines([told])
    assert result.stdout.str().count("left running") == 1
