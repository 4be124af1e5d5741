"""Real code cannot tell the simulated disk from a real one: one suite of programs on both arms.

Whatever differs is a bug of the simulated arm; the real one is Linux.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import foretold
from tests.fidelity.files import PROGRAMS

Program = Callable[[], Any]
SEEDS = range(3)


def on_the_real_arm(program: Program, folder: pathlib.Path) -> Any:
    """In an empty directory of the real disk."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        return program()
    finally:
        os.chdir(before)


def on_the_simulated_arm(program: Program, seed: int) -> foretold.Run:
    """In an empty directory of a simulated one."""

    def main() -> Any:
        os.mkdir("/var/lib/program")
        os.chdir("/var/lib/program")
        return program()

    return foretold.run(main, seed=seed)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_both_arms_see_the_same(program: Program, tmp_path: pathlib.Path) -> None:
    """The real disk's observations equal those of every seed, and each seed has one digest."""
    real = on_the_real_arm(program, tmp_path)
    assert real is not None, "a program that reports nothing compares nothing"
    for seed in SEEDS:
        simulated = on_the_simulated_arm(program, seed)
        assert simulated.value == real, f"seed {seed}"
        assert on_the_simulated_arm(program, seed).digest == simulated.digest


def test_a_difference_would_be_seen(tmp_path: pathlib.Path) -> None:
    """The comparison itself can fail: a program that reports where it is gives two answers."""
    assert on_the_real_arm(os.getcwd, tmp_path) != on_the_simulated_arm(os.getcwd, 0).value


def test_nothing_of_it_reaches_the_real_disk(tmp_path: pathlib.Path) -> None:
    """All programs, in a directory that exists on both disks: the real one stays empty."""
    for program in PROGRAMS:

        def main(program: Program = program) -> None:
            os.mkdir(tmp_path / "inside")
            os.chdir(tmp_path / "inside")
            program()

        foretold.run(main)
    assert list(tmp_path.iterdir()) == []
