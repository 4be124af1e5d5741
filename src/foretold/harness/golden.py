"""Golden files: the log of the calm run as JSON lines, kept beside the scenario.

A golden file that is missing is a failure: otherwise the first run would always be right.
`--update` writes it, and a person reads the difference.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from foretold.errors import PropertyViolated

SHOWN_MAX = 40


def check_golden(lines: Sequence[str], path: str | Path, *, update: bool = False) -> None:
    """Compare the lines of a log with a file, or write them there. Called outside of a run."""
    path = Path(path)
    text = "".join(f"{line}\n" for line in lines)
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return
    try:
        known = path.read_text("utf-8")
    except FileNotFoundError:
        raise PropertyViolated(
            f"the golden file {path} is missing: write it with --update, read it, and keep it"
        ) from None
    if known == text:
        return
    shown = list(
        difflib.unified_diff(
            known.splitlines(), list(lines), str(path), "this run", lineterm="", n=1
        )
    )
    more = [f"… {len(shown) - SHOWN_MAX} lines more"] if len(shown) > SHOWN_MAX else []
    told = "\n".join([*shown[:SHOWN_MAX], *more])
    raise PropertyViolated(
        f"the log is not that of the golden file {path}:\n{told}\n"
        "If the new log is right, write it with --update"
    )
