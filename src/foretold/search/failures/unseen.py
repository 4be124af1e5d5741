"""A failure that nobody looks at: `foretold.explore(main)` in a plain test, and no word after it.

The test would pass over what the search has found. So the outcome of a search that failed gives a
warning when it is thrown away, or when the interpreter exits, unless somebody has looked at it. The
warning names the line that called `explore`.
"""

from __future__ import annotations

import warnings
import weakref
from types import FrameType

from foretold.errors import UnseenFailure
from foretold.world.current import world_or_none


class Attention:
    """Whether somebody has looked."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = False


_late: list[tuple[str, str, int]] = []
"""Warnings that came up inside of a run, where writing them would be a part of the run."""


def warn_if_unseen(outcome: object, look: Attention, found: str, caller: FrameType) -> None:
    """Warn when `outcome` is gone and nobody has looked. `found` says what the failure is."""
    message = (
        f"foretold.explore found a failure, and its outcome was ignored: {found}. Write "
        "foretold.explore(…).raise_failure(), or look at outcome.failure"
    )
    place = caller.f_code.co_filename, caller.f_lineno
    # Not __del__: this one is also called when the interpreter exits, before modules are gone.
    weakref.finalize(outcome, _gone, look, message, *place)
    _warn_late()


def _gone(look: Attention, message: str, file: str, line: int) -> None:
    if look.taken:
        return
    _late.append((message, file, line))
    if world_or_none() is None:
        _warn_late()


def _warn_late() -> None:
    while _late:
        message, file, line = _late.pop(0)
        warnings.warn_explicit(UnseenFailure(message), None, file, line)
