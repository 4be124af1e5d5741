"""The choices of a run inside of a scenario file: the body of a tape file, as text.

The file's own head and checksum are left out, because people edit scenarios; they are put back
before the tape's strict reader gets the text.
"""

from __future__ import annotations

import hashlib
import platform

from foretold._version import VERSION
from foretold.tape import Tape, TapeFile
from foretold.tape.file import dumps, loads

_KEPT = ("seed ", "setting ")
_HEAD = (
    "foretold tape 1",
    f"foretold {VERSION}",
    f"python {platform.python_version()} {platform.python_implementation().lower()}",
    "platform linux",
)


def replay_text(tape: Tape) -> str:
    """A tape as a scenario holds it: its settings, the schedule and all choices."""
    text = dumps(TapeFile(tape.derived()))
    head, _, body = text.partition("\n\n")
    kept = [line for line in head.splitlines() if line.startswith(_KEPT)]
    body = body.rpartition("sha256 ")[0].strip()
    return "\n".join([*kept, *(["", body] if body else [])]) + "\n"


def tape_of(text: str) -> Tape:
    """The tape that a scenario holds."""
    head, _, body = text.strip().partition("\n\n")
    lines = [line for line in head.splitlines() if line.strip()]
    if not any(line.startswith("seed ") for line in lines):
        lines.insert(0, "seed 0")
    whole = "\n".join([*_HEAD, "origin derived", *lines, "", body.strip(), "", ""])
    if not body.strip():
        whole = "\n".join([*_HEAD, "origin derived", *lines, "", ""])
    checksum = hashlib.sha256(whole.encode("utf-8")).hexdigest()
    return loads(f"{whole}sha256 {checksum}\n", "replay").tape
