"""Texts that people read are compared with stored ones, word for word.

`FORETOLD_REWRITE=1 pytest tests/report tests/cli` writes them anew; then read the difference.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).parent / "stored"


def assert_as_stored(name: str, text: str) -> None:
    """`text` is what the file `stored/NAME.txt` holds."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("FORETOLD_REWRITE"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    stored = path.read_text(encoding="utf-8").removesuffix("\n")
    assert text == stored, "\n".join(difflib.ndiff(stored.splitlines(), text.splitlines()))
