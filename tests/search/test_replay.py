"""`foretold.replay` says so when it does not give the failure that the tape recorded."""

from __future__ import annotations

import asyncio
import sys
import warnings
from pathlib import Path

import pytest

import foretold
from foretold.search.checking import replay as replay_module
from foretold.tape import FailureNote, Tape, TapeFile, save
from tests.report import programs

NOTED = FailureNote("AssertionError", "lost update", "/somewhere/bank.py:27")
BY_HASH_SEED = '''\
"""Fails where the hash seed is 0 and nowhere else, as a set of strings may let it."""

import sys

zero = sys.flags.hash_randomization == 0


def main():
    assert not zero, "lost update"
'''


async def holds() -> int:
    """A program without any mistake."""
    await asyncio.sleep(0)
    return 5


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a tape on which the run failed, in a process with hash seed 0 such as this."""
    monkeypatch.setattr(replay_module, "hash_seed_here", lambda: 0)
    path = tmp_path / "bug.tape"
    save(path, TapeFile(Tape.calm(), failure=NOTED, hash_seed=0))
    return path


def test_a_run_that_holds_is_told(tape: Path) -> None:
    """With what was recorded and what to write. The run is given back all the same."""
    with pytest.warns(foretold.ForetoldWarning) as told:
        assert foretold.replay(holds, tape).value == 5
    text = str(told[0].message)
    assert f"the run of {tape} holds. " in text
    assert "Recorded was AssertionError: lost update at /somewhere/bank.py:27." in text
    assert "The bug is fixed, or this tape does not lead to it any more" in text
    assert text.endswith(f"write foretold.replay(main, {str(tape)!r}, fixed=True)")
    assert told[0].filename == __file__


def test_a_regression_test_expects_it(tape: Path) -> None:
    """No word about a bug that is known to be fixed, nor about a tape that recorded no failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert foretold.replay(holds, tape, fixed=True).value == 5
        save(tape, TapeFile(Tape.calm()))
        assert foretold.replay(holds, tape).value == 5
        assert foretold.replay(holds, Tape.calm()).value == 5


def test_circumstances_are_told(tape: Path) -> None:
    """That another Python recorded it is known, and so it is said."""
    save(tape, TapeFile(Tape.calm(), failure=NOTED, python="3.11.0rc1"))
    with pytest.warns(foretold.ForetoldWarning, match="recorded on Python 3.11.0rc1, this is "):
        foretold.replay(holds, tape)


def test_another_failure_is_raised_and_told(tape: Path) -> None:
    """The user's own exception, with a note on what was recorded; none on the same one."""

    def main(message: str) -> None:
        raise AssertionError(message)

    with pytest.raises(AssertionError, match="negative") as other:
        foretold.replay(lambda: main("negative"), tape)
    [note] = other.value.__notes__
    assert note.startswith(
        f"{tape} fails differently now. Recorded was AssertionError: lost update"
    )
    with pytest.raises(AssertionError, match="lost update") as same:
        foretold.replay(lambda: main("lost update"), tape)
    assert not hasattr(same.value, "__notes__")


@pytest.mark.parametrize("fails_there", [True, False])
def test_another_hash_seed_is_no_evidence(
    fails_there: bool, tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds here is tried in a fresh process with the hash seed of the tape. If it fails there
    that is an error; if it holds there, too, it holds."""
    name = f"by_hash_seed_{fails_there}".lower()
    source = BY_HASH_SEED if fails_there else BY_HASH_SEED.replace("== 0", "== 2")
    programs.write(tape.parent, source, f"{name}.py")
    monkeypatch.syspath_prepend(str(tape.parent))
    module = __import__(name)
    monkeypatch.setattr(module, "zero", False)
    monkeypatch.setattr(replay_module, "hash_seed_here", lambda: None)
    monkeypatch.setattr(sys, "argv", ["tests/regress.py"])
    if not fails_there:
        assert foretold.replay(module.main, tape, fixed=True).error is None
        return
    with pytest.raises(foretold.DidNotReproduce) as raised:
        foretold.replay(module.main, tape, fixed=True)
    assert str(raised.value).splitlines() == [
        f"{tape} was not reproduced in this process.",
        "  recorded: AssertionError: lost update at /somewhere/bank.py:27",
        "  here, with a random hash seed: held",
        "  in a fresh process with hash seed 0: failed with builtins.AssertionError: lost update, "
        "as recorded",
        "The hash seed determines the order in which a set of strings is iterated. Start this "
        "process with it: PYTHONHASHSEED=0 python regress.py …",
        f"or let the command do it: foretold replay {tape}",
    ]


def test_what_cannot_be_tried_with_the_right_hash_seed_is_not_taken_for_fixed(
    tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function without a name that another process could import."""
    monkeypatch.setattr(replay_module, "hash_seed_here", lambda: 7)
    with pytest.raises(
        foretold.DidNotReproduce, match=r"with hash seed 7: held\n.*could not be run"
    ):
        foretold.replay(lambda: None, tape)
