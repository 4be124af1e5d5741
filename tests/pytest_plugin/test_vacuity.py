"""A simulated test that tests nothing fails, unless the project or the test says otherwise."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SHOP = """
import foretold

class Shop(foretold.Machine):
    steps = 5

    @foretold.rule()
    def look(self): ...

    @foretold.rule()
    def buy(self):
        raise foretold.Refused("sold out")

TestShop = Shop.TestCase
TestShop.settings = dict({settings})
"""

POINT = """
import foretold

@foretold.simulate(runs={runs})
def test_points():
    foretold.sometimes(foretold.between(0, 9) > 9, "ten")
"""


def test_a_rule_that_never_succeeds_fails_the_test(pytester: pytest.Pytester):
    """The failure has the table and the remedy."""
    pytester.makepyfile(SHOP.format(settings=""))
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Vacuous: It held, and says less than it seems to:", "*rule buy never succeeded*"]
    )


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ("vacuity='warn'", []),
        ("", ["--foretold-vacuity=warn"]),
        ("", ["-o", "foretold_vacuity=warn"]),
        ("runs=99", []),
    ],
)
def test_it_can_be_a_warning(pytester: pytest.Pytester, settings: str, arguments: list[str]):
    """Set for a test, on the command line or in the ini-file; with few runs it is always one."""
    pytester.makepyfile(SHOP.format(settings=settings))
    result = pytester.runpytest(*arguments)
    result.assert_outcomes(passed=1)
    warned = result.stdout.str().count("rule buy never succeeded")
    assert warned == 1


def test_a_point_that_no_test_reaches_fails_the_whole(pytester: pytest.Pytester):
    """No single test is to blame: all pass, and pytest ends as if one had failed. With few runs it
    is a warning, and so it is if the project says so."""
    pytester.makepyfile(POINT.format(runs=100))
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["foretold: never true in any run: ten (*)"])
    assert pytester.runpytest("--foretold-vacuity=warn").ret == pytest.ExitCode.OK
    assert pytester.runpytest("--foretold-runs=99").ret == pytest.ExitCode.OK


def test_a_word_that_is_none(pytester: pytest.Pytester):
    """A mistake is named."""
    result = pytester.runpytest("--foretold-vacuity=perhaps")
    result.stderr.fnmatch_lines(["*foretold_vacuity=perhaps: it is fail, warn or ignore*"])


NO_VALUE = """
import foretold
from hypothesis import strategies as st

@foretold.simulate(runs=3, vacuity="ignore")
def test_draws():
    foretold.draw(st.integers().filter(lambda number: False))
"""

NO_TIME = """
import foretold
from foretold.search import explore

explore.RUNS_S = 0.1

@foretold.simulate(time_s=0.1, wall_s_max=4)
def test_never_over():
    while True:
        pass
"""


@pytest.mark.parametrize(
    ("program", "why"),
    [(NO_VALUE, "all of 3 runs were discarded*"), (NO_TIME, "no run was over when the time*")],
)
def test_a_test_of_which_no_run_counts_fails(pytester: pytest.Pytester, program: str, why: str):
    """PASSED means that something was explored, whatever the project says about vacuity."""
    pytester.makepyfile(program)
    result = pytester.runpytest("-v", "--foretold-vacuity=warn")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*Vacuous: nothing was explored: {why}", "*, nothing explored"])
