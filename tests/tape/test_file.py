"""The tape's file: what is written comes back, and whatever else stands in a file is refused."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.errors import TapeError
from foretold.tape import CALLBACKS, ENDED, Choice, Hold, Schedule, Slow, Tape, enumerate_tapes
from foretold.tape import file as file_module
from foretold.tape.file import FailureNote, TapeFile, dumps, load, loads, save
from foretold.tape.file import environment_differences as differences

SEEDED = settings(derandomize=True, database=None, deadline=None)

EXAMPLE = TapeFile(
    Tape(
        "recorded",
        seed=7,
        settings={"order": "any", "runs": 500, "loss": 0.25, "exact_time": False, "note": None},
        choices={
            "workload": [Choice(3, 10, "amount"), *[Choice(0, 2, "retry")] * 12, Choice(1, 2, "")],
            "net/the api": [Choice(0, 2**200, "x12")],
        },
        schedule=Schedule.of(
            [
                Hold("main", "transfer-2", 3, "transfer", ENDED),
                Hold("main", "a b", 2, CALLBACKS, 5),
                Slow("main", "poll", 5, 3_000_000),
            ]
        ),
    ),
    target="tests/test_bank.py::test_total[a-1]",
    failure=FailureNote("AssertionError", "assert 95 == 100\nmore", "tests/test_bank.py:31"),
    digest="9f86d081884c7d65",
    foretold="0.1.0",
    python="3.12.1",
    implementation="cpython",
    platform="linux",
    hash_seed=0,
)

EXAMPLE_TEXT = f"""\
foretold tape 1
foretold 0.1.0
python 3.12.1 cpython
platform linux
hash-seed 0
target tests/test_bank.py::test_total[a-1]
origin recorded
seed 7
setting exact_time false
setting loss 0.25
setting note none
setting order "any"
setting runs 500
failure AssertionError "assert 95 == 100" at tests/test_bank.py:31
digest 9f86d081884c7d65

[schedule]
hold main transfer-2 step 3 until transfer ended
hold main "a b" step 2 until (callbacks) step 5
slow main poll step 5 by 3000000 ns

[stream "net/the api"]
0/0x1{"0" * 50} "x12"

[stream workload]
3/10 amount
0/2 retry x12
1/2

sha256 fefde60752e1f8e70454ede1c1012de87587fdd4c2badfa8484623e75fefa7a8
"""

HEADER = ["foretold 0.1.0", "python 3.12.1 cpython", "platform linux", "origin recorded", "seed 7"]
SMALL = TapeFile(
    Tape(
        "recorded",
        seed=-7,
        settings={"p": 0.5},
        choices={"é": [Choice(1, 2, "a")] * 3},
        schedule=Schedule.of([Hold("m", "a", 1, "b", ENDED)]),
    ),
    foretold="0.1.0",
    python="3.12.1",
    implementation="cpython",
    platform="linux",
    hash_seed=None,
)


def signed(*lines: str, first: str = "foretold tape 1") -> str:
    """A made-up file whose checksum is right, so that only the lines themselves can be wrong."""
    body = "".join(f"{line}\n" for line in (first, *lines))
    return f"{body}sha256 {hashlib.sha256(body.encode('utf-8', 'replace')).hexdigest()}\n"


def seen(tape: Tape) -> tuple[object, ...]:
    """All that a tape is. Settings by repr: nan equals nan, and 0.0 is not -0.0, nor 1 True."""
    settings = {key: repr(value) for key, value in tape.settings.items()}
    choices = {name: list(entries) for name, entries in tape.choices.items()}
    return tape.origin, tape.seed, settings, choices, list(tape.schedule)


def refusal(text: str) -> str:
    """The error that reading this text gives."""
    with pytest.raises(TapeError) as caught:
        loads(text, "a.tape")
    return str(caught.value)


def is_refused(text: str) -> bool:
    """Whether reading fails as it should; any other exception than ours passes through."""
    try:
        loads(text)
    except TapeError:
        return True
    return False


# What is written comes back


def test_the_format_as_it_is() -> None:
    """Files outlive releases: one example, letter by letter, and all of its fields come back."""
    assert dumps(EXAMPLE) == EXAMPLE_TEXT
    found = loads(EXAMPLE_TEXT)
    assert seen(found.tape) == seen(EXAMPLE.tape)
    assert replace(found, tape=EXAMPLE.tape) == EXAMPLE


# Without the second part, surrogates, controls and hidden spaces would be too rare to be met.
ODD = st.characters(categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"])
TRICKY = ["step", "x3", "ended", "a]", '"', "\\u{41}", "a\nb", " ", "]"]
NAMES = st.text(st.characters() | ODD, max_size=12) | st.sampled_from(TRICKY)
WHOLE = st.integers(0, 9) | st.integers(0, 2**3000)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**127), 2**127),
    st.floats(),
    st.sampled_from([-0.0, 0.0, math.inf, -math.inf, math.nan, 1e22, 5e-324]),
    NAMES,
)


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Any choice that a stream can make."""
    value = draw(WHOLE)
    return Choice(value, value + draw(st.integers(1, 9)), draw(NAMES))


