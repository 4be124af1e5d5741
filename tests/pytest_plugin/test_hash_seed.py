"""A pinned seed repeats under pytest whatever hashes Python would give to strings.

A set of strings iterates in the order of their hashes, so each process here is started with other
ones. The plugin executes pytest again with hash seed 0, where pytest is all that the process does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import _foretold_pytest as shell
from foretold import platforms
from foretold.pytest_support import trial
from foretold.tape.file import load

pytest_plugins = ["pytester"]

# What the failing run has seen, and with it the digest, depends on the order of the set.
PROGRAM = """
import asyncio, os, sys
import foretold

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]

@foretold.simulate(runs=10, confirm=False)
async def test_order():
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
    foretold.always(False, "the order", seen=" ".join(set(NAMES)))

def test_environment():
    assert not sys.flags.hash_randomization
    assert os.environ["PYTHONHASHSEED"] == os.environ["GIVEN"]
    assert not [name for name in os.environ if name.startswith("FORETOLD_")]

@foretold.simulate(runs=2)
def test_environment_in_a_run():
    assert os.environ["PYTHONHASHSEED"] == os.environ["GIVEN"]
"""
PLAIN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:asyncio")


def python(folder: Path, hash_seed: str, *arguments: str) -> str:
    """What a Python process with this hash seed prints."""
    inherited = {name: each for name, each in os.environ.items() if "FORETOLD" not in name}
    environment = {**inherited, "PYTHONHASHSEED": hash_seed, "GIVEN": hash_seed}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def pinned(tmp_path: Path, hash_seed: str, *arguments: str) -> tuple[str, str]:
    """What the program above saw with a pinned seed, and the digest of that run."""
    folder = tmp_path / hash_seed
    folder.mkdir()
    (folder / "test_h.py").write_text(PROGRAM, "utf-8")
    said = python(folder, hash_seed, *arguments, *PLAIN, "--foretold-seed=5", "test_h.py")
    assert "1 failed, 2 passed" in said, said
    (tape,) = folder.rglob("*.tape")
    (order,) = [line for line in said.splitlines() if "seen = " in line]
    return order, str(load(tape).digest)


def test_five_hash_seeds_give_one_run(tmp_path: Path):
    """By `-m pytest`, by its script, by coverage, with two workers: one verdict, one digest."""
    script = tmp_path / "pytest"
    script.write_text("import sys, pytest\nsys.exit(pytest.main())\n", "utf-8")
    seen = {
        pinned(tmp_path, "1", "-m", "pytest"),
        pinned(tmp_path, "2", "-W", "default", "-m", "pytest"),
        pinned(tmp_path, "3", str(script)),
        pinned(tmp_path, "4", "-m", "coverage", "run", "-m", "pytest"),
        pinned(tmp_path, "random", "-m", "pytest", "-n", "2"),
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    "arguments",
    [("-E", "-m", "pytest"), ("-R", "-m", "pytest"), ("-c", "import pytest; pytest.main()")],
    ids=["environment ignored", "hashes by chance wanted", "called by a program"],
)
def test_where_it_cannot_begin_again_it_says_so(tmp_path: Path, arguments: tuple[str, ...]):
    """It ends (no execution goes on for ever), and says which variable would help."""
    (tmp_path / "test_h.py").write_text(PROGRAM, "utf-8")
    hash_seed = "0" if "-R" in arguments else "7"
    said = python(tmp_path, hash_seed, *arguments, *PLAIN, "test_h.py")
    assert "2 tests simulated" in said, said
    assert "Start it with PYTHONHASHSEED=0." in said


def test_both_restore_the_same_variable():
    """The plugin's shell imports nothing of foretold, so that the names stand in two places."""
    assert (shell._HASH_SEED, shell._HASH_SEED_WAS) == (
        platforms.HASH_SEED,
        platforms.HASH_SEED_WAS,
    )


@pytest.mark.parametrize("given", ["", "7"])
def test_a_variable_is_put_back_as_it_was(given: str, monkeypatch: pytest.MonkeyPatch):
    """Also if a process that was pinned starts another one before it has put it back."""
    monkeypatch.setattr(os, "environ", {"PYTHONHASHSEED": given} if given else {})
    before = dict(os.environ)
    for pinned_environment in (platforms.environment_with("0"), platforms.environment_with("3")):
        os.environ.update(pinned_environment)
    assert os.environ["PYTHONHASHSEED"] == "3"
    platforms.restore_environment()
    assert os.environ == before
    platforms.restore_environment()
    assert os.environ == before


def test_a_failure_is_not_filed_as_fixed_by_chance(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """Where hashes are by chance, a saved failure that holds is tried with hash seed 0 first."""
    pytester.makepyfile(
        test_h="""
        import os, asyncio
        import foretold

        @foretold.simulate(runs=5)
        async def test_it():
            await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
            assert not os.path.exists(__file__ + ".fail") and not os.environ.get("FORETOLD_OBSERVE")
        """
    )
    fail = pytester.path / "test_h.py.fail"
    fail.touch()
    pytester.runpytest("--foretold-seed=5").assert_outcomes(failed=1)
    fail.unlink()
    by_chance = SimpleNamespace(hash_randomization=1)
    monkeypatch.setattr(trial, "sys", SimpleNamespace(flags=by_chance, modules=sys.modules))
    result = pytester.runpytest("--foretold-seed=5")
    result.stdout.fnmatch_lines(
        ["*it holds here on *.tape, a saved failure, but not in a process*"]
    )
    result.stdout.no_fnmatch_line("*moved to*")
    assert list(pytester.path.rglob("failures/**/*.tape"))


def test_not_from_a_program_that_calls_pytest():
    """Here a test is among the callers, as with pytester, and stands for any program."""
    assert not shell._is_started_for_pytest()
    assert not shell._may_begin_again()


def test_not_under_a_debugger(monkeypatch: pytest.MonkeyPatch):
    """By what it has loaded, or by its trace function; coverage's own is no debugger."""
    former = sys.gettrace()
    try:
        sys.settrace(None)
        assert not shell._is_debugged()
        sys.settrace(lambda *_: None)
        assert shell._is_debugged()
    finally:
        sys.settrace(former)
    monkeypatch.setitem(sys.modules, "pydevd", sys)
    assert shell._is_debugged()
