"""`foretold explain` says why a tape fails; `foretold shrink` goes on where a search stopped."""

from __future__ import annotations

from pathlib import Path

from foretold.tape.file import load
from tests.cli.command import foretold
from tests.cli.test_replay import change_header, with_failure
from tests.report import programs
from tests.report.stored import assert_as_stored


def test_why_a_run_fails(tmp_path: Path) -> None:
    """The story, the two steps that decide it, the chart and the event at its jump; and last the
    command that replays it."""
    done = foretold(with_failure(tmp_path), "explain", "found.tape")
    assert_as_stored("cli-explain", str(done))


def test_a_failure_that_is_gone_is_not_explained(tmp_path: Path) -> None:
    """The bug was mended: that is all there is to say."""
    folder = with_failure(tmp_path)
    programs.write(folder, programs.BANK.replace("== 12", "> 0"))
    done = foretold(folder, "explain", "found.tape")
    assert done.code == 0
    assert done.out.startswith("The failure is gone: the run holds.")


def test_a_test_of_pytest_is_explained_by_pytest(tmp_path: Path) -> None:
    """It alone knows the fixtures; the chart is part of its report."""
    programs.write(tmp_path, programs.BANK)
    (tmp_path / "test_bank.py").write_text(
        "import bank\nimport foretold\n\n\n@foretold.simulate(runs=200)\n"
        "async def test_bank():\n    await bank.main()\n"
    )
    assert foretold(tmp_path, "explore", "test_bank.py::test_bank", "--seed", "1").code == 1
    [tape] = tmp_path.glob(".foretold/failures/*/*.tape")
    done = foretold(tmp_path, "explain", str(tape.relative_to(tmp_path)), "--continuations", "4")
    assert done.code == 1
    assert "continuations each" in done.out
    assert "It jumps from" in done.out


def test_shrinking_goes_on(tmp_path: Path) -> None:
    """A tape that was saved on the way says so; afterwards it is the smallest, and says no more."""
    folder = with_failure(tmp_path)
    tape = folder / "found.tape"
    change_header(tape, unfinished=True)
    assert "shrinking:" in foretold(folder, "show", "found.tape").out
    done = foretold(folder, "shrink", "found.tape")
    assert done.code == 1
    assert done.out.rstrip().endswith("Replay it: foretold replay found.tape")
    assert "AssertionError" in done.out
    assert not load(tape).unfinished
    assert len(load(tape).tape.schedule.holds) == 1


def test_what_holds_by_now_is_not_shrunk(tmp_path: Path) -> None:
    """Exit code 0, and the file stays as it was."""
    folder = with_failure(tmp_path)
    before = (folder / "found.tape").read_bytes()
    programs.write(folder, programs.BANK.replace("== 12", "> 0"))
    done = foretold(folder, "shrink", "found.tape")
    assert done.code == 0
    assert "The failure is gone" in done.err
    assert (folder / "found.tape").read_bytes() == before


def test_a_tape_without_a_target(tmp_path: Path) -> None:
    """It may be explained in Python, where the function is at hand, but not from here."""
    folder = with_failure(tmp_path)
    change_header(folder / "found.tape", target="")
    for verb in ("explain", "shrink"):
        done = foretold(folder, verb, "found.tape")
        assert done.code == 2
        assert "does not say what it was recorded for" in done.err
