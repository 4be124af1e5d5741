"""A failure found yesterday is tried first today; one that is fixed is set aside, with a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import foretold
from foretold.search.failures.store import Store
from foretold.tape import Choice, Tape
from foretold.tape.file import TapeFile, load, save
from tests.pytest_plugin.programs import FIXED, holds, lost_update

pytest_plugins = ["pytester"]

RARE = """
import foretold

@foretold.simulate(runs=5000, confirm=False)
def test_rare():
    assert foretold.between(0, 999, "number") != 777
"""


def saved(pytester: pytest.Pytester) -> list[Path]:
    """Every failure that was kept."""
    return Store(pytester.path).all_saved()


def test_yesterdays_failure_is_tried_first(pytester: pytest.Pytester):
    """One run of another seed would never find it: it comes from the file, as the note says."""
    pytester.makepyfile(test_bank=RARE)
    pytester.runpytest("--foretold-seed=1").assert_outcomes(failed=1)
    (path,) = saved(pytester)
    content = path.read_bytes()
    result = pytester.runpytest("-v", "--foretold-seed=2", "--foretold-runs=1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*foretold replayed a saved failure (seed *; 1 chosen value)",
            "E*Replayed in this process: yes.",
            f"E*Replay it: foretold replay {path.relative_to(pytester.path)}",
            "foretold: 1 test simulated, 1 run, 1 failed",
            "*test_rare: 1 run, *",
        ]
    )
    assert saved(pytester) == [path]
    assert path.read_bytes() == content


def test_a_fixed_failure_is_set_aside_with_a_word(pytester: pytest.Pytester):
    """Said once, moved, and not tried again; after it the search goes on as usual."""
    pytester.makepyfile(test_bank=lost_update())
    pytester.runpytest().assert_outcomes(failed=1)
    pytester.makepyfile(test_bank=FIXED)
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  *: 21 runs*",
            "foretold: *holds on a saved failure now; moved to .foretold/fixed/*.tape",
        ]
    )
    assert saved(pytester) == []
    assert len(list((pytester.path / ".foretold" / "fixed").iterdir())) == 1
    pytester.runpytest("-v").stdout.no_fnmatch_line("*saved failure*")


def test_a_project_without_failures_gets_no_folder(pytester: pytest.Pytester):
    """With one, the folder ignores itself."""
    path = pytester.makepyfile(holds())
    pytester.runpytest().assert_outcomes(passed=1)
    assert not (pytester.path / ".foretold").exists()
    path.write_text(lost_update(), "utf-8")
    pytester.runpytest().assert_outcomes(failed=1)
    assert (pytester.path / ".foretold" / ".gitignore").read_text("utf-8").endswith("\n*\n")


def test_a_search_that_was_killed_is_finished(pytester: pytest.Pytester):
    """Saved before it was shrunk: the next time it is found by its seed, shrunk and saved again."""
    pytester.makepyfile(test_bank=RARE.replace("!= 777", "< 500"))
    number = next(n for n in range(99) if foretold.run(_number, seed=n).value >= 500)
    seeded = TapeFile(foretold.run(_number, seed=number).tape, target="test_bank.py::test_rare")
    path = Store(pytester.path).folder_of(seeded.target) / f"AssertionError-{number}.tape"
    save(path, seeded)
    assert load(path).tape.origin == "seeded"
    result = pytester.runpytest("--foretold-runs=1")
    result.stdout.fnmatch_lines(
        [f"E*found this in run 1 of * (seed {number}, *shrunk to 1 chosen*"]
    )
    assert saved(pytester) == [path]
    assert load(path).tape.origin != "seeded"
    assert load(path).tape.choices["workload"][0].value == 500


def test_shrinking_that_was_interrupted_goes_on(pytester: pytest.Pytester):
    """A tape that says it may not be the smallest: it is shrunk from there, and saved again."""
    pytester.makepyfile(test_bank=RARE.replace("!= 777", "< 500"))
    tape = Tape("derived", choices={"workload": [Choice(888, 1_000, "number")]})
    file = TapeFile(tape, target="test_bank.py::test_rare", unfinished=True)
    path = Store(pytester.path).folder_of(file.target) / "AssertionError-1.tape"
    save(path, file)
    pytester.runpytest("--foretold-runs=1").assert_outcomes(failed=1)
    assert saved(pytester) == [path]
    assert not load(path).unfinished
    assert load(path).tape.choices["workload"][0].value == 500


def _number() -> int:
    return foretold.between(0, 999, "number")


def test_a_file_that_cannot_be_read_is_left_out(pytester: pytest.Pytester):
    """Said at the end, with the reason; the search goes on, and the file stays for its owner."""
    pytester.makepyfile(test_bank=FIXED)
    folder = Store(pytester.path).folder_of("test_bank.py::test_no_money_is_lost")
    folder.mkdir(parents=True)
    (folder / "AssertionError-1.tape").write_text("scribbled", "utf-8")
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["foretold: a saved failure of * was left out: *not a foretold tape*"]
    )
    assert len(saved(pytester)) == 1


def test_what_another_python_recorded_is_not_set_aside(pytester: pytest.Pytester):
    """That it holds here proves nothing: the Python that recorded it may still fail."""
    pytester.makepyfile(test_bank=lost_update())
    pytester.runpytest().assert_outcomes(failed=1)
    (path,) = saved(pytester)
    save(path, replace(load(path), python="3.99.0"))
    pytester.makepyfile(test_bank=FIXED)
    pytester.runpytest().assert_outcomes(passed=1)
    assert saved(pytester) == [path]


def test_a_failure_that_cannot_be_kept_is_reported_all_the_same(pytester: pytest.Pytester):
    """Something stands where the folder should be: then the seed is what replays it."""
    (pytester.path / ".foretold").write_text("in the way", "utf-8")
    pytester.makepyfile(test_bank=lost_update())
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    command = "foretold replay test_bank.py::test_no_money_is_lost --seed *"
    result.stdout.fnmatch_lines(["E*assert 93 == 88", f"E*Replay it: {command}"])


def test_changed_code_is_told(pytester: pytest.Pytester):
    """It fails as before, in another run: said, so that nobody compares the two. Nobody has
    recorded the code, so that it has changed is no more than one of the two possible reasons."""
    pytester.makepyfile(test_bank=lost_update())
    pytester.runpytest().assert_outcomes(failed=1)
    more = lost_update().replace("    left = ", "    await asyncio.sleep(0)\n    left = ")
    pytester.makepyfile(test_bank=more)
    result = pytester.runpytest()
    said = "yes, but this is not the run that was recorded (the code is another one now, or *)."
    result.stdout.fnmatch_lines([f"E*Replayed in this process: {said}"])


CACHE = """
import asyncio
import foretold

