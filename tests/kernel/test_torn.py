"""kernel/torn.py: what CPython does in the middle of a line, and what it never does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import foretold
from foretold.kernel.torn import NOWHERE, torn

RUNS_MAX = 300
total = 0


def twice(step: Callable[[], object]) -> None:
    """Two threads do it at the same time."""
    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_attribute() -> None:
    """An amount is added, and rounded in the same line."""
    account = SimpleNamespace(total=0.0)

    def step() -> None:
        account.total = round(account.total + 1, 2)

    twice(step)
    assert account.total == 2


def by_key() -> None:
    """The same in a dictionary."""
    box = {"n": 0}

    def step() -> None:
        box["n"] = max(box["n"] + 1, 0)

    twice(step)
    assert box["n"] == 2


def by_global() -> None:
    """The same in a module."""
    global total
    total = 0

    def step() -> None:
        global total
        total = int(total + 1)

    twice(step)
    assert total == 2


def by_closure() -> None:
    """The same in a function around it."""
    n = 0

    def step() -> None:
        nonlocal n
        n = int(n + 1)

    twice(step)
    assert n == 2


def by_method() -> None:
    """The next number of a list."""
    ids = [0]

    def step() -> None:
        ids.append(max(ids) + 1)

    twice(step)
    assert sorted(ids) == [0, 1, 2]


@pytest.mark.parametrize("main", [by_attribute, by_key, by_global, by_closure, by_method])
def test_a_line_that_reads_calls_and_writes_is_torn(main: Callable[[], None]) -> None:
    """With real threads, more than half of such updates are lost."""
    outcome = foretold.explore(main, runs=RUNS_MAX, seed=1, shrink=False, confirm=False)
    failure = outcome.failure
    assert failure is not None
    with pytest.raises(AssertionError):
        foretold.replay(main, failure.tape)


def test_a_line_without_a_call_is_not() -> None:
    """CPython never lets another thread go on there."""
    box: dict[str, Any] = {"n": 0}

    def main() -> None:
        box["n"] = 0

        def step() -> None:
            box["n"] += 1
            box["m"] = box["n"]

        twice(step)
        assert box["n"] == 2

    assert foretold.explore(main, runs=RUNS_MAX, seed=1).failure is None


def test_where_lines_can_be_torn() -> None:
    """Only those that read before the call and write after it."""

    def some(self: Any, box: Any, amount: int) -> int:
        self.total = round(self.total + amount, 2)
        box["n"] = amount
        found = len(self.items)
        self.count += 1
        self.count += int(amount)
        print(amount)  # noqa: T201  # it is not run
        return found

    first = some.__code__.co_firstlineno
    assert {line - first for line in torn(some.__code__).lines} == {1, 5}
    assert torn(twice.__code__) == NOWHERE
