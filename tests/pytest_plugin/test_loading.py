"""The plugin costs nothing where it is not used, and gives programs what they need where it is."""

from __future__ import annotations

import json

import pytest

from tests.pytest_plugin.programs import holds, lost_update

pytest_plugins = ["pytester"]

WATCH = """
import sys

def pytest_sessionfinish():
    loaded = [name for name in sys.modules if name.partition(".")[0] == "foretold"]
    assert "_foretold_pytest" in sys.modules
    print("LOADED", len(loaded))
"""


def test_unused_it_imports_nothing(pytester: pytest.Pytester):
    """Neither when pytest starts nor while it runs tests that are not simulated."""
    pytester.makeconftest(WATCH)
    pytester.makeini("[pytest]\nforetold_seed = 1\n")
    pytester.makepyfile("def test_plain():\n    pass\n")
    result = pytester.runpytest_subprocess("-s", "--foretold-runs=5")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*LOADED 0"])


def test_the_watch_sees_something(pytester: pytest.Pytester):
    """Planted: with a simulated test the count above is not zero."""
    pytester.makeconftest(WATCH)
    pytester.makepyfile(holds())
    result = pytester.runpytest_subprocess("-s")
    result.stdout.no_fnmatch_line("*LOADED 0")
    result.stdout.fnmatch_lines(["*LOADED *"])


def test_a_record_for_programs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """With FORETOLD_RECORD set, one JSON object says what came of each simulated test."""
    record = pytester.path / "record.json"
    monkeypatch.setenv("FORETOLD_RECORD", str(record))
    pytester.makepyfile(
        test_a=holds("(runs=4)"),
        test_b=lost_update(),
        test_c="import foretold\n@foretold.simulate\ndef test_idle(): pass\n",
        test_d="def test_plain(): pass\n",
    )
    pytester.runpytest("--foretold-seed=5").assert_outcomes(passed=3, failed=1)
    data = json.loads(record.read_text("utf-8"))
    assert data["seed"] == 5
    by_test = {each["test"]: each for each in data["tests"]}
    assert {test: (each["failed"], each["vacuous"]) for test, each in by_test.items()} == {
        "test_a.py::test_holds": (False, False),
        "test_b.py::test_no_money_is_lost": (True, False),
        "test_c.py::test_idle": (False, True),
    }
    assert by_test["test_a.py::test_holds"]["runs"] == 4
    assert by_test["test_b.py::test_no_money_is_lost"]["saved_as"].endswith(".tape")


def test_help_lists_the_options(pytester: pytest.Pytester):
    """They are found where people look for them."""
    result = pytester.runpytest("--help")
    result.stdout.fnmatch_lines(["*--foretold-runs=N*", "*--foretold-seed=N*", "*foretold_seed*"])
