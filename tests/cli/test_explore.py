"""`foretold explore` searches, says what it found, and ends with an exit code that means it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command import foretold
from tests.report import programs
from tests.report.stored import assert_as_stored

TESTS = '''\
"""Simulated tests, for pytest to find."""

import asyncio

import bank
import foretold


@foretold.simulate(runs=300)
async def test_no_money_is_lost():
    await bank.main()


@foretold.simulate
async def test_sleeps():
    await foretold.together(asyncio.sleep(1), asyncio.sleep(1))


@foretold.simulate
async def test_alone():
    await asyncio.sleep(1)


def test_plain():
    pass
'''


def test_a_failure_is_found_told_and_kept(tmp_path: Path) -> None:
    """The whole output, and a tape in `.foretold` that git does not see. Exit code 1."""
    programs.write(tmp_path, programs.BANK)
    done = foretold(tmp_path, "explore", "bank:main", "--seed", "1")
    assert done.code == 1
    assert_as_stored("cli-explore-failure", str(done))
    [tape] = tmp_path.glob(".foretold/failures/*/*.tape")
    assert done.out.splitlines()[-1] == f"Replay it: foretold replay {tape.relative_to(tmp_path)}"
    assert (tmp_path / ".foretold" / ".gitignore").exists()


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    """Two invocations, two random hash seeds, one output; the first has left nothing behind."""
    programs.write(tmp_path, programs.NOISY_BANK)
    search = ("explore", "bank:main", "--seed", "1")
    first = foretold(tmp_path, *search)
    shutil.rmtree(tmp_path / ".foretold")
    second = foretold(tmp_path, *search)
    assert first == second
    assert first.code == 1


def test_a_program_that_holds(tmp_path: Path) -> None:
    """Exit code 0, how much was tried, what was never true; a file is named as well as a module."""
    programs.write(tmp_path, programs.FINE)
    done = foretold(tmp_path, "explore", "./bank.py:main", "--seed", "1", "--runs", "20")
    assert_as_stored("cli-explore-held", str(done))
    assert not (tmp_path / ".foretold").exists()


def test_nothing_to_explore(tmp_path: Path) -> None:
    """No choice was ever made: one run, and exit code 4, because that is no evidence."""
    programs.write(tmp_path, programs.FINE)
    done = foretold(tmp_path, "explore", "bank:quiet", "--seed", "1")
    assert_as_stored("cli-explore-nothing", str(done))
    assert done.code == 4


def test_a_fresh_seed_is_drawn_and_printed(tmp_path: Path) -> None:
    """Two searches without a seed search in different places; FORETOLD_SEED pins them."""
    programs.write(tmp_path, programs.FINE)
    search = ("explore", "bank:main", "--runs", "2")
    first, second = (foretold(tmp_path, *search).out.rpartition("Seed ")[2] for _ in range(2))
    assert first != second
    assert " Seed 12345." in foretold(tmp_path, *search, FORETOLD_SEED="0x3039").out
    assert " Seed 7." in foretold(tmp_path, *search, "--seed", "7", FORETOLD_SEED="12345").out


def test_options_reach_the_search(tmp_path: Path) -> None:
    """Order, strategy and the switches: each changes what is reported."""
    programs.write(tmp_path, programs.BANK)
    search = ("explore", "bank:main", "--seed", "1", "--no-confirm")
    stock = foretold(tmp_path, *search, "--order", "asyncio")
    assert stock.code == 4, "no timer and no I/O: stock asyncio has nothing to choose here"
    pct = foretold(tmp_path, *search, "--strategy", "pct", "--no-shrink", "--isolation", "fork")
    assert pct.code == 1
    assert "order any, strategy pct); not shrunk: " in pct.out
    assert "fresh process" not in pct.out


FAULTY = '''\
"""A client that takes the network for granted."""

import asyncio


async def hang_up(reader, writer):
    writer.close()


async def serve():
    await asyncio.start_server(hang_up, "0.0.0.0", 80)
    await asyncio.Event().wait()


async def main(world):
    server = world.host("server")
    server.start(serve)
    await server.listening(80)
    for _ in range(50):
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection("server", 80)
            assert await reader.read() == b""
            writer.close()
        await asyncio.sleep(0.05)
'''


def test_faults_strike_if_they_are_asked_for(tmp_path: Path) -> None:
    """Without --faults the program holds; with them the failure names its fault, and its seed
    replays it with the same option."""
    programs.write(tmp_path, FAULTY)
    search = ("explore", "bank:main", "--seed", "1", "--runs", "60", "--no-confirm", "--json")
    assert foretold(tmp_path, *search).code == 0
    done = foretold(tmp_path, *search, "--faults", "partition")
    failure = json.loads(done.out)["failure"]
    assert done.code == 1
    assert any(text.startswith("partition ") for text in failure["faults"])
    again = ("replay", "bank:main", "--seed", str(failure["seed"]))
    assert foretold(tmp_path, *again).code == 0
    assert foretold(tmp_path, *again, "--faults", "partition").code == 1


def test_a_time_limit_ends_the_search(tmp_path: Path) -> None:
    """With --time and no --runs the search goes on until the time is over."""
    programs.write(tmp_path, programs.FINE)
    done = foretold(tmp_path, "explore", "bank:main", "--time", "0.01s", "--seed", "1")
    assert done.code == 0
    assert "bank:main held in " in done.out


def test_one_json_object_for_programs(tmp_path: Path) -> None:
    """The output is nothing but JSON, even if the program under test prints."""
    programs.write(
        tmp_path, programs.BANK.replace("    account = ", "    print('hello')\n    account = ")
    )
    done = foretold(tmp_path, "explore", "bank:main", "--seed", "1", "--json")
    data = json.loads(done.out)
    assert (done.code, data["exit_code"], data["verdict"]) == (1, 1, "violated")
    assert (tmp_path / data["failure"]["tape"]).exists()
    assert data["failure"]["reproduced"] is True


def test_what_a_program_logs_does_not_bury_the_story(tmp_path: Path) -> None:
    """Where it has set up no logging, Python would print each warning of each run."""
    text = "import logging\n\n\nasync def main():\n    logging.getLogger('app').warning('LOUD')\n"
    (tmp_path / "loud.py").write_text(f"{text}    raise LookupError('found')\n", "utf-8")
    done = foretold(tmp_path, "explore", "loud.py:main", "--runs", "3", "--no-confirm")
    assert done.code == 1
    assert "LookupError: found" in done.out
    assert "LOUD" not in done.err


def test_a_program_that_logs_to_the_terminal_is_not_shown_either(tmp_path: Path) -> None:
    """Frameworks set up logging when they are imported, with handlers for the real error stream. A
    handler with a stream of its own gets all as before."""
    (tmp_path / "loud.py").write_text(
        """