STEPS = st.integers(1, 2**64)
EXCEPTIONS = st.one_of(
    st.builds(Hold, NAMES, NAMES, STEPS, NAMES, st.integers(0, 9)),
    st.builds(Slow, NAMES, NAMES, STEPS, st.integers(0, 2**64), st.booleans()),
)
RUNS = st.lists(st.tuples(choices(), st.integers(1, 30)), max_size=6)
STREAMS = st.dictionaries(NAMES, RUNS.map(lambda runs: [c for c, n in runs for _ in range(n)]))
SEEDED_TAPES = st.builds(Tape.seeded, st.integers(), st.dictionaries(NAMES, VALUES))
OTHER_TAPES = st.builds(
    Tape,
    st.sampled_from(["recorded", "derived"]),
    seed=st.integers(),
    settings=st.dictionaries(NAMES, VALUES),
    choices=STREAMS,
    schedule=st.lists(EXCEPTIONS).map(Schedule.of),
)
FILES = st.builds(
    TapeFile,
    SEEDED_TAPES | OTHER_TAPES,
    target=NAMES,
    failure=st.none() | st.builds(FailureNote, NAMES, NAMES, NAMES),
    digest=st.none() | NAMES,
    foretold=NAMES,
    python=NAMES,
    implementation=NAMES,
    platform=NAMES,
    hash_seed=st.none() | st.integers(0, 2**32),
)


@SEEDED
@given(FILES)
def test_every_file_comes_back(file: TapeFile) -> None:
    """The round trip, for names of any characters, huge numbers and floats of all kinds.

    Decided: of a NaN only that it is one comes back; infinities and the sign of zero do.
    Texts stay on their lines, and the file can be stored as UTF-8.
    """
    text = dumps(file)
    found = loads(text)
    assert seen(found.tape) == seen(file.tape)
    assert replace(found, tape=file.tape) == file
    assert dumps(found) == text
    assert text.splitlines() == text[:-1].split("\n")
    assert text.encode().decode() == text


def test_two_surrogates_are_not_one_character() -> None:
    """The reason for our own escapes: as JSON they would come back as one fox."""
    pair = "\ud83e\udd8a"
    tape = Tape("recorded", settings={"pair": pair, "fox": "🦊"})
    found = loads(dumps(TapeFile(tape))).tape.settings
    assert found == {"pair": pair, "fox": "🦊"}
    assert found["pair"] != found["fox"]


def test_a_loaded_tape_replays() -> None:
    """The point of the file: a run from the loaded tape draws what the recorded one drew."""
    first = Tape.seeded(5).fresh(recording=True)
    values = [first.between(0, 10**30, "n"), first.shuffle("abcdef"), first.bytes(9)]
    replay = loads(dumps(TapeFile(first.recorded()))).tape
    assert [replay.between(0, 10**30, "n"), replay.shuffle("abcdef"), replay.bytes(9)] == values
    assert replay.misfit is None


def test_repeats_are_small() -> None:
    """Long calm stretches must not make long files."""
    tape = Tape("recorded", choices={"fault": [Choice(0, 2, "lose")] * 100_000})
    text = dumps(TapeFile(tape))
    assert len(text) < 300
    assert len(loads(text).tape.choices["fault"]) == 100_000


