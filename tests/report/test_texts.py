"""What the command prints besides notes: exceptions, outcomes, headers, verdicts, progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import foretold
from foretold.report.checked import check_text, event_in_words
from foretold.report.data import outcome_json
from foretold.report.progress import SearchProgress
from foretold.report.tapes import (
    changed_text,
    environment_text,
    header_text,
    is_same_failure,
    schedule_text,
    verdict_text,
)
from foretold.report.text import departures, exception_text, interrupted_text, outcome_text
from foretold.search.checking.causes import SET_ORDER
from foretold.search.checking.check import Divergence, Report
from foretold.search.explore import Progress
from foretold.search.failures.failure import Outcome
from foretold.tape import (
    CALLBACKS,
    ENDED,
    Choice,
    FailureNote,
    Hold,
    Schedule,
    Slow,
    Tape,
    TapeFile,
)
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from tests.report import programs

CHILD_GROUP = '''\
"""A task group whose child fails because of something else."""

import asyncio


async def child():
    try:
        {}["x"]
    except KeyError as error:
        raise ValueError("two\\nlines") from error


async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(child())


async def alone():
    await child()
'''


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def error_of(text: str, name: str = "main") -> BaseException:
    """What a planted program raises in a calm run."""
    main = getattr(programs.load(programs.write(Path.cwd(), text)), name)
    settings = {"order": "asyncio", "strategy": "fifo"}
    done = execute(bind_main(main), Tape.calm(settings), Settings.from_tape(settings))
    assert done.error is not None
    return done.error


# Exceptions


def test_an_exception_without_our_frames() -> None:
    """A traceback shows the way through the user's code, not how foretold and asyncio called it."""
    assert exception_text(error_of(CHILD_GROUP, "alone")) == (
        "  bank.py:19, in alone\n"
        "    await child()\n"
        "  bank.py:10, in child\n"
        '    raise ValueError("two\\nlines") from error\n'
        "ValueError: two\n"
        "lines\n"
        "  after KeyError: 'x'"
    )


def test_an_exception_group_shows_what_is_in_it() -> None:
    """`unhandled errors in a TaskGroup` alone says nothing."""
    assert exception_text(error_of(CHILD_GROUP)) == (
        "  bank.py:14, in main\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  |   bank.py:10, in child\n"
        '  |     raise ValueError("two\\nlines") from error\n'
        "  | ValueError: two\n"
        "  | lines"
    )


def test_a_deep_exception_is_cut_at_its_beginning() -> None:
    """Hundreds of frames of a recursion would hide everything else."""
    text = '"""Deep."""\n\n\ndef dig(n):\n    return dig(n - 1) if n else 1 / 0\n\n\n'
    text += "async def main():\n    dig(50)\n"
    lines = exception_text(error_of(text)).splitlines()
    assert lines[0] == "  … 40 frames before"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert len(lines) < 30


# Outcomes


def test_outcomes_without_a_failure() -> None:
    """Held, with what was never true; and nothing to explore, which is not the same."""
    held = Outcome(200, 7, missed=["the moon is full"], virtual_s=12.5)
    assert outcome_text(held, runs=200, target="bank:main") == (
        "bank:main held in 200 runs (12.500 s of virtual time). Seed 7.\n"
        "  never true in any run: the moon is full"
    )
    vacuous = outcome_text(Outcome(1, 7, vacuous=True), runs=200, target="bank:main")
    assert vacuous.startswith("nothing to explore in bank:main: it held, but no choice was made in")
    assert max(map(len, vacuous.splitlines())) <= 100


def test_what_ctrl_c_leaves() -> None:
    """Either nothing was found, or the way to it is shown."""
    assert interrupted_text(4, 7, []) == (
        "stopped by Ctrl-C after 4 runs, seed 7; nothing has failed so far."
    )
    tape = Path.cwd() / ".foretold" / "failures" / "x" / "E 1.tape"
    assert interrupted_text(4, 7, [tape]).splitlines()[-1] == (
        "Replay it: foretold replay '.foretold/failures/x/E 1.tape'"
    )