import io, logging

kept = io.StringIO()
logging.basicConfig(level="INFO")
logging.getLogger().addHandler(logging.StreamHandler(kept))


async def main():
    logging.getLogger("app").info("LOUD")
    raise LookupError(f"kept {kept.getvalue()[:4]}")
""",
        "utf-8",
    )
    done = foretold(tmp_path, "explore", "loud.py:main", "--runs", "3", "--no-confirm")
    assert done.code == 1
    assert "LookupError: kept LOUD" in done.out
    assert "LOUD" not in done.err


def test_settings_of_a_decorated_function_count(tmp_path: Path) -> None:
    """`module:function` of a simulated test is searched as its decorator says."""
    text = programs.FINE + (
        """

@foretold.simulate(exact_time=True)
async def test_exact(world):
    before = world.clock.now()
    await foretold.together(asyncio.sleep(1), asyncio.sleep(1))
    assert world.clock.now() - before == 1
"""
    )
    programs.write(tmp_path, text)
    done = foretold(tmp_path, "explore", "bank:test_exact", "--runs", "10", "--seed", "1")
    assert done.code == 0, str(done)


def test_the_hash_seed_is_0(tmp_path: Path) -> None:
    """The command starts itself anew, so that sets of strings have one order in all processes; also
    where the environment has another seed, as tox sets one."""
    text = '"""Hash seed."""\n\nimport sys\n\n\nasync def main():\n'
    text += "    assert not sys.flags.hash_randomization\n"
    programs.write(tmp_path, text)
    assert foretold(tmp_path, "explore", "bank:main").code == 4
    assert foretold(tmp_path, "explore", "bank:main", PYTHONHASHSEED="77").code == 4


# Tests of pytest


def test_pytest_tests_are_left_to_pytest(tmp_path: Path) -> None:
    """A node id is run by pytest, whose verdict becomes one of our exit codes."""
    programs.write(tmp_path, programs.BANK)
    programs.write(tmp_path, TESTS, "test_bank.py")

    def code_of(test: str) -> int:
        return foretold(tmp_path, "explore", f"test_bank.py::{test}", "--runs", "5").code

    failing = foretold(tmp_path, "explore", "test_bank.py::test_no_money_is_lost", "--seed", "1")
    assert failing.code == 1
    assert "AssertionError: only " in failing.out
    assert "Replay it: foretold replay .foretold/failures/" in failing.out
    assert "::error" not in failing.out, "annotations are for GitHub"
    assert code_of("test_sleeps") == 0
    assert code_of("test_alone") == 4
    assert code_of("test_nowhere") == 2
    plain = foretold(tmp_path, "explore", "test_bank.py::test_plain")
    assert plain.code == 2
    assert plain.err.endswith("is simulated: decorate it with @foretold.simulate\n")
    untested = foretold(tmp_path, "explore", "bank.py")
    assert untested.code == 2
    assert untested.err.endswith(
        "pytest finds no test in bank.py. To explore a function, name it: bank.py:function\n"
    )


def test_json_about_pytest_tests(tmp_path: Path) -> None:
    """A whole file of tests; pytest's own output goes to the error stream."""
    programs.write(tmp_path, programs.BANK)
    programs.write(tmp_path, TESTS, "test_bank.py")
    done = foretold(tmp_path, "explore", "test_bank.py", "--seed", "1", "--json")
    data = json.loads(done.out)
    assert (done.code, data["verdict"]) == (1, "violated")
    assert [test["failed"] for test in data["tests"]] == [True, False, False]
    assert "test session starts" in done.err


