"""Libraries with C or Rust code in a run: they repeat with the tape, or they are loud.

Each program of native_programs.py runs in fresh processes, with three seeds. A library that is not
installed is a visible skip: the large ones are no part of the development environment.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import foretold
from foretold.world.extensions import escape_of
from tests.compat import native_programs

CHILD = Path(__file__).with_name("native_child.py")
PROCESSES = 2
LOUD_S_MAX = 5
DRAW = {"numpy", "bcrypt", "cryptography", "uuid_utils", "argon2", "nacl"}
"""Libraries whose programs ask for randomness: other seeds give other values."""


def start(folder: Path, names: list[str], hash_seed: int = 0) -> subprocess.Popen[str]:
    """A fresh process that runs these programs."""
    return subprocess.Popen(
        [sys.executable, str(CHILD), *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says in its last line."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2_000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of several processes says about all programs that repeat. Half of them have used
    the libraries before."""
    names = [program.__name__ for program in native_programs.ANSWERED]
    folder = tmp_path_factory.mktemp("answered")
    how = [["--warm"] * (number % 2) for number in range(PROCESSES)]
    begun = [start(folder, [*each, *names], number) for number, each in enumerate(how)]
    return [result_of(each) for each in begun]


@pytest.mark.parametrize("name", [program.__name__ for program in native_programs.ANSWERED])
def test_it_repeats_in_every_process(name: str, answered: list[dict[str, Any]]) -> None:
    """Clocks, sleeps and randomness of a library come from the tape: one digest for each seed."""
    if answered[0][name] == "missing":
        pytest.skip(f"{name.split('__')[0]} is not installed")
    digests = {tuple(result[name]["came"]) for result in answered}
    assert len(digests) == 1
    (digest,) = digests
    assert not [each for each in digest if ":" in each], "it failed"
    if name.split("__")[0] in DRAW:
        assert len(set(digest)) == len(digest)


@pytest.mark.parametrize("name", [program.__name__ for program in native_programs.LOUD])
def test_it_is_loud(name: str, tmp_path: Path) -> None:
    """What would leave the world fails the run at once, though the program swallows the error; in
    the first run of the process, and in later ones that find the library's threads there."""
    result = result_of(start(tmp_path, [name]))[name]
    if result == "missing":
        pytest.skip(f"{name.split('__')[0]} is not installed")
    assert all(each.startswith("EscapedWorld: ") for each in result["came"]), result
    assert result["took_s"] < LOUD_S_MAX
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [program.__name__ for program in native_programs.FATAL])
def test_it_says_why_before_the_process_ends(name: str, tmp_path: Path) -> None:
    """C code that waits for ever, and cannot be ended, does not keep the reason for itself."""
    pytest.importorskip(name.split("__")[0])
    began_s = time.monotonic()
    process = start(tmp_path, [name])
    _, err = process.communicate(timeout=300)
    assert process.returncode
    assert "work on threads of its own (pthread_create) by grpc/" in err
    assert "would leave the simulated world" in err
    assert time.monotonic() - began_s < 4 * LOUD_S_MAX  # with the import, on a busy machine


def test_ids_of_uuid_utils_keep_their_order() -> None:
    """In a run as outside: each id of version 7 is greater than those before, within a millisecond
    too, and none is made twice. A run does not go on from the ids of another."""
    uuid_utils = pytest.importorskip("uuid_utils")
    pytest.importorskip("uuid_utils.compat")

    def main() -> list[Any]:
        ids = [uuid_utils.uuid7() for _ in range(50)]
        time.sleep(1)
        return [*ids, uuid_utils.uuid7(), uuid_utils.compat.uuid7()]

    def others() -> list[Any]:
        return [make() for make in (uuid_utils.uuid1, uuid_utils.uuid6) for _ in range(20)]

    from_run = foretold.run(main).value
    numbers = [each.int for each in from_run]
    assert numbers == sorted(set(numbers))
    assert {each.version for each in from_run} == {7}
    assert foretold.run(main).value == from_run != foretold.run(main, seed=1).value
    made = foretold.run(others).value
    assert len(set(made)) == len(made)
    assert foretold.run(others).value == made


def test_every_version_of_uuid_utils_is_drawn_in_the_run() -> None:
    """Random parts come from the tape, what is given stays, and the version is what was asked."""
    uuid_utils = pytest.importorskip("uuid_utils")
    compat = pytest.importorskip("uuid_utils.compat")

    def main() -> list[Any]:
        return [
            make() for module in (uuid_utils, compat)
            for make in (module.uuid1, module.uuid4, module.uuid6, module.uuid7, module.uuid8)
        ] + [uuid_utils.uuid7(nanoseconds=10**18), uuid_utils.uuid8(1, 2, 3)]  # fmt: skip

    ids = foretold.run(main).value
    assert [each.version for each in ids] == [1, 4, 6, 7, 8] * 2 + [7, 8]
    assert len({each.int for each in ids}) == len(ids)
    assert str(ids[-2]).startswith("00e8d4a5-1000-7")
    assert str(ids[-1]) == str(uuid_utils.uuid8(1, 2, 3))
    assert foretold.run(main).value == ids
    others = foretold.run(main, seed=1).value
    assert all(one != other for one, other in zip(ids[:-1], others, strict=False))