def test_a_seeded_tape_is_just_the_header() -> None:
    """A seed says it all; choices beside it would contradict it."""
    text = dumps(replace(SMALL, tape=Tape.seeded(3, {"a": 1})))
    assert "[" not in text
    assert seen(loads(text).tape) == ("seeded", 3, {"a": "1"}, {}, [])


@pytest.mark.parametrize(
    ("message", "kept"),
    [("", ""), ("one\ntwo", "one"), ("\n  \n one \r\n", "one"), ("x" * 900, "x" * 500)],
)
def test_of_a_failures_message_the_first_line_is_kept(message: str, kept: str) -> None:
    """The note is a reminder for a person; the replay shows the whole message."""
    assert FailureNote("ValueError", message).message == kept


# What no file can hold


@pytest.mark.parametrize(
    ("tape", "reason"),
    [
        (Tape("recorded", choices={"a": [Choice(2, 2, "")]}), "2 is too small there: 3 or more"),
        (Tape("recorded", choices={"a": [Choice(-1, 2, "")]}), "-1 is too small"),
        (Tape("recorded", choices={"a": [Choice(0, 2.5, "")]}), "whole number"),  # type: ignore[arg-type]  # the mistake under test
        (Tape("recorded", choices={"a": [Choice(0, 2, 3)]}), "a text is needed"),  # type: ignore[arg-type]  # the mistake under test
        (Tape("recorded", seed=1 << 128), "more than 128 bits"),
        (Tape("recorded", choices={"a": [Choice(0, 1 << 40_000, "")]}), "more than 40000 bits"),
        (Tape("recorded", schedule=Schedule.of([Slow("m", "a", 1, 1 << 80)])), "more than 80 bits"),
        (Tape("recorded", settings={"a": "x" * 70_000}), "65536 characters"),
        (Tape("recorded", settings={"a": b"x"}), "a setting is"),  # type: ignore[dict-item]  # the mistake under test
        (Tape("recorded", schedule=Schedule.of([Slow("m", "a", 0, 1)])), "0 is too small"),
        (Tape("seeded", choices={"a": [Choice(0, 2, "")]}), "a seeded tape has no choices"),
        (next(enumerate_tapes()), r"tape\.fresh\(recording=True\)"),
    ],
)
def test_what_cannot_be_read_back_is_not_written(tape: Tape, reason: str) -> None:
    """A mistake shows when the file is written, by its cause, not when it is needed."""
    with pytest.raises(TapeError, match=reason):
        dumps(TapeFile(tape))


# Damage


def test_every_changed_character_is_noticed() -> None:
    """Exhaustive: each character of a small file replaced by each of ASCII and a few odd ones."""
    text = dumps(SMALL)
    others = [*map(chr, range(128)), "é", "è", "\u2028", "\ufeff", "\ud800"]
    unnoticed = [
        (position, other)
        for position, char in enumerate(text)
        for other in others
        if other != char and not is_refused(text[:position] + other + text[position + 1 :])
    ]
    assert unnoticed == []
    assert not is_refused(text)


def test_every_lost_and_every_added_character_is_noticed() -> None:
    """Exhaustive: deletions, insertions and swapped neighbours at each position."""
    text = dumps(SMALL)
    changed = [text[:p] + text[p + 1 :] for p in range(len(text))]
    changed += [text[:p] + extra + text[p:] for p in range(len(text) + 1) for extra in ' \n\r0a"[']
    changed += [text[:p] + text[p + 1] + text[p] + text[p + 2 :] for p in range(len(text) - 1)]
    assert [other for other in changed if other != text and not is_refused(other)] == []


def test_every_truncation_is_noticed() -> None:
    """Exhaustive: a full disk or a broken download leaves some beginning of the file.

    Whether it was cut within a line or between two, the error says so.
    """
    text = EXAMPLE_TEXT
    assert [length for length in range(len(text)) if not is_refused(text[:length])] == []
    within, between = text[: text.index("-2 step")], text[: text.index("hold main")]
    assert refusal(within).startswith("a.tape:18: the file was cut off in this line; ")
    assert refusal(between).startswith("a.tape:17: no checksum line at the end: the file was cut")


