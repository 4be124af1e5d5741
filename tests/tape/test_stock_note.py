"""Whether stock asyncio can do it stands on the tape: one of three answers, read strictly.

A tape from before it had that line says nothing about it, and is read as ever.
"""

from __future__ import annotations

import hashlib

import pytest

from foretold.errors import TapeError
from foretold.tape import StockNote, Tape, TapeFile, dumps, loads


@pytest.mark.parametrize(
    ("stock", "line"),
    [
        (StockNote(True), "stock seen"),
        (StockNote(False, reason='no "timer"\n'), 'stock excluded "no \\"timer\\"\\n"'),
        (StockNote(None, tries=600), "stock unseen 600"),
        (StockNote(None, tries=0), "stock unseen 0"),
    ],
)
def test_it_comes_back_as_it_was(stock: StockNote, line: str) -> None:
    """Each of the three, with what belongs to it."""
    text = dumps(TapeFile(Tape.seeded(1), stock=stock))
    assert f"\n{line}\n" in text
    assert loads(text).stock == stock


def test_a_tape_without_it() -> None:
    """As all were before: nobody asked."""
    text = dumps(TapeFile(Tape.seeded(1)))
    assert "stock" not in text
    assert loads(text).stock is None


@pytest.mark.parametrize(
    "line",
    [
        "stock",
        "stock maybe",
        "stock seen 3",
        "stock excluded",
        "stock unseen",
        "stock unseen -1",
        "stock unseen many",
        f"stock unseen {1 << 90}",
        "stock seen\nstock seen",
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    """Also if its checksum fits."""
    body = dumps(TapeFile(Tape.seeded(1), stock=StockNote(True))).rpartition("sha256")[0]
    body = body.replace("stock seen\n", f"{line}\n")
    digest = hashlib.sha256(body.encode()).hexdigest()
    with pytest.raises(TapeError):
        loads(f"{body}sha256 {digest}\n")
