"""numpy's generators: repeatable in a run, untouched by it. Skipped where there is no numpy."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.kernel import owners
from foretold.kernel.libraries import numpy
from foretold.kernel.patches import patches

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
    assert key in numpy._known
    del mine
    gc.collect()
    foretold.run(lambda: None)
    assert key not in numpy._known


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


LAZY = '''\
"""numpy.random is imported by whoever first asks for it, in a run; so is a module with engines."""

import sys

import foretold
import numpy as np


def main():
    mine = np.random.default_rng()
    import lazy_engines

    drawn = (mine, lazy_engines.unseeded, lazy_engines.seeded, np.random)
    return [float(each.random()) for each in drawn]


if "early" in sys.argv:
    import lazy_engines
print([foretold.run(main, seed=seed).value for seed in map(int, sys.argv[1].split(","))])
'''
ENGINES = (
    "import numpy as np\nunseeded, seeded = np.random.default_rng(), np.random.default_rng(7)\n"
)


def test_an_import_inside_a_run_makes_no_difference(tmp_path: Path) -> None:
    """The first run in a process draws what the others draw with its seed, and what it draws where
    everything was imported before."""
    (tmp_path / "lazy_engines.py").write_text(ENGINES)
    (tmp_path / "lazy.py").write_text(LAZY)
    path = {"PYTHONPATH": ":".join(sys.path)}

    def drawn(*arguments: str) -> Any:
        command = [sys.executable, "lazy.py", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=path, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    one, two = drawn("1,2")
    assert drawn("2,1,2") == [two, one, two]
    assert drawn("1,2", "early") == [one, two]
    assert [left == right for left, right in zip(one, two, strict=True)] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["global", "default_rng()"])
def test_to_draw_is_to_choose(name: str) -> None:
    """A program whose only draws are numpy's is another one on each tape: a search goes on."""
    assert foretold.run(lambda: None).choices == 0
    assert foretold.run(lambda: float(DRAWS[name]())).choices == 1
    assert foretold.explore(lambda: float(DRAWS[name]()), runs=5).runs == 5


def test_what_was_there_is_looked_for_after_an_odd_beginning() -> None:
    """Somebody may have installed the patches without a look at the heap: the next run looks."""
    with patches.installed():
        pass
    engine = np.random.default_rng()
    gc.collect()
    with patches.installed():
        pass
    assert draws_in(engine.random) == draws_in(engine.random)


THREADS = """
import threading
import foretold


def main(modules):
    def work():
        for module in modules:
            __import__(module)
        with lock:
            pass

    lock = threading.Lock()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def digests(*modules):
    return [foretold.run(lambda: main(modules), seed=seed).digest for seed in range(5)]


without = digests()
assert digests("numpy.random") == without, "numpy was imported in the first of these runs"
assert digests() == without, "numpy is there"
"""


def test_numpy_takes_no_part_in_the_order_of_threads() -> None:
    """Its generators have locks. That we look at them is no step of any thread, so that a process
    with numpy makes the same runs as one without."""
    subprocess.run([sys.executable, "-c", THREADS], check=True)


FIRST_IMPORT = """
import foretold

def main():
    import numpy as np
    return np.random.random()

values = [foretold.run(main).value for _ in range(2)]
import numpy as np
print(values[0] == values[1], np.random.random())
"""


def test_the_global_one_is_the_machines_again_after_a_run_that_has_imported_numpy() -> None:
    """Two processes draw the same in their runs, and not the same afterwards."""
    command = [sys.executable, "-c", FIRST_IMPORT]
    said = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
    same, after = zip(*(each.stdout.split() for each in said), strict=True)
    assert same == ("True", "True")
    assert after[0] != after[1]
