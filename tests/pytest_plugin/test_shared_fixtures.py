"""Fixtures are set up once per test: what all runs share is warned about, and only that."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import functools
import logging
import pathlib
import re
import types
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import pytest

from foretold.pytest_support.fixtures import is_mutable

pytest_plugins = ["pytester"]


class Account:
    """Has state."""

    def __init__(self) -> None:
        self.balance = 0

    def deposit(self) -> None:
        """Bound, it is a function; what it is bound to is the user's affair."""


class Stateless:
    """Has only behaviour."""


class Colour(enum.Enum):
    """Members have a `__dict__`, yet are constants."""

    RED = "red"


class Pair(NamedTuple):
    """As immutable as what is in it."""

    left: Any
    right: Any


@dataclass
class Order:
    """Its fields can be set."""

    amount: int = 0


@dataclass(slots=True)
class Slotted:
    """The same without a `__dict__`."""

    amount: int = 0


@dataclass(frozen=True)
class Frozen:
    """As immutable as what is in it."""

    content: Any = 0


@pytest.mark.parametrize(
    "value",
    [
        [], {}, set(), bytearray(), collections.deque(), collections.Counter(),
        collections.OrderedDict(), Account(), Order(), Slotted(), Pair(1, []), Frozen({}),
        ((1, [2]),), types.SimpleNamespace(x=1), mock.Mock(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_one_run_can_leave_for_the_next(value: Any):
    """Containers, objects with state, and what holds one of them."""
    assert is_mutable(value)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 1.5, 1j, "text", b"bytes", (), (1, ("x",)), frozenset({1}), range(3),
        Account, Stateless(), len, Account.__init__, Account().deposit, lambda: [1], pathlib,
        functools.partial(list), pathlib.Path("x"), pathlib.PurePosixPath("x"), Colour.RED,
        datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.UTC, uuid.UUID(int=1),
        decimal.Decimal(1), re.compile("x"), logging.getLogger("x"), ValueError("x"),
        Pair(1, 2), Frozen(), Frozen((1, 2)), types.MappingProxyType({}), object(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_harmless(value: Any):
    """Values, functions, classes, modules: no warning may cry wolf."""
    assert not is_mutable(value)


def test_a_list_from_a_fixture_is_warned_about_once(pytester: pytest.Pytester):
    """Names the fixture, the type, the remedy; once per test, not per run; the test still runs."""
    pytester.makepyfile("""
        import pytest, foretold

        @pytest.fixture
        def log():
            return []

        @pytest.fixture
        def name():
            return "x"

        @foretold.simulate(runs=5)
        def test_shares(log, name):
            log.append(foretold.between(0, 9))
    """)
    result = pytester.runpytest("-W", "default")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*ForetoldWarning: test_shares: all runs share fixture 'log' (list). *once per test*"]
    )
    quiet = pytester.runpytest("-W", "ignore::foretold.ForetoldWarning")
    quiet.assert_outcomes(passed=1, warnings=0)
    strict = pytester.runpytest("-W", "error::foretold.ForetoldWarning")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines([">*def test_shares(log, name):", "E*all runs share*"])


def test_state_of_the_instance_is_warned_about(pytester: pytest.Pytester):
    """`setup_method` and `setUp` are fixtures by another name."""
    pytester.makepyfile("""
        import unittest
        import foretold

        class TestIt:
            def setup_method(self):
                self.log, self.name = [], "x"

            @foretold.simulate
            def test_shares(self):
                pass

        class TestCase(unittest.TestCase):
            def setUp(self):
                self.bag, self.name = {}, "x"

            @foretold.simulate
            def test_too(self):
                pass
    """)
    result = pytester.runpytest("-W", "default")
    result.assert_outcomes(passed=2, warnings=2)
    result.stdout.fnmatch_lines(["*test_shares: all runs share self.log (list). *"])
    result.stdout.fnmatch_lines(["*test_too: all runs share self.bag (dict). *"])


def test_whom_no_warning_concerns(pytester: pytest.Pytester):
    """pytest's own fixtures, wider scopes (shared on purpose), factories, parameters."""
    pytester.makepyfile("""
        import pytest, foretold

        @pytest.fixture(scope="module")
        def shared():
            return []

        @pytest.fixture
        def make():
            return lambda: []

        @pytest.fixture(autouse=True)
        def unused():
            return []

        @pytest.mark.parametrize("items", [[1, 2]])
        @foretold.simulate(runs=2)
        def test_quiet(
            shared, make, items, request, tmp_path, monkeypatch, capsys, caplog, recwarn,
            record_property, pytestconfig, cache, tmp_path_factory,
        ):
            pass

        def test_plain(shared):
            pass
    """)
    pytester.runpytest("-W", "error").assert_outcomes(passed=2)


def test_async_fixtures_are_refused(pytester: pytest.Pytester):
    """A coroutine from a fixture would run elsewhere: a clear error with the line to write."""
    pytester.makepyfile("""
        import pytest, foretold

        async def make_bank():
            return 1

        @pytest.fixture
        def bank():
            return make_bank()

        @foretold.simulate
        async def test_it(bank):
            pass
    """)
    result = pytester.runpytest("-W", "error")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*UsageError: fixture 'bank' is async. *", "E*bank = await make_bank()"]
    )
