"""What all runs of a test share is warned about, and only that."""

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


def test_state_on_self_that_no_run_makes_is_warned_about(pytester: pytest.Pytester):
    """What a shared fixture puts there; named with its type, once per test; the test still runs."""
    pytester.makepyfile("""
        import pytest, foretold

        class TestIt:
            @pytest.fixture(autouse=True)
            @foretold.shared
            def attach(self):
                self.log, self.name = [], "x"

            @foretold.simulate(runs=5)
            def test_shares(self):
                self.log.append(foretold.between(0, 9))
    """)
    result = pytester.runpytest("-W", "default")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*ForetoldWarning: test_shares: all runs share self.log (list). It was made once, *"]
    )
    quiet = pytester.runpytest("-W", "ignore::foretold.ForetoldWarning")
    quiet.assert_outcomes(passed=1, warnings=0)
    strict = pytester.runpytest("-W", "error::foretold.ForetoldWarning")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines([">*def test_shares(self):", "E*all runs share*"])


def test_set_up_of_a_class_is_done_in_every_run(pytester: pytest.Pytester):
    """`setup_method`, `setUp` and `addCleanup` are fixtures by another name: no state is left."""
    pytester.makepyfile("""
        import unittest
        import foretold

        CALLS = []

        class TestIt:
            def setup_method(self):
                self.log = []

            @foretold.simulate(runs=5)
            def test_it(self):
                self.log.append(foretold.between(0, 9))
                assert len(self.log) == 1

        class TestCase(unittest.TestCase):
            def setUp(self):
                foretold.current_world()
                self.bag = {}
                self.addCleanup(CALLS.append, "cleanup")

            def tearDown(self):
                CALLS.append("down")

            @foretold.simulate(runs=5)
            def test_it(self):
                self.bag[foretold.between(0, 9)] = True
                self.assertEqual(len(self.bag), 1)

        def test_after():
            assert CALLS == ["down", "cleanup"] * (1 + 5)  # the first one warms up
    """)
    pytester.runpytest("-W", "error").assert_outcomes(passed=3)


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


def test_what_can_be_awaited_only_once_is_refused(pytester: pytest.Pytester):
    """A coroutine that all runs share would fail in the second: a clear error in the first."""
    pytester.makepyfile("""
        import pytest, foretold

        async def make_bank():
            return 1

        @pytest.fixture(scope="module")
        def bank():
            return make_bank()

        @foretold.simulate
        async def test_it(bank):
            pass
    """)
    result = pytester.runpytest("-W", "error")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*UsageError: fixture 'bank' gives an awaitable, *"])
