"""`foretold check` tells a deterministic program from another, by exit code and in words."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import foretold
from tests.report import programs
from tests.report.stored import assert_as_stored

LEAKS = '''\
"""A set of strings decides the order, and a list remembers runs."""

import asyncio

import foretold

runs, cache = [], {}


async def job(name):
    await asyncio.sleep(0)
    return name


async def by_set_order():
    names = {f"user-{number}" for number in range(8)}
    await foretold.together(*(job(name) for name in names))


async def warms_up():
    if not cache:
        await asyncio.sleep(0)
        cache["x"] = 1
    await foretold.together(job("a"), job("b"))


async def by_state():
    runs.append(1)
    await foretold.together(job("a"), job(len(runs)))
'''


def test_a_deterministic_program(tmp_path: Path) -> None:
    """Exit code 0, with figures."""
    programs.write(tmp_path, programs.FINE)
    assert_as_stored("cli-check", str(foretold(tmp_path, "check", "bank:main", "--seed", "1")))


def test_set_order(tmp_path: Path) -> None:
    """Exit code 3; both sides of the first difference, the cause and the remedy."""
    programs.write(tmp_path, LEAKS)
    done = foretold(tmp_path, "check", "bank:by_set_order", "--seed", "1")
    assert_as_stored("cli-check-set-order", str(done))


def test_state_between_runs(tmp_path: Path) -> None:
    """Exit code 3 as well: a search makes its runs in one process."""
    programs.write(tmp_path, LEAKS)
    done = foretold(tmp_path, "check", "bank:by_state", "--seed", "1", "--runs", "1")
    assert_as_stored("cli-check-state", str(done))
    forked = foretold(
        tmp_path, "check", "bank:by_state", "--seed", "1", "--runs", "1", "--isolation", "fork"
    )
    assert (forked.code, "is deterministic" in forked.out) == (0, True)


def test_a_cache_that_fills(tmp_path: Path) -> None:
    """Exit code 0: the first run of a process does not count. What it changed is told."""
    programs.write(tmp_path, LEAKS)
    done = foretold(tmp_path, "check", "bank:warms_up", "--seed", "1", "--runs", "1")
    assert_as_stored("cli-check-first", str(done))


def test_a_pytest_test(tmp_path: Path) -> None:
    """Tests are run by pytest, in fresh processes as well."""
    text = LEAKS + (
        """

@foretold.simulate
async def test_set_order():
    await by_set_order()


@foretold.simulate
async def test_warms_up():
    await warms_up()


@foretold.simulate
async def test_state():
    await by_state()


@foretold.simulate(isolation="fork")
async def test_state_in_forks():
    await by_state()
"""
    )
    programs.write(tmp_path, text, "test_bank.py")
    check = ("--seed", "1", "--runs", "1")
    leaking = foretold(tmp_path, "check", "test_bank.py::test_set_order", *check)
    assert leaking.code == 3
    assert "Likely cause: set order.\n" in leaking.out
    warming = foretold(tmp_path, "check", "test_bank.py::test_warms_up", *check)
    assert warming.code == 0
    assert "  The first run changed test_bank.cache (0 items, then 1 item).\n" in warming.out
    growing = foretold(tmp_path, "check", "test_bank.py::test_state", *check)
    assert growing.code == 3
    assert "  The second run changed test_bank.runs (1 item, then 2 items).\n" in growing.out
    forked = foretold(tmp_path, "check", "test_bank.py::test_state_in_forks", *check)
    assert (forked.code, "is deterministic" in forked.out) == (0, True)
    whole = foretold(tmp_path, "check", "test_bank.py")
    assert (whole.code, whole.out) == (2, "")
    both = foretold(tmp_path, "check", "test_bank.py::test_state", "--isolation", "fork")
    assert both.code == 2
    assert "--isolation is for functions and applications" in both.err
    assert "name one test to check, such as test_bank.py::test_x" in whole.err
