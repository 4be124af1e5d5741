"""`foretold replay` runs a tape or a seed again, exactly; `foretold show` tells its story."""

from __future__ import annotations

import re
from pathlib import Path
from platform import python_version

import pytest

from foretold._version import VERSION
from foretold.tape import TapeFile
from foretold.tape.file import load, save
from tests.cli.command import Done, foretold
from tests.report import programs
from tests.report.stored import assert_as_stored


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and the tape of its failure, for tests that change neither."""
    return with_failure(tmp_path_factory.mktemp("found"))


def with_failure(folder: Path) -> Path:
    """Put a program into a folder, and search for the tape of its failure."""
    programs.write(folder, programs.BANK)
    assert foretold(folder, "explore", "bank:main", "--seed", "1").code == 1
    [tape] = folder.glob(".foretold/failures/*/*.tape")
    tape.rename(folder / "found.tape")
    return folder


def anywhere(done: Done) -> str:
    """An output without the versions in it, which differ by their nature."""
    return str(done).replace(python_version(), "PYTHON").replace(VERSION, "VERSION")


def change_header(tape: Path, **changes: object) -> None:
    """Write a tape again, with other circumstances."""
    file = load(tape)
    fields = {name: getattr(file, name) for name in TapeFile.__dataclass_fields__}
    save(tape, TapeFile(**{**fields, **changes}))


def test_a_failure_is_seen_again(found: Path) -> None:
    """The tape knows its target: one argument is enough. Exit code 1, as when it was found."""
    done = foretold(found, "replay", "found.tape")
    assert_as_stored("cli-replay-again", str(done))


@pytest.mark.parametrize("program", [programs.BANK, programs.LATE])
def test_it_tells_what_the_search_told(tmp_path: Path, program: str) -> None:
    """Two steps or a length of time decide it: that was established by other runs than the one on
    the tape. The replay says the same, word for word, from the first line to the last step."""
    programs.write(tmp_path, program)
    search = foretold(tmp_path, "explore", "bank:main", "--seed", "1")
    tape = next(tmp_path.glob(".foretold/failures/*/*.tape"))
    told, _, _ = search.out.partition("\nforetold found this in")
    replay = foretold(tmp_path, "replay", str(tape))
    assert " decide" in told
    assert replay.out.startswith(f"{told}\n\n"), str(replay)


def test_of_another_run_it_does_not_say_what_decides(tmp_path: Path) -> None:
    """The program was changed and fails as before: nobody knows whether the same two steps decide
    it."""
    folder = with_failure(tmp_path)
    assert "These two steps decide it" in foretold(folder, "replay", "found.tape").out
    more = programs.BANK.replace("    account = {", "    await asyncio.sleep(0)\n    account = {")
    programs.write(folder, more)
    done = foretold(folder, "replay", "found.tape")
    assert "What broke: AssertionError: only 5 of 12 (bank.py:22)" in done.out
    assert "decide it" not in done.out


def test_a_failure_that_is_gone(tmp_path: Path) -> None:
    """The bug was mended: exit code 0, and a warning that the run is another one now."""
    folder = with_failure(tmp_path)
    programs.write(
        folder, programs.BANK.replace("    await asyncio.sleep(0)\n    account", "    account")
    )
    assert_as_stored("cli-replay-gone", str(foretold(folder, "replay", "found.tape")))


def test_a_failure_that_became_another(tmp_path: Path) -> None:
    """It still fails, but elsewhere: said, because it may be another bug."""
    folder = with_failure(tmp_path)
    mended = programs.BANK.replace('account["balance"] = balance', 'account["sum"] = balance')
    programs.write(folder, mended.replace("def main():", "def main():\n    {}['key']"))
    done = foretold(folder, "replay", "found.tape")
    assert done.code == 1
    assert done.out.splitlines()[-1].startswith("It fails differently. Recorded was AssertionError")


def test_another_environment_is_told_first(tmp_path: Path) -> None:
    """Another Python may take other steps."""
    folder = with_failure(tmp_path)
    change_header(folder / "found.tape", python="3.9.1")
    done = foretold(folder, "replay", "found.tape")
    assert done.code == 1
    assert re.fullmatch(
        r"note: recorded on Python 3\.9\.1, this is [\d.]+\. The run may differ\.\n", done.err
    )


def test_a_seed_is_the_run_that_the_search_made(found: Path) -> None:
    """`replay TARGET --seed N` fails as the search did with that seed, given what that had learned:
    it is said here, because the tape has been moved. In another order it need not fail."""
    tape = load(found / "found.tape").tape
    seed, profile = tape.seed, str(tape.settings["profile"])
    done = foretold(found, "replay", "bank:main", "--seed", str(seed), "--profile", profile)
    assert done.code == 1
    assert_as_stored("cli-replay-seed", str(done))
    calm = foretold(found, "replay", "bank:main", "--seed", str(seed), "--order", "asyncio")
    assert_as_stored("cli-replay-seed-held", str(calm))


def test_what_the_program_prints_is_shown(tmp_path: Path) -> None:
    """A replay is where one adds a print."""
    programs.write(
        tmp_path,
        programs.FINE.replace("    await foretold", "    print('here')\n    await foretold"),
    )
    done = foretold(tmp_path, "replay", "bank:main", "--seed", "1")
    assert (done.code, done.out.splitlines()[0]) == (0, "here")


def test_a_tape_of_a_pytest_test(tmp_path: Path) -> None:
    """It is replayed by pytest, also from a folder below the project; show tells what it can."""
    programs.write(tmp_path, programs.BANK)
    text = '"""Tests."""\n\nimport bank\nimport foretold\n\n\n@foretold.simulate\n'
    programs.write(
        tmp_path, text + "async def test_bank():\n    await bank.main()\n", "test_bank.py"
    )
    programs.write(tmp_path, "[pytest]\npythonpath = .\n", "pytest.ini")
    search = foretold(tmp_path, "explore", "test_bank.py::test_bank", "--seed", "1")
    tape = str(next(tmp_path.glob(".foretold/failures/*/*.tape")).relative_to(tmp_path))
    assert search.code == 1
    again = foretold(tmp_path, "replay", tape)
    assert (again.code, "AssertionError: only " in again.out) == (1, True)
    (tmp_path / "below").mkdir()
    below = foretold(tmp_path / "below", "replay", f"../{tape}")
    assert (below.code, "AssertionError: only " in below.out) == (1, True), str(below)
    shown = foretold(tmp_path, "show", tape)
    assert re.search(r"\n  \w+ (is held before its \w+ step,|does not start) until ", shown.out)
    seed = str(load(tmp_path / tape).tape.seed)
    assert foretold(tmp_path, "replay", "test_bank.py::test_bank", "--seed", seed).code == 1


# Show


def test_the_story_of_a_tape(found: Path) -> None:
    """Header and story, by running it once more. Exit code 0: nothing is judged."""
    assert_as_stored("cli-show", anywhere(foretold(found, "show", "found.tape")))


def test_a_tape_whose_target_is_missing(found: Path, tmp_path: Path) -> None:
    """On another machine, without the program: header and schedule in words."""
    (tmp_path / "found.tape").write_bytes((found / "found.tape").read_bytes())
    done = foretold(tmp_path, "show", "found.tape")
    assert_as_stored("cli-show-without-target", anywhere(done).replace(str(found), "FOLDER"))


def test_a_tape_that_no_longer_fails(tmp_path: Path) -> None:
    """show does not pretend: there is no story of a failure that is gone."""
    folder = with_failure(tmp_path)
    programs.write(folder, programs.BANK.replace("== 12", "> 0"))
    done = foretold(folder, "show", "found.tape")
    assert done.code == 0
    assert "The failure is gone: the run holds." in done.out