def test_an_outcome_as_data() -> None:
    """A program reads verdict, exit code, delays and the command from one object."""
    main = programs.main_of(Path.cwd(), programs.BANK)
    outcome = foretold.explore(main, runs=500, seed=1, confirm=False)
    data = json.loads(outcome_json(outcome, target="bank:main", exit_code=1))
    assert (data["verdict"], data["exit_code"], data["seed"]) == ("violated", 1, 1)
    failure = data["failure"]
    assert (failure["exception"], failure["place"]) == ("AssertionError", "bank.py:21")
    assert failure["delays"][0]["actor"] == "deposit"
    command = f"foretold replay bank:main --seed {failure['seed']}"
    assert failure["replay"].startswith(f"{command} --profile '[")
    assert failure["story"].startswith("These two steps decide it.")
    assert [side["who"] for side in failure["pair"]] == ["refund", "deposit"]
    held = json.loads(outcome_json(Outcome(3, 1), target="x:y", exit_code=0))
    assert (held["verdict"], held["failure"]) == ("held", None)


def test_departures_are_counted_by_kind() -> None:
    """How far a tape is from calm, in the reader's nouns."""
    schedule = Schedule.of([Hold("main", "a", 1, "b", ENDED), Slow("main", "a", 1, 5)])
    choices = {"workload": [Choice(3, 9, ""), Choice(0, 9, ""), Choice(1, 9, "")]}
    tape = Tape("derived", schedule=schedule, choices=choices)
    assert departures(tape) == "1 delay and 1 late step and 2 chosen values"
    faults = {
        "fault": [Choice(1, 2, "any faults")],
        "fault/reset": [Choice(1, 2, "reset at all")],
        "fault/reset/1": [Choice(1, 2, "strikes"), Choice(3, 7, "after the burst began")],
        "fault/reset/2": [Choice(0, 2, "strikes")],
        "fault/hold/1": [Choice(1, 2, "strikes")],  # of a kind that is not in the run
    }
    assert departures(Tape("derived", choices=faults)) == "1 fault"
    del faults["fault"]
    assert departures(Tape("derived", choices=faults)) == departures(Tape.calm())
    assert departures(Tape.calm()) == "the calm run, where nothing is delayed,"
    drawn = {"entropy/main": [Choice(1, 9, "entropy")], "disk/main": [Choice(1, 2, "short write")]}
    tape = Tape("derived", choices=drawn)
    assert departures(tape) == "1 choice of random values and 1 other choice"
    slow = [Choice(5, 6, "time for a statement")] * 2
    tape = Tape("derived", choices={**drawn, "postgres/postgres session 1": slow})
    assert departures(tape) == "2 slow statements"
    assert departures(Tape.seeded(7)) == "all choices come from the seed"


# Tapes


def tape_file(**more: object) -> TapeFile:
    """A tape from elsewhere with every kind of exception on it."""
    holds = [Hold("main", "a", 1, "b", 1), Hold("main", "b", 3, CALLBACKS, 4)]
    slows = [Slow("main", "a", 2, 3_000_000), Slow("main", CALLBACKS, 5, 40_000)]
    settings = {"order": "any", "strategy": "pct"}
    tape = Tape("derived", seed=7, settings=settings, schedule=Schedule.of([*holds, *slows]))
    fields = {"python": "3.11.7", "implementation": "cpython", "platform": "plan9", "foretold": "9"}
    return TapeFile(tape, **{**fields, "hash_seed": None, **more})  # type: ignore[arg-type]  # by name


def test_a_header_says_where_a_tape_comes_from() -> None:
    """All that the file knows without being run."""
    failure = FailureNote("ValueError", "bad", str(Path.cwd() / "app.py:3"))
    assert header_text(tape_file(target="app:main", failure=failure), "x.tape") == (
        "tape:       x.tape\n"
        "target:     app:main\n"
        "failure:    ValueError: bad at app.py:3\n"
        "seed:       7, order any, strategy pct\n"
        "departs by: 2 delays and 2 late steps\n"
        "recorded:   by foretold 9, cpython 3.11.7, plan9"
    )
    assert "target:     (not said:" in header_text(tape_file(), "x.tape")


