"""The note on the user's exception: how it was found, whether to believe it, story, command.

Real failures, found by a search with a pinned seed, against stored text. Nothing is normalised:
everything in it is deterministic.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import foretold
from foretold.report.text import failure_note
from foretold.search.failures.failure import Failure
from foretold.story.tale import Story
from tests.report import programs
from tests.report.stored import assert_as_stored

COMMAND = "foretold replay .foretold/failures/main-1f0c8a3e/AssertionError-7.tape"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found_in(text: str, *, shrink: bool = True, confirm: bool = True) -> Failure:
    """The failure that a search of 500 runs from seed 1 finds in a planted program."""
    main = programs.main_of(Path.cwd(), text)
    failure = foretold.explore(main, runs=500, seed=1, shrink=shrink, confirm=confirm).failure
    assert failure is not None
    return failure


def note_on(failure: Failure) -> str:
    """Its note, with a command that does not depend on this folder."""
    return failure_note(failure, runs=500, command=COMMAND)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note-lost-update", programs.BANK),
        ("note-lost-update-among-chatter", programs.NOISY_BANK),
        ("note-late-loop", programs.LATE),
        ("note-chosen-values", programs.CHOSEN),
        ("note-deadlock", programs.DEADLOCK),
        ("note-stalled", programs.STALLED),
    ],
)
def test_the_whole_note(name: str, text: str) -> None:
    """Each kind of failure, found, shrunk and confirmed, reads as it did when it was last read."""
    assert_as_stored(name, note_on(found_in(text)))


def test_an_exception_without_a_text_is_told_by_its_line() -> None:
    """A bare assertion: the name of its exception is the same for all of them."""
    failure = found_in("async def main():\n    total = 3\n    assert total == 4\n", confirm=False)
    first = note_on(failure).splitlines()[0]
    assert first == "What broke: AssertionError at `assert total == 4` (bank.py:3)"


def test_a_failure_that_was_not_shrunk() -> None:
    """All delays of the run that failed are still there; the note says so and stays short."""
    note = note_on(found_in(programs.BANK, shrink=False, confirm=False))
    assert_as_stored("note-not-shrunk", note)


def test_the_last_line_is_always_the_command() -> None:
    """Whatever is known or unknown about a failure, the reader finds the command at the end."""
    failure = found_in(programs.BANK, confirm=False)
    variants = [
        failure,
        replace(failure, story=Story()),
        replace(failure, reproduced=False, doubt="there it held; event 3: here 'a', there 'b'"),
        replace(failure, reproduced=True, doubt="it fails in the same way there"),
        replace(failure, stock_asyncio=True, shrink_runs=0),
    ]
    for variant in variants:
        assert note_on(variant).splitlines()[-1] == f"Replay it: {COMMAND}"


def test_doubts_are_told() -> None:
    """A failure that a fresh process does not have must not look like one that it has."""
    failure = found_in(programs.BANK, confirm=False)
    assert "fresh process" not in note_on(failure), "nothing was asked"
    yes = replace(failure, reproduced=True)
    assert "\nReplayed in a fresh process: yes.\n" in note_on(yes)
    other = replace(failure, reproduced=True, doubt="not by the same steps")
    assert "\nReplayed in a fresh process: yes, but not by the same steps.\n" in note_on(other)
    no = replace(failure, reproduced=False, doubt="there it held; event 3: here 'a', there 'b'")
    expected = "Replayed in a fresh process: NO, there it held; event 3: here 'a', there 'b'."
    assert f"\n{expected}\n" in note_on(no)


def test_a_note_cannot_control_a_terminal() -> None:
    """pytest prints notes as they are: what came from a program is spelt out in them."""
    failure = replace(
        found_in(programs.BANK, confirm=False), story=Story("\x1b[2J fails: \u202etxt")
    )
    assert "\n\\x1b[2J fails: \\u202etxt\n" in note_on(failure)


def test_whether_production_can_do_it_is_told() -> None:
    """An order that stock asyncio never takes must not be sold as a bug in production."""
    failure = found_in(programs.BANK, confirm=False)
    assert failure.stock_asyncio is False
    assert "\nStock asyncio does not take this order" in note_on(failure)
    stock = replace(failure, stock_asyncio=True)
    assert "\nStock asyncio can do this.\n" in note_on(stock)
    assert "\nReal threads can do this.\n" in note_on(replace(stock, has_only_threads=True))


def test_what_is_not_finished_is_told() -> None:
    """A tape that could have become smaller must not look like the smallest."""
    failure = found_in(programs.BANK, confirm=False)
    assert "time was up" not in note_on(failure)
    unfinished = replace(failure, unfinished=True)
    assert ", when its runs or its time were used up\n" in note_on(unfinished)
    kept = replace(unfinished, saved_as=Path("a b.tape"))
    assert "used up (go on: foretold shrink 'a b.tape')" in note_on(kept)


def test_faults_that_are_not_needed_are_not_listed() -> None:
    """What a run might have met says nothing about a failure that met none of it."""
    failure = found_in(programs.BANK, confirm=False)
    drawn = {"actors": "3", "fault reset": "on", "buggify a": "off", "buggify b": "on"}
    without = note_on(replace(failure, configuration=drawn))
    assert "The run was configured with actors 3; buggify b on." in without
    struck = note_on(replace(failure, configuration=drawn, faults=["reset"]))
    assert "The run was configured with actors 3; buggify b on; faults reset." in struck
    calls = ["actor1.buy()", "actor2.buy()"]
    program = Story("The program, 2 calls of Shop's rules: …", calls=calls, is_program=True)
    told = note_on(replace(failure, configuration={"actors": "1", "knob": "7"}, story=program))
    assert "The run was configured with knob 7." in told, "who acts stands in the program"