NEWER = "written by a newer foretold (tape format 2); this one reads format 1: upgrade"


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        (EXAMPLE_TEXT, "", 1, "not a foretold tape"),
        ("foretold tape 1", "PK\x03\x04", 1, "not a foretold tape"),
        ("foretold tape 1", "foretold tape one", 1, "not a foretold tape"),
        ("foretold tape 1", "foretold tape 0", 1, "not a foretold tape"),
        ("foretold tape 1", "foretold tape 2", 1, NEWER),
        ("foretold tape 1", "\ufeffforetold tape 1", 1, "save it as UTF-8 without one"),
        ("\n", "\r\n", 1, "`*.tape -text` in .gitattributes"),
        ("cpython\n", "cpython\r\n", 3, "carriage return"),
        ("hold main t", "hold mein t", 30, "the checksum does not fit what stands above it"),
        ("until t", "untill t", 18, "a schedule has the sentences"),
        ("poll", "po\x00ll", 20, "unescaped character U+0000"),
        ("poll", '"\u202epoll"', 20, "unescaped character U+202E"),
    ],
)
def test_damage_is_named_with_its_line(old: str, new: str, line: int, reason: str) -> None:
    """The reader learns the file, the line, what is wrong there and what to do about it."""
    message = refusal(EXAMPLE_TEXT.replace(old, new))
    assert message.startswith(f"a.tape:{line}: ")
    assert reason in message


@pytest.mark.parametrize("more", ["\n", "x\n", EXAMPLE_TEXT])
def test_nothing_may_follow(more: str) -> None:
    """Garbage behind the end is damage as well, even a second copy of the file."""
    assert refusal(EXAMPLE_TEXT + more).startswith("a.tape:31: something stands behind the check")


def test_damage_and_forgery_have_other_remedies() -> None:
    """A wrong checksum means damage; a right one over nonsense means another program wrote it."""
    assert "the file was damaged or edited: get it again" in refusal(
        dumps(SMALL).replace("origin", "orig")
    )
    assert "written, by something else than foretold" in refusal(signed("orig recorded"))


# Files that nobody of us wrote


def test_the_made_up_header_is_fine() -> None:
    """The cases below differ from this one by the line under test alone."""
    assert seen(loads(signed(*HEADER)).tape) == ("recorded", 7, {}, {}, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("colour blue", "the header has no line such as 'colour blue'"),
        ("seed 8", "given before"),
        ("hash-seed -1", "too small"),
        ("target", "no line such as 'target'"),
        ("target a b", "no line such as"),
        ("target a  ", "stray space"),
        (" target a", "stray space"),
        ("target  a", "stray space"),
        ('target "a', "quotation mark"),
        ('target a"b"', "quotation mark"),
        ('target "a""b"', "quotation mark"),
        ('target "\\x41"', "unknown escape"),
        ('target "\\u{110000}"', "unknown escape"),
        ('target "\\ud800"', "unknown escape"),
        ("target größe", "needs quotation marks"),
        ("failure ValueError", "no line such as"),
        ('failure ValueError "x" in a.py:3', "no line such as"),
        ("setting a", "no line such as"),
        ("setting a " + "1" * 70_000, "65536 characters"),
        ("target " + '\\"' * 40_000, "65536 characters"),
        ("[stream " + "a" * 70_000 + "]", "65536 characters"),
        ("[]", "stray space"),
        ("[schedule", "is not a section"),
        ("[stream]", "is not a section"),
        ("[other]", "is not a section"),
        ("[stream a] ", "is not a section"),
    ],
)
def test_strange_lines_are_refused(line: str, reason: str) -> None:
    """There is one way to write a thing; a guess about the others would be a wrong run."""
    message = refusal(signed(*HEADER, line))
    assert message.startswith("a.tape:7: ")
    assert reason in message