def test_a_schedule_in_words() -> None:
    """A tape that cannot be run here still says what it does to whom."""
    assert schedule_text(tape_file().tape) == (
        "All take turns, first come first served, except that\n"
        "  a does not start until b had started\n"
        "  b is held before its 3rd step, until the 4th callback had run\n"
        "  the event loop is late by 3 ms after the 2nd step of a\n"
        "  the event loop is late by 40 µs after the 5th callback"
    )
    assert schedule_text(Tape.calm()) == "No task is delayed on this tape."


def test_another_environment_is_told() -> None:
    """Another Python may take other steps; the reader should know before wondering."""
    text = environment_text(tape_file())
    assert text.startswith("note: recorded by foretold 9, this is ")
    assert text.endswith("recorded on plan9, this is linux. The run may differ.")
    assert environment_text(TapeFile(Tape.calm(), hash_seed=None)) == ""


def test_the_same_failure_is_known_again_in_another_folder() -> None:
    """By kind, and by message or line; the path above the file is another one on each machine."""
    error = error_of(programs.BANK.replace("== 12", "== 13"))
    message, line = "only 12 of 12", "/another/machine/bank.py:21"
    assert is_same_failure(FailureNote("AssertionError", message, "/x/y.py:1"), error)
    assert is_same_failure(FailureNote("AssertionError", "other", line), error)
    assert not is_same_failure(FailureNote("AssertionError", "other", "/x/bank.py:22"), error)
    assert not is_same_failure(FailureNote("ValueError", message, line), error)


def test_verdicts_of_a_replay() -> None:
    """Again, differently, or gone: three things that must not be confused."""
    main = bind_main(programs.main_of(Path.cwd(), programs.BANK))
    settings = {"order": "any", "strategy": "random"}
    failing = Schedule.of([Hold("main", "deposit", 2, "refund", ENDED)])
    tape = Tape("derived", settings=settings, schedule=failing)
    fails = execute(main, tape, Settings.from_tape(settings))
    holds = execute(main, Tape.calm(settings), Settings.from_tape(settings))
    note = FailureNote("AssertionError", "only 5 of 12", "bank.py:21")
    file = TapeFile(tape, failure=note, digest=fails.digest)
    assert verdict_text(file, fails) == "It fails again, as recorded."
    assert verdict_text(file, holds) == (
        "The failure is gone: the run holds. It was AssertionError: only 5 of 12 at bank.py:21"
    )
    other = tape_file(failure=FailureNote("KeyError", "'x'", "bank.py:9"))
    assert verdict_text(other, fails) == (
        "It fails differently. Recorded was KeyError: 'x' at bank.py:9"
    )
    assert verdict_text(tape_file(), fails) == "The run fails."
    assert changed_text(file, fails) == ""
    text = changed_text(file, holds)
    assert text.startswith("warning: this is not the run that was recorded (")
    assert "the code is another one now, or something besides the tape decides" in text, (
        "what is not known is not stated"
    )


def test_a_replay_under_other_circumstances_states_no_cause() -> None:
    """That the run was recorded elsewhere is known. Holding here, it shows nothing."""
    main = bind_main(lambda: None)
    done = execute(main, Tape.calm(), Settings())
    file = tape_file(failure=FailureNote("KeyError", "'x'", "bank.py:9"), digest="0" * 8)
    elsewhere = "recorded by foretold 9, this is"
    assert verdict_text(file, done).startswith(
        f"The run holds here, which proves nothing: {elsewhere}"
    )
    text = changed_text(file, done)
    assert text.startswith(f"warning: this is not the run that was recorded ({elsewhere}")
    assert "code" not in text


# Checks


