"""What a tape's file says about its run: where it was recorded, and what came of it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from platform import python_version
from typing import Any

from foretold._version import VERSION
from foretold.tape.schedule import Key
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
class DecidedNote:
    """What was found to decide the failure, by other runs than the one on the tape. It is true of
    the run with the digest that the file notes."""

    pair: tuple[Key, Key] | None = None
    """Two steps in the order in which it fails."""
    values: tuple[str, str] | None = None
    """A value that fails, and one that holds."""
    times: tuple[int, int] | None = None
    """The same for a delay, in nanoseconds."""
    expired: tuple[str, str] | None = None
    """Host and task whose timeout expires with the longer delay alone."""
    needs_faults: bool = False
    orders_tried: int = 0

    def sentences(self) -> Iterator[tuple[str, tuple[str | int, ...]]]:
        """What is known, for a file: a word of `DECIDED`, and what stands behind it."""
        if self.pair is not None:
            yield "steps", (*self.pair[0], *self.pair[1])
        if self.values is not None:
            yield "values", self.values
        if self.times is not None:
            yield "times", self.times
        if self.expired is not None:
            yield "expired", self.expired
        if self.needs_faults:
            yield "faults", ()
        if self.orders_tried:
            yield "orders", (self.orders_tried,)


DECIDED = {"steps": "ssnssn", "values": "ss", "times": "nn", "expired": "ss", "faults": "",
           "orders": "n"}  # fmt: skip
"""What stands behind each word: texts and numbers."""


def decided_field(word: str, said: list[str | int]) -> dict[str, Any]:
    """A sentence of a file as a field of `DecidedNote`."""
    fields: dict[str, Any] = {
        "steps": {"pair": (tuple(said[:3]), tuple(said[3:]))},
        "faults": {"needs_faults": True},
        "orders": {"orders_tried": said[-1] if said else 0},
    }
    return dict(fields.get(word, {word: tuple(said)}))


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
    decided: DecidedNote | None = None
    """None if nobody asked, or if it was not found out."""


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
