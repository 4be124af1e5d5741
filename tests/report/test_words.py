"""docs/reports.md explains the words of a report: none that the engine uses is missing there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.stored import FOLDER

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text("utf-8")
WORDS = (
    "What broke", "These two steps decide it", "Time decides it", "A value decides it",
    "The faults decide it", "other orders that were tried", "in the one other order",
    "With the longer one a timeout of",
    "All take turns, first come first served, except that", "No task was delayed",
    "was held before its", "did not start until", "the event loop was late by",
    "What happened, in virtual time", "starts", "goes on", "runs to line", "runs to its end",
    "is back at this line", "(held here)", "let go:", "(waits for", "waits forever", "chooses",
    "blocked its host for", "expires)", "which is not caught", "the test sets:", "later)",
    "fails: ", "Meanwhile", "other tasks took", "two transactions",
    "looked for a row in", "Whether these were the same rows is not known",
    "In the database a transaction has seen two states", "a request that was answered too soon",
    "the request whose commit has broken the invariant", "No two of these got into each other",
    "something was done twice, after an answer was lost",
    "waits for a lock", "(after this the invariant fails)", "flushed by the commit at", "shrunk to",
    "Stock asyncio can do this", "Real threads can do this",
    "Stock asyncio does not take this order",
    "Replayed in a fresh process",
)  # fmt: skip
"""What a reader may ask about."""


def _engine() -> str:
    """The sources that make the words, and notes in which they stand."""
    root = Path(__file__).parents[2] / "src" / "foretold"
    sources = [
        path for part in ("search", "story", "report") for path in (root / part).rglob("*.py")
    ]
    return "\n".join(path.read_text("utf-8") for path in [*sources, *FOLDER.glob("note-*.txt")])


ENGINE = _engine()


@pytest.mark.parametrize("word", WORDS)
def test_it_is_explained(word: str) -> None:
    """Where a reader looks for it; and the engine still says it so."""
    assert word in PAGE
    assert word in ENGINE


def test_every_line_of_the_stored_notes_has_such_a_word() -> None:
    """Notes are made of these words, so a new kind of line needs a new entry. Lines of stacks, and
    those that go on with a sentence, are no lines of their own."""
    known = (*WORDS, "Replay it:", "The order came from the seed")
    for path in FOLDER.glob("note-*.txt"):
        for line in path.read_text("utf-8").splitlines():
            if line[:1].isupper():
                assert any(word in line for word in known), (path.name, line)