NO_NUMBERS = ["plain", "1_000", "+1", "01", "-0", "1e999", "1.50", "infinity", "True", "\u0661"]
NO_NUMBERS += ["0xF", "0x", "0x01", "1" * 40, "0x" + "1" * 10_001]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_strange_numbers_are_refused(value: str) -> None:
    """No underscores, signs, overflows, other scripts, or more digits than the limit."""
    message = refusal(signed(*HEADER, f"setting a {value}"))
    assert message.startswith("a.tape:7: ")
    assert "is not a whole number, or has too many digits" in message


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["[schedule]", "hold main a step 1 until b"], "sentences"),
        (["[schedule]", "hold main a step 1 until b step 0"], "too small"),
        (["[schedule]", "hold main a step 0 until b ended"], "too small"),
        (["[schedule]", "slow main a step 1 by -1 ns"], "too small"),
        (["[schedule]", "slow main a step 1 by 1 ms"], "sentences"),
        (["[schedule]", "[schedule]"], "is not a section"),
        (["[schedule]", *["slow main a step 1 by 1 ns"] * 2], "such an exception already"),
        (["[stream a]", "[schedule]"], "is not a section"),
        (["[stream a]", "[stream a]"], "is not a section"),
        (["[stream a]", '[stream "a"]'], "is not a section"),
        (["[stream a]", "seed 8"], "value/bound label"),
        (["[stream a]", "1/2 a b"], "value/bound label"),
        (["[stream a]", "1/2 a x2 x3"], "value/bound label"),
        (["[stream a]", "2/2"], "too small"),
        (["[stream a]", "-1/2"], "too small"),
        (["[stream a]", "1/2/3"], "not a whole number"),
        (["[stream a]", "0/2 x0", "0/0 x0"], "too small"),
        (["[stream a]", "0/2 x999999999"], "more than 5000000 choices"),
        (["[stream a]", *["0/2 x2000000"] * 3], "more than 5000000 choices"),
    ],
)
def test_strange_sections_are_refused(lines: list[str], reason: str) -> None:
    """The same for the schedule and the streams; the last line of each case is the wrong one."""
    message = refusal(signed(*HEADER, *lines))
    assert message.startswith(f"a.tape:{1 + len(HEADER) + len(lines)}: ")
    assert reason in message


@pytest.mark.parametrize("missing", range(len(HEADER)))
def test_a_header_must_be_complete(missing: int) -> None:
    """A file without its seed or origin is not replayed with a guess."""
    lines = [line for number, line in enumerate(HEADER) if number != missing]
    key = HEADER[missing].partition(" ")[0]
    assert f"a.tape:5: the header does not say: {key}; " in refusal(signed(*lines))


@pytest.mark.parametrize("origin", ["enumerated", "guessed", '"recorded"'])
def test_the_origin_is_a_known_one(origin: str) -> None:
    """An enumerated tape cannot come from a file: there is no loop that it is a place in."""
    lines = [f"origin {origin}" if line.startswith("origin") else line for line in HEADER]
    assert "no line such as 'origin" in refusal(signed(*lines))


def test_a_seeded_file_with_choices_is_refused() -> None:
    """They would be ignored, and someone would wonder why."""
    lines = [line.replace("recorded", "seeded") for line in [*HEADER, "[stream a]", "0/2"]]
    assert refusal(signed(*lines)).startswith("a.tape:8: a seeded tape has no choices")


def test_large_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and number of lines are checked before anything is taken apart."""
    text = dumps(EXAMPLE)
    monkeypatch.setattr(file_module, "LINES_MAX", 28)
    assert "more than 28 lines" in refusal(text)
    monkeypatch.setattr(file_module, "FILE_BYTES_MAX", len(text.encode()) - 1)
    assert "bytes; record the failure again, with a shorter run" in refusal(text)
    with pytest.raises(TapeError, match="cannot be written to a file: more than"):
        dumps(EXAMPLE)


@SEEDED
@given(st.text(st.sampled_from('ax01/ "\\u{}[]\n.-é') | st.characters(), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever follows a sound header is read or refused with our own error, nothing else."""
    for start in ("", "[schedule]\n", "[stream a]\n"):
        whole = signed(*HEADER, start + text)
        assert is_refused(whole) or seen(loads(dumps(loads(whole))).tape) == seen(loads(whole).tape)


# On disk


