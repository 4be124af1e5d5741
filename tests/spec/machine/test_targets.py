"""A machine is a target wherever a function is: run, explore, replay, the command, pytest."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import foretold
from tests.cli.command import foretold as command
from tests.spec.machine.programs import Till

pytest_plugins = ["pytester"]
QUIET = ("-p", "no:cacheprovider", "-p", "no:asyncio")
"""Nothing is left behind, and pytest-asyncio does not warn of its settings."""

SHOP = '''
import asyncio
import foretold
from hypothesis import strategies as st

class Shop(foretold.Machine):
    """A shop that sells too much."""
    actors = 3

    def __init__(self):
        self.stock = 2

    @foretold.rule(n=st.integers(1, 3))
    async def buy(self, n):
        if self.stock < n:
            raise foretold.Refused("sold out")
        await asyncio.sleep(0.01)
        self.stock -= n

    @foretold.rule()
    async def look(self):
        await asyncio.sleep(0.001)

    @foretold.invariant()
    def never_below_zero(self):
        assert self.stock >= 0, "oversold"
'''
TESTS = """
from shop import Shop

TestShop = Shop.TestCase
"""


def test_run_explore_and_replay() -> None:
    """What explore finds, replay fails with; and the tape alone says how the machine was set."""
    outcome = foretold.explore(Till, runs=100, actors=2, steps=9, weights={"count": 0.5})
    failure = outcome.failure
    assert failure is not None
    assert failure.reproduced
    machine = json.loads(str(failure.tape.settings["machine"]))
    assert machine == {"actors": 2, "steps": 9, "weights": {"count": 0.5}}
    with pytest.raises(AssertionError):
        foretold.replay(Till, failure.tape)
    with pytest.raises(AssertionError):
        foretold.run(Till, tape=failure.tape)


def test_workers_make_the_same_runs() -> None:
    """Two workers find what one finds, and counts add up the same."""
    one = foretold.explore(Till, runs=40, shrink=False, confirm=False, keep_going=True)
    two = foretold.explore(Till, runs=40, workers=2, shrink=False, confirm=False, keep_going=True)
    assert one.tally.rules["take"] == two.tally.rules["take"]
    assert [f.times for f in one.failures] == [f.times for f in two.failures]


def test_the_command(tmp_path: Path) -> None:
    """`foretold explore shop.py:Shop` with options of the machine; replay by tape and by seed."""
    (tmp_path / "shop.py").write_text(SHOP)
    options = ["--seed", "6", "--steps", "12", "--actors", "2", "--weight", "look=0"]
    done = command(tmp_path, "explore", "shop.py:Shop", *options)
    assert done.code == 1, done
    assert "shrunk to 2 rule calls" in done.out
    assert "Replayed in a fresh process: yes." in done.out
    assert "\nThe program, 2 calls of Shop's rules:\n  together:\n" in done.out
    (tape,) = (tmp_path / ".foretold").rglob("*.tape")
    again = command(tmp_path, "replay", str(tape))
    assert again.code == 1, again
    assert "It fails again, as recorded." in again.out
    by_seed = command(tmp_path, "replay", "shop.py:Shop", *options)
    assert by_seed.code in (0, 1), by_seed
    sequential = command(tmp_path, "explore", "shop.py:Shop", "--actors", "1", "--runs", "20",
                         "--no-saved")  # fmt: skip
    assert "AssertionError" not in sequential.out, sequential
    wrong = command(tmp_path, "explore", "shop.py:Shop", "--weight", "bye=3", "--no-saved")
    assert wrong.code == 2
    assert "Did you mean 'buy'?" in wrong.err


def test_pytest_collects_it_as_hypothesis_users_write_it(pytester: pytest.Pytester) -> None:
    """`TestShop = Shop.TestCase`: found, failed with the program in its note, and one tape file
    replays it, by pytest and by hand."""
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    result = pytester.runpytest("--foretold-seed=1", *QUIET)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*def never_below_zero(self):*",
            "E *AssertionError: oversold",
            "E *What broke: AssertionError: oversold (*",
            "E *The program, 2 calls of Shop's rules:",
            "E *together:",
            "E *foretold found this in run *; shrunk to 2 rule calls in * runs",
            "E *Replayed in a fresh process: yes.",
            "FAILED test_shop.py::TestShop::runTest - AssertionError: oversold",
        ]
    )
    (tape,) = (pytester.path / ".foretold").rglob("*.tape")
    again = pytester.runpytest(f"--foretold-replay={tape}", *QUIET)
    again.assert_outcomes(failed=1)
    pytester.syspathinsert()
    import shop  # type: ignore[import-not-found]  # made by this test

    with pytest.raises(AssertionError, match="oversold"):
        foretold.replay(shop.Shop, tape)


def test_simulate_makes_tests_of_machines(pytester: pytest.Pytester) -> None:
    """As a decorator and as a function, with settings; `settings` of the case can be set later."""
    pytester.makepyfile(shop=SHOP)
    pytester.makepyfile(
        """
        import foretold
        from shop import Shop

        TestAlone = foretold.simulate(Shop, runs=7, actors=1)

        @foretold.simulate(runs=5)
        class TestQuick(Shop):
            steps = 1

        TestFewer = Shop.TestCase
        TestFewer.settings = dict(runs=3, steps=1)
        """
    )
    result = pytester.runpytest("-v", "--foretold-seed=1", *QUIET)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*TestAlone::runTest PASSED*", "*TestQuick::runTest PASSED*"])


def test_unittest_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `unittest.TestCase` it is: without pytest as well."""
    monkeypatch.chdir(tmp_path)
    case = foretold.simulate(Till, runs=3, steps=1, actors=1)
    assert issubclass(case, unittest.TestCase)
    result = unittest.TestResult()
    case("runTest").run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])


def test_settings_of_hypothesis_are_understood() -> None:
    """`max_examples` and `stateful_step_count` mean runs and steps."""

    class Own(Till):
        """A case of its own."""

    case: Any = Own.TestCase
    case.settings = hypothesis.settings(max_examples=17, stateful_step_count=9)
    simulation = case.runTest.foretold_simulation
    assert simulation.runs == 17
    assert json.loads(simulation.settings["machine"]) == {"steps": 9}
    assert Own.TestCase is case
    assert Till.TestCase is not case


def test_a_test_case_is_a_target_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`foretold.explore(TestShop)` explores the machine."""
    case: Any = foretold.simulate(Till, runs=5)
    assert foretold.explore(case, runs=60, shrink=False, confirm=False).failure is not None