ANNOTATED = '''\
"""Tests that fail in ways a terminal would not notice, and one that is expected to."""

import asyncio

import pytest

import foretold


async def step():
    await asyncio.sleep(0)


@foretold.simulate(confirm=False)
async def test_evil():
    await foretold.together(step(), step())
    raise ValueError("50%, \\r::error::no\\n::set-output name=x::yes")


@foretold.simulate(confirm=False)
async def test_stuck():
    await foretold.together(step(), step())
    await asyncio.Event().wait()


@pytest.mark.xfail
@foretold.simulate(confirm=False)
async def test_expected():
    assert foretold.between(0, 1, "coin") == 2


@foretold.simulate(confirm=False)
async def test_holds():
    await foretold.together(step(), step())
    foretold.sometimes(False, "never,\\n::debug::this")
'''


@pytest.mark.parametrize("how", ["--github", "--json"])
def test_annotations_of_pytest_tests(tmp_path: Path, how: str) -> None:
    """Each failure at its line, a deadlock at its test; nothing for what is expected to fail. What
    a program says stays on its line: it cannot give commands of its own. In GitHub's Actions
    unasked, with paths from the root of the repository; beside JSON on the error stream."""
    folder = tmp_path / "inner"
    folder.mkdir()
    programs.write(folder, ANNOTATED, "test_evil.py")
    asked = how == "--github"
    variables = {} if asked else {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    arguments = ("explore", "test_evil.py", "--seed", "1", "--runs", "3", how)
    done = foretold(folder, *arguments, PYTEST_ADDOPTS="--tb=no", **variables)
    assert done.code == 1, str(done)
    told = done.out if asked else done.err
    *_, last_of_pytest, evil, stuck, never = told.splitlines()
    assert last_of_pytest.startswith("=====")
    file = "test_evil.py" if asked else "inner/test_evil.py"
    assert evil.startswith(
        f"::error file={file},line=17,title=foretold%3A ValueError::ValueError: 50%25, %0D::error"
    )
    assert "foretold replay .foretold/failures/" in evil
    assert stuck.startswith(f"::error file={file},line=20,title=foretold%3A Deadlock::Deadlock: ")
    assert never.startswith("::warning title=foretold::never true in any run: never,%0A::debug")
    assert "never true in any run: never,\\n::debug::this (" in told, "our own summary, on one line"
    if not asked:
        assert json.loads(done.out)["verdict"] == "violated"


def test_options_that_a_test_sets_itself_are_refused(tmp_path: Path) -> None:
    """Ignoring them silently would search something else than was asked for."""
    done = foretold(tmp_path, "explore", "test_bank.py::test_x", "--order", "any")
    assert done.code == 2
    assert done.err == (
        "Error: --order works with module:function only. "
        "In a test write @foretold.simulate(order=…)\n"
    )


def test_the_program_sees_the_environment_of_the_user(tmp_path: Path) -> None:
    """The command pins the hashes of strings for itself. What it set for that is not there in the
    search, in the process that confirms a failure, nor in a test that it leaves to pytest."""
    program = """
import os, sys
import foretold

async def main():
    assert sys.flags.hash_randomization == 0
    seen = {name: os.environ.get(name) for name in ("PYTHONHASHSEED", "FORETOLD_HASHSEED_WAS")}
    raise AssertionError(str(seen))

test_main = foretold.simulate(runs=1, confirm=False, shrink=False)(main)
"""
    programs.write(tmp_path, program, "test_env.py")
    seen: dict[str, str | None] = {}
    given: dict[str, str] = {}
    for given in ({}, {"PYTHONHASHSEED": "77"}):
        done = foretold(tmp_path, "explore", "test_env:main", "--json", "--no-saved", **given)
        failure = json.loads(done.out)["failure"]
        seen = {"PYTHONHASHSEED": given.get("PYTHONHASHSEED"), "FORETOLD_HASHSEED_WAS": None}
        assert (failure["message"], failure["reproduced"]) == (str(seen), True)
        assert str(seen) in foretold(tmp_path, "explore", "test_env.py::test_main", **given).out


WARNS = '''\
"""It has a thread, and warns in every run."""

import asyncio
import warnings

import foretold


async def main(world):
    await asyncio.to_thread(int, "3")
    await asyncio.sleep(foretold.between(1, 9))
    warnings.warn("this will change", FutureWarning)
'''


def test_a_warning_is_shown_once(tmp_path: Path) -> None:
    """However many runs issue it."""
    programs.write(tmp_path, WARNS)
    done = foretold(tmp_path, "explore", "bank:main", "--runs", "20", "--seed", "1")
    assert (done.code, done.err.count("FutureWarning: this will change")) == (0, 1)