def test_save_and_load(tmp_path: Path) -> None:
    """Folders are made, an older file is replaced, nothing else is left behind."""
    path = tmp_path / "failures" / "deep" / "größe 1.tape"
    save(path, SMALL)
    save(str(path), EXAMPLE)
    assert seen(load(path).tape) == seen(load(str(path)).tape) == seen(EXAMPLE.tape)
    assert path.read_bytes() == dumps(EXAMPLE).encode()
    assert list(path.parent.iterdir()) == [path]


def test_a_saved_file_is_for_all_who_may_read_the_folder(tmp_path: Path) -> None:
    """Temporary files are often private; a tape that only root can read is of no use."""
    umask = os.umask(0o022)
    try:
        save(tmp_path / "a.tape", SMALL)
    finally:
        os.umask(umask)
    assert (tmp_path / "a.tape").stat().st_mode & 0o777 == 0o644


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole or not at all: an error in the middle harms neither the old file nor the folder."""
    path = tmp_path / "a.tape"
    save(path, EXAMPLE)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TapeError, match=r"a\.tape: the tape cannot be written there: .*No space"):
        save(path, SMALL)
    assert seen(load(path).tape) == seen(EXAMPLE.tape)
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder in the file's place, a file in the folder's place, an impossible name."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name in ["folder", "file/a.tape", "a\0b.tape"]:
        with pytest.raises(TapeError, match="cannot be written there"):
            save(tmp_path / name, SMALL)
    assert sorted(found.name for found in tmp_path.rglob("*")) == ["file", "folder"]


def test_places_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, a pipe (which must not block), an impossible name: all are told."""
    os.mkfifo(tmp_path / "pipe")
    for name, reason in [
        ("none.tape", r"none\.tape: the tape cannot be read: .*No such file.*check the path"),
        ("", "not a file but a folder or a device"),
        ("pipe", "not a file but a folder or a device"),
        ("a\0b.tape", "cannot be read"),
    ]:
        with pytest.raises(TapeError, match=reason):
            load(tmp_path / name)


def test_bytes_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other encodings and binary files are refused with the line, and so are huge ones."""
    path = tmp_path / "a.tape"
    path.write_bytes(dumps(SMALL).replace("é", "\xff").encode("latin-1"))
    with pytest.raises(TapeError, match=r"a\.tape:12: not UTF-8"):
        load(path)
    path.write_bytes(dumps(SMALL).encode("utf-16"))
    with pytest.raises(TapeError, match=r"a\.tape:1: not UTF-8"):
        load(path)
    monkeypatch.setattr(file_module, "FILE_BYTES_MAX", 100)
    with pytest.raises(TapeError, match="more than 100 bytes"):
        load(path)


# Where it was recorded


def test_the_same_place_has_no_differences() -> None:
    """A file written here says so, by its defaults."""
    assert differences(TapeFile(Tape.seeded(1))) == []
    assert differences(loads(dumps(TapeFile(Tape.seeded(1))))) == []
    assert TapeFile(Tape.seeded(1)).python == ".".join(map(str, sys.version_info[:3]))


def test_differences_are_told() -> None:
    """When a replay differs, these are the first suspects."""
    here = TapeFile(Tape.seeded(1), hash_seed=2**40)  # larger than any process can have
    there = replace(here, foretold="9.9", python="2.7.1", implementation="pypy", platform="plan9")
    found = differences(there)
    assert found[:4] == [
        f"recorded by foretold 9.9, this is {here.foretold}",
        f"recorded on Python 2.7.1, this is {here.python}",
        f"recorded on pypy, this is {sys.implementation.name}",
        f"recorded on plan9, this is {sys.platform}",
    ]
    assert len(found) == 5
    assert found[4].startswith(f"recorded with hash seed {2**40}, this is ")


@pytest.mark.parametrize(("given", "noted"), [("0", "0"), ("5", "5"), ("random", "None")])
def test_the_hash_seed_is_that_of_the_process(given: str, noted: str) -> None:
    """It is fixed when a process begins, so each case needs one; a random one cannot be known.

    A file that does not say it must not get the reader's.
    """
    code = f"""from foretold.tape.file import *; print(TapeFile(Tape.seeded(1)).hash_seed)
assert loads({dumps(SMALL)!r}).hash_seed is None"""
    source = Path(file_module.__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": given, "PYTHONPATH": str(source)}
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert output.strip() == noted
