"""A decorator that cannot work says so where it is written, with the line to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies

import foretold
from foretold.errors import UsageError

pytest_plugins = ["pytester"]


def plain() -> None:
    """A function that could be decorated."""


def of_class(cls: type) -> None:
    """A function that could become a class method."""


def generator():
    """A test of the old kind."""
    yield


async def async_generator():
    """The same, async."""
    yield


@given(strategies.integers())
def with_given(number: int) -> None:
    """Hypothesis would run it many times in one run."""


class Some:
    """For a later version."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Some, "on the class Some: in this version it decorates functions"),
        (500, "decorates a test function, got 500. Settings have names"),
        ("runs", "decorates a test function, got 'runs'"),
        (generator, "generator contains a `yield`: a test is a plain or async function"),
        (async_generator, "async_generator contains a `yield`"),
        (staticmethod(plain), "write @staticmethod above @foretold.simulate"),
        (classmethod(of_class), "write @classmethod above @foretold.simulate"),
        (with_given, "@given on with_given: draw inside of the test instead"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_what_cannot_be_decorated(function: Any, said: str):
    """Refused with and without parentheses."""
    for decorator in (foretold.simulate, foretold.simulate(runs=3)):
        with pytest.raises(UsageError, match=re.escape(said)):
            decorator(function)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"runs": 0}, "runs is a whole number, 1 or more, such as runs=500; got 0"),
        ({"runs": "many"}, "runs is a whole number"),
        ({"runs": True}, "runs is a whole number"),
        ({"seed": "x"}, "a seed is a whole number, such as seed=7; got 'x'"),
        ({"seed": 1.5}, "a seed is a whole number"),
        ({"order": "random"}, "order is"),
        ({"strategy": "luck"}, "strategy is 'portfolio', 'fifo'"),
        ({"exact_tim": True}, "the setting 'exact_tim'. Did you mean 'exact_time'?"),
        ({"save_to": "x"}, "does not know the setting 'save_to'"),
        ({"steps_max": 0}, "steps_max is a whole number, 1 or more"),
        ({"background_errors": "hide"}, "background_errors is"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_work(settings: dict[str, Any], said: str):
    """Refused when the module is imported, not when the test is run."""
    with pytest.raises(UsageError, match=re.escape(said)):
        foretold.simulate(**settings)(plain)


def test_every_setting_of_a_search_and_of_a_run_is_taken():
    """One that is added to `explore` or `run` later is taken without a change here."""
    foretold.simulate(
        runs=1, seed=1, order="any", strategy="pct", shrink=False, confirm=False, time_s=1.0,
        exact_time=True, epoch_s=0.0, monotonic_s=5.0, background_errors="ignore", steps_max=9,
        virtual_s_max=1.0, wall_s_max=1.0, isolation=None, workers=1, faults=None,
    )(plain)  # fmt: skip


def test_settings_reach_the_run(pytester: pytest.Pytester):
    """Those of the run and those of the search alike."""
    pytester.makepyfile("""
        import asyncio, time
        import pytest, foretold

        @foretold.simulate(exact_time=True, epoch_s=0.0, order="asyncio", runs=2)
        async def test_clock(world):
            assert time.time() == 0.0
            await foretold.together(asyncio.sleep(1), asyncio.sleep(1))
            assert time.time() == 1.0
            assert world.settings.order == "asyncio"

        @pytest.mark.xfail(raises=foretold.LimitExceeded, strict=True)
        @foretold.simulate(steps_max=100, confirm=False)
        async def test_limit():
            while True:
                await asyncio.sleep(0)

        @foretold.simulate(time_s=0.000001, runs=10**9)
        def test_time():
            foretold.between(0, 9)
    """)
    pytester.runpytest().assert_outcomes(passed=2, xfailed=1)


def test_a_mistake_is_shown_at_its_line(pytester: pytest.Pytester):
    """As an error of collection that ends in the user's file."""
    pytester.makepyfile("""
        import foretold

        @foretold.simulate(runz=3)
        def test_it():
            pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@foretold.simulate(runz=3)", "*Did you mean 'runs'?"])


def test_a_usage_error_in_a_run_shows_the_test(pytester: pytest.Pytester):
    """Nested runs: the error's own text, at the user's line, without our frames."""
    pytester.makepyfile("""
        import foretold

        @foretold.simulate(confirm=False)
        def test_nested():
            foretold.run(lambda: None)
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [">*foretold.run(lambda: None)", "E*UsageError: *worlds cannot be nested*"]
    )
