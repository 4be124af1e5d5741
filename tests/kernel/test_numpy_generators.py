"""numpy's generators: repeatable in a run, untouched by it. Skipped where there is no numpy."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel import numpy_generators, owners

np = pytest.importorskip("numpy")

unseeded = np.random.default_rng()
other = np.random.Generator(np.random.SFC64())
legacy = np.random.RandomState()
seeded = np.random.default_rng(5)

DRAWS: dict[str, Callable[[], Any]] = {
    "global": lambda: np.random.random(),
    "global, gaussian": lambda: np.random.standard_normal(),
    "default_rng()": lambda: unseeded.random(),
    "SFC64": lambda: other.random(),
    "RandomState()": lambda: legacy.random_sample(),
    "made in the run": lambda: np.random.default_rng().random(),
}


def draws_in(draw: Callable[[], Any], seed: int = 0) -> list[float]:
    """What a run with this seed draws."""
    drawn: list[float] = foretold.run(lambda: [float(draw()) for _ in range(3)], seed=seed).value
    return drawn


@pytest.mark.parametrize("name", DRAWS)
def test_they_follow_the_tape(name: str) -> None:
    """Equal seeds, equal draws, whatever was drawn outside meanwhile; other seeds, others."""
    first = draws_in(DRAWS[name])
    DRAWS[name]()
    assert draws_in(DRAWS[name]) == first
    assert draws_in(DRAWS[name], seed=1) != first


def test_a_given_seed_is_kept() -> None:
    """In each run from where it stands, and afterwards as well."""
    expected = np.random.default_rng(5)
    following = [expected.random() for _ in range(3)]
    assert draws_in(seeded.random) == draws_in(seeded.random, seed=1) == following
    assert seeded.random() == following[0]


def test_a_run_leaves_no_trace() -> None:
    """The states of all are what they were."""

    def states() -> list[str]:
        engines = (unseeded.bit_generator, other.bit_generator, seeded.bit_generator)
        return [repr(np.random.get_state()), *(repr(engine.state) for engine in engines)]

    before = states()
    foretold.run(lambda: [draw() for draw in DRAWS.values()])
    assert states() == before


def test_nobody_is_held_for_long() -> None:
    """An engine that only we hold is let go."""
    mine = np.random.default_rng()
    foretold.run(lambda: None)
    key = id(mine.bit_generator)
    assert key in numpy_generators._known
    del mine
    gc.collect()
    foretold.run(lambda: None)
    assert key not in numpy_generators._known


def test_fresh_processes_agree() -> None:
    """Under the name of its owner each is seeded alike, wherever it lies."""
    program = (
        "from tests.kernel import test_numpy_generators as t\n"
        "print([t.draws_in(draw) for draw in t.DRAWS.values()])"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program]
    path = {"PYTHONPATH": ":".join([str(root), *sys.path])}
    seen = {
        subprocess.run(
            command, cwd=root, env=path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(seen) == 1
    assert owners.names_of([unseeded.bit_generator]) == [
        f"{__name__}[unseeded](numpy.random._generator.Generator)"
    ]
