"""A program that fails only in the first run of a process: red, kept, and replayed as such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import foretold
from tests.report import programs

POOL = '''\
"""A pool that is made once for the whole process, by whoever comes first."""

import asyncio

import foretold


class Pool:
    is_open = False


made = []


async def pool():
    if not made:
        made.append(Pool())
        await asyncio.sleep(0.01)
        made[0].is_open = True
    return made[0]


async def use_pool():
    assert (await pool()).is_open, "the pool is not open yet"


async def main():
    await foretold.together(use_pool(), use_pool())


@foretold.simulate(runs=20)
async def test_pool():
    await main()


@foretold.simulate(runs=20)
async def test_pool_again():
    await main()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the program in it."""
    programs.write(tmp_path, POOL, "test_pool.py")
    return tmp_path


def test_the_search_fails_and_its_tape_replays(folder: Path) -> None:
    """The report says which run it was and that a fresh process has confirmed it. A replay fails as
    recorded, and the next search begins with it."""
    done = foretold(folder, "explore", "test_pool:main", "--seed", "1", "--json")
    assert done.code == 1
    [found] = json.loads(done.out)["failures"]
    assert (found["first_only"], found["reproduced"], found["stock_asyncio"]) == (True, True, None)
    [tape] = folder.glob(".foretold/failures/*/*.tape")
    again = foretold(folder, "replay", str(tape.relative_to(folder)))
    assert again.code == 1
    assert again.out.rstrip().endswith("It fails again, as recorded.")
    next_search = foretold(folder, "explore", "test_pool:main", "--seed", "2")
    assert next_search.code == 1
    assert next_search.err.startswith("STILL FAILS: ")


def test_more_about_its_tape_is_told_of_first_runs_alone(folder: Path) -> None:
    """`explain` does not count continuations in a process that has had its first run, and `shrink`
    makes each run in a fork of one that has had none."""
    foretold(folder, "explore", "test_pool:main", "--seed", "1", "--no-confirm")
    [tape] = folder.glob(".foretold/failures/*/*.tape")
    explained = foretold(folder, "explain", str(tape))
    assert "no process has two of them." in " ".join(explained.out.split())
    assert "%" not in explained.out
    smaller = foretold(folder, "shrink", str(tape))
    assert smaller.code == 1
    assert "Replayed in a fresh process: yes." in smaller.out


def test_pytest_fails_as_well_and_keeps_the_failure(folder: Path) -> None:
    """The second test finds the pool open, because both run in one process. Its own failure was
    saved when it was run alone, and is not taken for fixed: a fresh process is asked."""
    alone = "test_pool.py::test_pool_again"
    first = foretold(folder, "explore", alone, "--seed", "1")
    assert first.code == 1
    assert "foretold found this in the first run of a process, made before run 1 of 20" in first.out
    assert "Replayed in a fresh process: yes." in first.out
    done = foretold(folder, "explore", "test_pool.py", "--seed", "2")
    assert done.code == 1
    assert "2 failed" in done.out
    assert "In this process, which has run other things before, the same tape" in done.out
    assert not list(folder.glob(".foretold/fixed/*"))