def test_an_imported_library_that_is_not_used_draws_nothing() -> None:
    """What a run draws depends on the program, not on what else this process has imported."""
    names = ("uuid_utils", "numpy", "bcrypt", "cryptography.fernet", "argon2", "nacl.utils")
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    drawn = foretold.run(lambda: None, seed=1).tape.draws
    assert [name for name in drawn if name.startswith("entropy/")] == ["entropy/main"]


IMPORTED_BETWEEN = """
import foretold
import uuid_utils

def main():
    first = [uuid_utils.uuid7().int for _ in range(3)]
    import cryptography.fernet
    ids = [*first, *(uuid_utils.uuid7().int for _ in range(3))]
    assert ids == sorted(ids), "the counter began anew"

foretold.run(main, seed=SEED)
"""


def test_another_library_that_is_imported_between_two_ids() -> None:
    """It has nothing to do with them: their order is kept."""
    pytest.importorskip("uuid_utils")
    pytest.importorskip("cryptography")
    for seed in range(4):
        program = IMPORTED_BETWEEN.replace("SEED", str(seed))
        subprocess.run([sys.executable, "-c", program], check=True)


def test_threads_that_only_compute() -> None:
    """argon2 hashes with four threads by default, which have ended when the call returns: a login
    works as it stands. The hash is the same in each run of a tape, and no thread is left."""
    argon2 = pytest.importorskip("argon2")
    before = os.listdir("/proc/self/task")

    def main() -> str:
        hasher = argon2.PasswordHasher(time_cost=1, memory_cost=64)
        assert hasher.parallelism > 1
        made = hasher.hash("secret")
        assert hasher.verify(made, "secret")
        return str(made)

    made = foretold.run(main, seed=1).value
    assert foretold.run(main, seed=1).value == made
    assert foretold.run(main, seed=2).value != made  # another salt
    assert len(os.listdir("/proc/self/task")) <= len(before) + 1  # the watchdog's


REMEDIES = {
    "zstandard": (
        "zstandard.ZstdCompressor(threads=0)",
        "zstandard.ZstdCompressor({}).compress(bytes(10_000_000))",
        "threads=2",
        "threads=0",
    ),
    "scipy": (
        "scipy.fft.fft(x, workers=1)",
        "__import__('scipy.fft').fft.fft([[1.0] * 99] * 99, {})",
        "workers=2",
        "workers=1",
    ),
    "duckdb": (
        'config={"threads": 1, "async_threads": 0}',
        "duckdb.connect({}).execute('select 1').fetchall()",
        "config={'threads': 2}",
        "config={'threads': 1, 'async_threads': 0}",
    ),
}
"""By library: what the error proposes, a call, with arguments that start threads and without."""
REMEDY = """
import foretold
import LIBRARY

def shown(call):
    try:
        foretold.run(call)
        return "held"
    except foretold.EscapedWorld as error:
        return str(error).splitlines()[-1]

print(shown(lambda: LOUD))
print(shown(lambda: QUIET))
"""


@pytest.mark.parametrize("library", REMEDIES)
def test_what_the_error_proposes_helps(library: str) -> None:
    """A library that starts threads for a single call: the error names the setting without them."""
    pytest.importorskip(library)
    proposed, call, loud, quiet = REMEDIES[library]
    program = REMEDY.replace("LIBRARY", library).replace("LOUD", call.format(loud))
    program = program.replace("QUIET", call.format(quiet))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    first, second = done.stdout.splitlines()[-2:]
    assert first.startswith("Instead: ")
    assert proposed in first
    assert second == "held"


BLAS = """
import os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
import foretold

def main():
    square = np.ones((300, 300))
    return float((square @ square).sum())

foretold.explore(main, runs=1, isolation="fork", shrink=False).raise_failure()
"""


def test_numpy_multiplies_in_a_fork_without_threads() -> None:
    """OpenBLAS starts its threads again in every fork, where that would be in the run: the setting
    that the error proposes switches them off."""
    pytest.importorskip("numpy")
    subprocess.run([sys.executable, "-c", BLAS], check=True, timeout=120)
    said = str(escape_of("numpy.libs/libscipy_openblas64_.so", "pthread_create", 3))
    assert said.endswith('os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported')
