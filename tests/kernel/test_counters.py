"""Counters of libraries begin anew in each run, and go on after it."""

from __future__ import annotations

import concurrent.futures.thread
import importlib
import threading
from typing import Any

import asyncpg.connection
import pytest

from foretold.kernel import counters
from foretold.kernel.counters import COUNTERS, Counter
from foretold.kernel.libraries.sqlalchemy import ADDRESSES
from tests.kernel.fake_computer import a_run


def value_of(counter: Counter) -> Any:
    """What stands there now."""
    owner: Any = importlib.import_module(counter.module)
    if counter.owner:
        owner = vars(owner)[counter.owner]
    return vars(owner)[counter.name]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.module)
def test_each_counter_is_where_the_table_says(counter: Counter) -> None:
    """A library that renames its counter would leak from run to run again, unnoticed: here it
    shows. What a fresh process has is of the type that the table puts there."""
    assert type(value_of(counter)) is type(counter.new())


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.module)
def test_each_counter_is_put_back(counter: Counter) -> None:
    """The very object, also if the run fails."""
    before = value_of(counter)
    with pytest.raises(ZeroDivisionError), a_run():
        assert value_of(counter) is not before or before == 0
        raise ZeroDivisionError
    assert value_of(counter) is before


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_address_goes_out(name: str) -> None:
    """Where a library makes a name of an address, that is the same for all in a run."""
    module = importlib.import_module(name)
    with a_run():
        assert vars(module)["id"](module) == vars(module)["id"](name)
    assert "id" not in vars(module)


def names() -> list[str]:
    """What a program sees of the counters."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asyncpg.connection._uid += 1
        statement = f"__asyncpg_stmt_{asyncpg.connection._uid:x}__"
        return [threading.Thread().name, str(pool._thread_name_prefix), statement]


def test_names_are_those_of_a_fresh_process() -> None:
    """In each run the first thread, the first pool, the first statement; outside they count on."""
    outside = names()
    for _ in range(2):
        with a_run():
            assert names() == ["Thread-1", "ThreadPoolExecutor-0", "__asyncpg_stmt_1__"]
    after = names()
    assert int(after[0].rpartition("-")[2]) == int(outside[0].rpartition("-")[2]) + 1
    assert outside != after


def test_what_is_not_imported_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported for this, and a library without its counter is no error."""
    gone = (Counter("no_such_module", "", "x", int), Counter("json", "", "no_such_name", int))
    monkeypatch.setattr(counters, "COUNTERS", (*gone, Counter("json", "NoClass", "x", int)))
    with a_run():
        assert counters._before == []


def test_a_helper_is_not_counted() -> None:
    """What is done on the run's behalf once in a process (a schema is made by a function) leaves no
    counter where the runs after it would not find it."""
    with a_run():
        first = names()
        with counters.standing_still():
            names(), names()
        second = names()
    with a_run():
        assert [names(), names()] == [first, second]
