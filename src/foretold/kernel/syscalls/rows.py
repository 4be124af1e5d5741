"""What a row of the table of system calls is.

Each name of a module that can reach the machine is in exactly one row, of one of three kinds:

    answered   the computer of the run answers it
    harmless   it reaches nothing outside of the interpreter that a run could notice or change;
               the row says why
    refused    it raises `EscapedWorld`: the row says why it cannot be replayed, and what to write
               instead

A name that is in no row is an error of the test that compares the table with the running Python, so
that a new Python cannot open a hole.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Show = Callable[[str, Sequence[Any]], str]


class Fate(enum.Enum):
    """What becomes of a call inside a run."""

    ANSWERED = "answered"
    HARMLESS = "harmless"
    REFUSED = "refused"


class CallRow(NamedTuple):
    """Names of one module that share their fate."""

    kind: Fate
    module: str
    names: tuple[str, ...]
    why: str
    """Of an answered one: who answers. Of a harmless one: why it is. Of a refused one: why the call
    breaks replay."""
    instead: str = ""
    """What to write instead. An answered one may have it too: for a computer that has no answer."""
    show: Show | None = None
    """How the call is shown in the error; by default with all its arguments."""


def answered(module: str, names: str, by: str) -> CallRow:
    """The computer answers; one that has no answer leaves it to the real machine."""
    return CallRow(Fate.ANSWERED, module, tuple(names.split()), by)


def answered_or_refused(
    module: str, names: str, why: str, instead: str, show: Show | None = None
) -> CallRow:
    """The computer answers; one that has no answer refuses."""
    return CallRow(Fate.ANSWERED, module, tuple(names.split()), why, instead, show)


def harmless(module: str, names: str, why: str) -> CallRow:
    """Nothing happens to it."""
    return CallRow(Fate.HARMLESS, module, tuple(names.split()), why)


def refused(module: str, names: str, why: str, instead: str, show: Show | None = None) -> CallRow:
    """No computer answers it."""
    return CallRow(Fate.REFUSED, module, tuple(names.split()), why, instead, show)


def words(text: str) -> frozenset[str]:
    """Names that are written one after the other."""
    return frozenset(text.split())


PUBLIC_NAMES = {"posix": "os", "_signal": "signal", "_socket": "socket", "_io": "io"}
"""Modules in C that programs know under another name."""


def public_name(module: str, name: str) -> str:
    """The call as it stands in a program."""
    return f"{PUBLIC_NAMES.get(module, module)}.{name}"
