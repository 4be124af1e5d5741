"""What a tape's file says about its run: where it was recorded, and what came of it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from platform import python_version

from foretold._version import VERSION
from foretold.tape.tape import Tape

MESSAGE_CHARS_MAX = 500


def hash_seed_here() -> int | None:
    """The hash seed of this process, or None if it is a random one."""
    if not sys.flags.hash_randomization:
        return 0
    value = "" if sys.flags.ignore_environment else os.environ.get("PYTHONHASHSEED", "")
    # "0" would have switched randomisation off: then it was set after the process began.
    return (int(value) or None) if re.fullmatch("[0-9]{1,10}", value) else None


@dataclass(frozen=True, slots=True)
class FailureNote:
    """What went wrong in the run, for a person; only the first line of the message is kept."""

    type_name: str
    message: str = ""
    place: str = ""
    """`file:line`, or empty."""

    def __post_init__(self) -> None:
        lines = (line.strip() for line in self.message.splitlines())
        first = next(filter(None, lines), "")[:MESSAGE_CHARS_MAX].rstrip()
        object.__setattr__(self, "message", first)


@dataclass(frozen=True, slots=True)
class StockNote:
    """Whether stock asyncio can do this."""

    possible: bool | None = None
    """True: a run in its order failed like this. False: it is excluded, for a `reason`. None: it
    was not seen in so many `tries`."""
    tries: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TapeFile:
    """A tape, and under which circumstances it was recorded."""

    tape: Tape
    target: str = ""
    """A pytest node id or `module:function`, or empty."""
    failure: FailureNote | None = None
    digest: str | None = None
    """The digest of the run's trace."""
    foretold: str = VERSION
    python: str = field(default_factory=python_version)
    implementation: str = sys.implementation.name
    platform: str = sys.platform
    hash_seed: int | None = field(default_factory=hash_seed_here)
    unfinished: bool = False
    """Saved while it was being shrunk: there may be a smaller one."""
    stock: StockNote | None = None
    """None if nobody asked."""


def environment_differences(file: TapeFile) -> list[str]:
    """What is different here from where the tape was recorded, each as half a sentence."""
    pairs = [
        ("by foretold ", file.foretold, VERSION),
        ("on Python ", file.python, python_version()),
        ("on ", file.implementation, sys.implementation.name),
        ("on ", file.platform, sys.platform),
    ]
    if file.hash_seed is not None:
        here = hash_seed_here()
        pairs.append(
            ("with hash seed ", str(file.hash_seed), "random" if here is None else str(here))
        )
    return [f"recorded {how}{there}, this is {here}" for how, there, here in pairs if there != here]
