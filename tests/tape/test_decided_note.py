"""What was found to decide a failure stands on the tape, so that a replay tells it, too."""

from __future__ import annotations

import hashlib

import pytest

from foretold.errors import TapeError
from foretold.tape import DecidedNote, Tape, TapeFile, dumps, loads


@pytest.mark.parametrize(
    ("decided", "lines"),
    [
        (
            DecidedNote(pair=(("main", "alice", 2), ("main", "step", 3))),
            'decided steps main alice 2 main "step" 3',
        ),
        (DecidedNote(values=("n = 3", "n = 2")), 'decided values "n = 3" "n = 2"'),
        (
            DecidedNote(times=(1_000, 900), expired=("web", "the client")),
            'decided times 1000 900\ndecided expired web "the client"',
        ),
        (DecidedNote(needs_faults=True), "decided faults"),
        (DecidedNote(orders_tried=40), "decided orders 40"),
    ],
)
def test_it_comes_back_as_it_was(decided: DecidedNote, lines: str) -> None:
    """Each kind, and names that have to be quoted."""
    text = dumps(TapeFile(Tape.seeded(1), decided=decided))
    assert f"\n{lines}\n" in text
    assert loads(text).decided == decided


def test_a_tape_without_it() -> None:
    """As all were before: nobody asked."""
    text = dumps(TapeFile(Tape.seeded(1)))
    assert "decided" not in text
    assert loads(text).decided is None


@pytest.mark.parametrize(
    "line",
    [
        "decided",
        "decided maybe",
        "decided maybe 3",
        "decided steps main alice 2",
        "decided steps main alice two main bob 1",
        "decided values 3",
        "decided times -1 3",
        f"decided times {1 << 90} 3",
        "decided expired main",
        "decided orders 40 more",
        "decided pair",
        "decided faults\ndecided faults",
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    """Also if its checksum fits."""
    known = DecidedNote(needs_faults=True)
    body = dumps(TapeFile(Tape.seeded(1), decided=known)).rpartition("sha256")[0]
    body = body.replace("decided faults\n", f"{line}\n")
    digest = hashlib.sha256(body.encode()).hexdigest()
    with pytest.raises(TapeError):
        loads(f"{body}sha256 {digest}\n")