def test_events_in_words() -> None:
    """The trace's shorthand is for digests; people get sentences."""
    expected = {
        "worker-2": "a step of worker-2",
        "@1001000042000": "time jumps to 1001.000042 s",
        "@1000 worker returned 'x'": "worker ends: returned 'x'",
        "@1000 two words cancelled": "two words ends: cancelled",
        "slow worker 3000000": "the loop is late after worker: 3 ms",
        "stall worker 2500000000": "worker blocks for 2.5 s",
        "entropy 16": "16 random bytes are drawn",
        "choose who = 'bob'": "choose who = 'bob'",
    }
    assert {entry: event_in_words(entry) for entry in expected} == expected
    assert event_in_words(None) == "(the run had ended)"
    assert len(event_in_words("x" * 1_000)) == 160


def test_a_divergence_is_shown_side_by_side() -> None:
    """What both have, what each has, the likely cause and the remedy."""
    sides = ("a fresh process, PYTHONHASHSEED=1", "a fresh process, PYTHONHASHSEED=2")
    found = Divergence(7, sides, 12, "job-3", "@5 job-3 returned 'a'", None, SET_ORDER)
    lines = check_text(Report("app:main", 7, [20], None, found)).splitlines()
    assert lines[:5] == [
        "app:main is NOT deterministic: one tape (seed 7) gave two runs.",
        "The first event that differs is number 12:",
        "  both, just before                  a step of job-3",
        "  a fresh process, PYTHONHASHSEED=1  job-3 ends: returned 'a'",
        "  a fresh process, PYTHONHASHSEED=2  (the run had ended)",
    ]
    assert lines[5] == "Likely cause: set order."
    assert lines[6].startswith("  The difference vanishes when both processes have the same hash")
    assert any(line.startswith("Remedy: sort ") for line in lines)


def test_a_deterministic_program_is_told_with_figures() -> None:
    """How much was compared: a check of no events would be worth nothing."""
    assert check_text(Report("app:main", 7, [20, 20])) == (
        "app:main is deterministic: 2 tapes, 20 events each. Seed 7."
    )
    assert "1 tape, 1,200 events" in check_text(Report("app:main", 7, [1_200]))
    assert "2 tapes, 5 to 9 events" in check_text(Report("app:main", 7, [5, 9]))


# Progress


def test_plain_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """In continuous integration: a line for each stage, and ever fewer on the way."""
    with SearchProgress(5_000, bar=False) as progress:
        for runs in range(1, 4_200):
            progress(Progress(runs, 0, 0))
        progress(Progress(4_200, 0, 1, "shrinking"))
        progress(Progress(4_200, 0, 1, "confirming"))
    assert capsys.readouterr().err.splitlines() == [
        "1,000 of 5,000 runs, all held",
        "2,000 of 5,000 runs, all held",
        "4,000 of 5,000 runs, all held",
        "run 4,200: a run failed; looking for the smallest tape that still fails",
        "run 4,200: replaying it in a fresh process",
    ]


def test_long_shrinking_shows_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of a stage counts, and now and then a line says how many there were."""
    monkeypatch.setattr("foretold.report.progress.LINE_EVERY_S", -1.0)
    with SearchProgress(500, bar=False) as progress:
        for _ in range(3):
            progress(Progress(7, 0, 1, "shrinking"))
        progress(Progress(9, 0, 2, "shrinking"))
    assert capsys.readouterr().err.splitlines() == [
        "run 7: a run failed; looking for the smallest tape that still fails",
        "run 7: still looking, after 1 run",
        "run 7: still looking, after 2 runs",
        "run 9: a run failed; looking for the smallest tape that still fails",
    ]


def test_a_bar_where_somebody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes to the error stream and leaves the output proper alone."""
    with SearchProgress(500, bar=True) as progress:
        progress(Progress(1, 0, 0))
        progress(Progress(2, 0, 1, "shrinking"))
    assert progress.last.runs == 2
    assert capsys.readouterr().out == ""