cache = {}

@foretold.simulate(runs=50)
async def test_lost_update():
    if not cache:
        await asyncio.sleep(0)
        cache["x"] = 1
    account = {"total": 0}

    async def add():
        before = account["total"]
        await asyncio.sleep(0)
        account["total"] = before + 1

    await foretold.together(add(), add())
    assert account["total"] == 2
"""


def test_a_cache_that_the_first_run_fills_is_no_change(pytester: pytest.Pytester):
    """The run that is replayed is the recorded one: of a saved failure, and on demand."""
    pytester.makepyfile(test_cache=CACHE)
    pytester.runpytest().stdout.fnmatch_lines(["E*Replayed in a fresh process: yes."])
    again = pytester.runpytest()
    again.stdout.fnmatch_lines(["E*Replayed in this process: yes."])
    [tape] = pytester.path.glob(".foretold/failures/*/*.tape")
    pytester.runpytest("--foretold-replay", tape).stdout.fnmatch_lines(
        ["E*Replayed in this process: yes."]
    )


# --foretold-replay


@pytest.fixture
def tape(pytester: pytest.Pytester) -> Path:
    """A tape of the lost update, kept outside of `.foretold`, and two tests to choose from."""
    pytester.makepyfile(test_bank=lost_update(), test_other=holds())
    pytester.runpytest("-k", "money").assert_outcomes(failed=1)
    (path,) = saved(pytester)
    return path.rename(pytester.path / "bug.tape")


def test_replaying_a_tape(pytester: pytest.Pytester, tape: Path):
    """Just that run of just that test, whatever was selected besides; the file stays as it is."""
    before = tape.read_bytes()
    result = pytester.runpytest("-v", "--foretold-replay", tape.name)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["E*foretold replayed a saved failure *", "E*Replay it: foretold replay bug.tape"]
    )
    result.stdout.fnmatch_lines(["  *test_no_money_is_lost: 1 run, replayed bug.tape, failed"])
    assert tape.read_bytes() == before
    assert saved(pytester) == []


def test_replaying_on_a_test_that_holds(pytester: pytest.Pytester, tape: Path):
    """It passes, and says on which tape, even with -q."""
    pytester.makepyfile(test_bank=FIXED)
    result = pytester.runpytest("-q", "--foretold-replay", tape.name)
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["foretold: test_bank.py::test_no_money_is_lost holds on bug.tape"])


@pytest.mark.parametrize("how", ["tape", "seed"])
def test_replaying_what_is_expected_to_fail(pytester: pytest.Pytester, tape: Path, how: str):
    """pytest counts it as a success and shows nothing: what happened is said, and how to see it."""
    program = lost_update().replace("@foretold", "import pytest\n@pytest.mark.xfail\n@foretold", 1)
    pytester.makepyfile(test_bank=program)
    option = f"--foretold-replay={tape}" if how == "tape" else "--foretold-run-seed=7"
    result = pytester.runpytest("test_bank.py", option)
    result.assert_outcomes(xfailed=1)
    where = f" on {tape.relative_to(pytester.path)}" if how == "tape" else ""
    result.stdout.fnmatch_lines(
        [
            f"foretold: *::test_no_money_is_lost fails{where}, as its xfail mark says it would: "
            "*assert * == 88",
            "  pytest counts that as a success; with --runxfail it shows the story",
        ]
    )
    told = pytester.runpytest("test_bank.py", option, "--runxfail")
    told.assert_outcomes(failed=1)
    assert "xfail mark" not in told.stdout.str()


def test_replaying_on_a_renamed_test(pytester: pytest.Pytester, tape: Path):
    """A tape is worth more than a name: where one test is named, that is the one."""
    text = lost_update().replace("test_no_money_is_lost", "test_renamed")
    pytester.makepyfile(test_bank=text)
    pytester.runpytest("test_bank.py", "--foretold-replay", tape.name).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (holds(), "is not among the 2 simulated tests"),
        ("def test_no_money_is_lost(): pass", "is not decorated with @foretold.simulate any more"),
    ],
    ids=["gone", "plain"],
)
def test_replaying_on_no_test(pytester: pytest.Pytester, tape: Path, program: str, said: str):
    """A usage error that says which test was meant and how to name another."""
    pytester.makepyfile(test_bank=program)
    result = pytester.runpytest("--foretold-replay", tape.name)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --foretold-replay: *{said}*"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "*the tape cannot be read*"),
        ("foretold tape 99\n", "*written by a newer foretold*"),
        ("x", "*not a foretold tape*"),
    ],
)
def test_replaying_what_is_no_tape(pytester: pytest.Pytester, content: str | None, said: str):
    """Missing, newer, foreign: a usage error at once, not a failed test."""
    pytester.makepyfile(holds())
    if content is not None:
        (pytester.path / "bug.tape").write_text(content, "utf-8")
    result = pytester.runpytest("--foretold-replay=bug.tape")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --foretold-replay: {said}"])
