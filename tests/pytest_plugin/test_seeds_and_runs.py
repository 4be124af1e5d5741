"""Where a test's seed and its number of runs come from, and who is asked first."""

from __future__ import annotations

import re

import pytest

from foretold.pytest_support.seeds import seed_for
from tests.pytest_plugin.programs import holds

pytest_plugins = ["pytester"]


def told(result: pytest.RunResult) -> tuple[int, int]:
    """Runs and seed of the one test, as `-v` shows them."""
    found = re.search(r"::test_holds: (\d+) runs?, seed (\d+)", result.stdout.str())
    assert found, result.stdout.str()
    return int(found[1]), int(found[2])


def test_a_fresh_seed_is_in_the_header_and_pins_the_same_runs(pytester: pytest.Pytester):
    """Two invocations differ; the number in the header repeats one of them exactly."""
    pytester.makepyfile(holds())
    first, second = pytester.runpytest("-v"), pytester.runpytest("-v")
    header = re.search(r"foretold: seed (\d+) \(pin it with (.+)\)", first.stdout.str())
    assert header
    assert header[2] == f"--foretold-seed={header[1]}"
    assert told(first) != told(second)
    assert told(pytester.runpytest("-v", header[2])) == told(first)


def test_seeds_of_tests_follow_from_the_id_alone(pytester: pytest.Pytester):
    """BLAKE2b of `SEED:ID`, as documented: the same in a log of years ago, whatever else is run."""
    path = pytester.makepyfile(holds())
    expected = seed_for(7, f"{path.name}::test_holds")
    assert told(pytester.runpytest("-v", "--foretold-seed=7")) == (100, expected)
    assert told(pytester.runpytest("-v", "--foretold-seed=0x7", "-k", "holds"))[1] == expected
    assert seed_for(7, "tests/test_bank.py::test_transfer") == 1395848369


def test_who_decides_the_seed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Command line before environment before ini-file before decorator; each named as the source.

    The decorator's number is the test's own seed; the others stand for a whole invocation.
    """
    path = pytester.makepyfile(holds("(seed=40)"))
    test = f"{path.name}::test_holds"
    assert told(pytester.runpytest("-v"))[1] == 40
    pytester.makeini("[pytest]\nforetold_seed = 30\n")
    by_ini = pytester.runpytest("-v")
    monkeypatch.setenv("FORETOLD_SEED", "20")
    by_environment = pytester.runpytest("-v")
    by_option = pytester.runpytest("-v", "--foretold-seed=10")
    for result, seed, source in (
        (by_ini, 30, "foretold_seed"),
        (by_environment, 20, "FORETOLD_SEED"),
        (by_option, 10, "--foretold-seed"),
    ):
        assert told(result)[1] == seed_for(seed, test)
        result.stdout.fnmatch_lines([f"foretold: seed {seed} (from {source})"])


def test_who_decides_the_number_of_runs(pytester: pytest.Pytester):
    """Command line before ini-file before decorator before 100."""
    pytester.makepyfile(holds())
    assert told(pytester.runpytest("-v"))[0] == 100
    pytester.makepyfile(holds("(runs=40)"))
    assert told(pytester.runpytest("-v"))[0] == 40
    pytester.makeini("[pytest]\nforetold_runs = 30\n")
    assert told(pytester.runpytest("-v"))[0] == 30
    assert told(pytester.runpytest("-v", "--foretold-runs=10"))[0] == 10


def test_one_run_by_its_seed(pytester: pytest.Pytester):
    """What `foretold replay TEST --seed N` asks of pytest: just that run, with just that seed."""
    pytester.makepyfile(holds("(runs=40, seed=2)"))
    result = pytester.runpytest("-v", "--foretold-run-seed=77", "--foretold-seed=1")
    assert told(result) == (1, 77)


@pytest.mark.parametrize(
    ("arguments", "ini", "said"),
    [
        (["--foretold-seed=abc"], "", "--foretold-seed=abc: expected a whole number"),
        (["--foretold-seed=1.5"], "", "--foretold-seed=1.5: expected a whole number"),
        (["--foretold-runs=many"], "", "--foretold-runs=many: expected a whole number"),
        (["--foretold-runs=0"], "", "--foretold-runs=0: a test needs 1 run at least"),
        (["--foretold-run-seed=x"], "", "--foretold-run-seed=x: expected a whole number"),
        ([], "foretold_seed = later", "foretold_seed=later: expected a whole number"),
        ([], "foretold_runs = -1", "foretold_runs=-1: a test needs 1 run at least"),
    ],
)
def test_numbers_that_are_none(
    pytester: pytest.Pytester, arguments: list[str], ini: str, said: str
):
    """A clear usage error that names the source, before anything is collected."""
    pytester.makepyfile(holds())
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}*"])


def test_a_variable_that_is_no_number(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """The same for the environment; an empty variable counts as none."""
    pytester.makepyfile(holds())
    monkeypatch.setenv("FORETOLD_SEED", "seven")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: FORETOLD_SEED=seven: expected a whole number*"])
    monkeypatch.setenv("FORETOLD_SEED", "")
    pytester.runpytest().assert_outcomes(passed=1)
