"""`foretold explore` ends with code 4 if what it tests never came to pass."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cli.command import foretold

PROGRAM = '''\
"""A machine whose only interesting rule is always refused."""

import foretold


class Shop(foretold.Machine):
    steps = 5

    @foretold.rule()
    def look(self): ...

    @foretold.rule()
    def buy(self):
        raise foretold.Refused("sold out")


TestShop = Shop.TestCase
'''


def test_exit_code_4(tmp_path: Path) -> None:
    """With a table and a remedy; as data; and not with --vacuity warn, or with too few runs."""
    (tmp_path / "test_shop.py").write_text(PROGRAM, "utf-8")
    search = ("explore", "test_shop.py:Shop", "--seed", "1", "--runs", "100")
    done = foretold(tmp_path, *search)
    assert done.code == 4
    assert "- rule buy never succeeded: the application refused it" in done.out
    data = json.loads(foretold(tmp_path, *search, "--json").out)
    assert (data["verdict"], data["exit_code"]) == ("vacuous", 4)
    warned = foretold(tmp_path, *search, "--vacuity", "warn")
    assert warned.code == 0
    assert "rule buy never succeeded" in warned.out
    assert foretold(tmp_path, *search[:-1], "99").code == 0


def test_exit_code_4_of_a_test(tmp_path: Path) -> None:
    """A test that pytest runs ends with the same code."""
    (tmp_path / "test_shop.py").write_text(PROGRAM, "utf-8")
    done = foretold(tmp_path, "explore", "test_shop.py::TestShop", "--seed", "1")
    assert done.code == 4
    assert "rule buy never succeeded" in done.out


MUTANTS = '''\
"""A program with two bugs that can be planted."""

import foretold


def main():
    number = foretold.between(0, 9)
    if foretold.mutant("off by one"):
        number += 1
    foretold.mutant("harmless")
    assert number < 10
'''


def test_plant(tmp_path: Path) -> None:
    """Each mutant with its verdict, the score, and exit code 1 if one survives; tests of pytest
    are not searched in this way."""
    (tmp_path / "bank.py").write_text(MUTANTS, "utf-8")
    done = foretold(tmp_path, "explore", "bank:main", "--plant", "--seed", "1", "--runs", "100")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["harmless", "SURVIVED", "100"]
    assert lines[1].split()[:4] == ["off", "by", "one", "caught"]
    assert lines[2] == "1 of 2 mutants of bank:main caught: a mutation score of 50%"
    assert foretold(tmp_path, "explore", "bank.py::test_x", "--plant").code == 2
    (tmp_path / "bank.py").write_text(MUTANTS.replace("harmless", "off by one"), "utf-8")
    assert foretold(tmp_path, "explore", "bank:main", "--plant", "--runs", "100").code == 0


def test_one_mutant_is_told_as_any_failure(tmp_path: Path) -> None:
    """`--mutant` without `--plant`: a story, and a command that fails again. The tape is no saved
    failure: a search without the mutant, and `replay --all`, do not know it."""
    (tmp_path / "bank.py").write_text(MUTANTS, "utf-8")
    one = ("--mutant", "off by one", "--seed", "1", "--runs", "100")
    done = foretold(tmp_path, "explore", "bank:main", *one)
    assert done.code == 1, done
    assert ", with the mutant 'off by one' on); shrunk to" in done.out
    command, _, tape = done.out.splitlines()[-1].removeprefix("Replay it: foretold ").partition(" ")
    assert tape.startswith(".foretold/mutants/main-off-by-one-")
    again = foretold(tmp_path, command, tape)
    assert (again.code, "AssertionError" in again.out) == (1, True), again
    held = foretold(tmp_path, "explore", "bank:main", "--seed", "1", "--runs", "100")
    assert (held.code, "FAILS" in held.err) == (0, False), held
    assert foretold(tmp_path, "replay", "--all").code == 0


def test_the_seed_of_a_run_with_a_mutant(tmp_path: Path) -> None:
    """Where no tape can be kept, the command names the mutant besides the seed."""
    (tmp_path / "bank.py").write_text(MUTANTS, "utf-8")
    (tmp_path / ".foretold").write_text("no folder", "utf-8")
    one = ("--mutant", "off by one", "--seed", "1", "--runs", "100", "--no-shrink")
    done = foretold(tmp_path, "explore", "bank:main", *one)
    arguments = shlex.split(done.out.splitlines()[-1].removeprefix("Replay it: foretold "))
    assert arguments[-2:] == ["--mutant", "off by one"], done
    assert foretold(tmp_path, *arguments).code == 1
    assert foretold(tmp_path, *arguments[:-2]).code == 0


def test_a_mutant_that_nobody_notices(tmp_path: Path) -> None:
    """It is said that it was on; a name that no run has passed, and two names, are mistakes."""
    (tmp_path / "bank.py").write_text(MUTANTS, "utf-8")
    held = foretold(tmp_path, "explore", "bank:main", "--mutant", "harmless", "--runs", "20")
    assert held.code == 0, held
    assert "the mutant 'harmless' was on, and passed in 20 runs: nobody noticed it" in held.out
    no_such = foretold(tmp_path, "explore", "bank:main", "--mutant", "armless", "--runs", "20")
    assert no_such.code == 2
    assert "'armless' (20 runs); those passed were: harmless, off by one" in no_such.err
    both = ("--mutant", "harmless", "--mutant", "off by one")
    two = foretold(tmp_path, "explore", "bank:main", *both)
    assert (two.code, "give --mutant once" in two.err) == (2, True), two
