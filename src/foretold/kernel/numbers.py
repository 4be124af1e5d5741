"""What tasks, futures, threads, locks and streams hash by in a run: numbers, not addresses.

A set yields its members by their hashes. The address of an object, which is its hash in
production, differs from process to process, so any order of such a set is possible there. Here the
tape decides: calm is the order in which the objects were made, otherwise their numbers are random.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

from foretold.tape import Tape
from foretold.tape.streams import TapeRandom

STREAM: Final = "sets"
LABEL: Final = "sets of tasks are in an order of their own"
WITHOUT_ORDER: Final = {asyncio.gather.__code__}
"""Functions that keep tasks where their order does not show: `gather` has a dictionary for them."""
_CALLERS: Final = 3
"""So far from such a function the hash is asked for, at most: `_wait`, `wait`, the function."""
_BITS: Final = 60
"""Of a hash: Python keeps 61 on a 64-bit machine, without the sign."""


class Numbers:
    """The source of hashes. There is one: objects are made, and hashed, without knowing a world."""

    def __init__(self) -> None:
        self.next: Callable[[], int] = itertools.count(1).__next__
        self.are_asked = False
        """Whether there was, perhaps, a set of two such objects. One alone has one order only."""
        self._asked_first: int | None = None

    def begin_run(self, tape: Tape) -> None:
        """A run does not depend on the ones before it."""
        self.are_asked, self._asked_first = False, None
        self.next = itertools.count(1).__next__
        # Not for an enumerated tape: nobody goes through all orders. Nor for one that was recorded
        # when there was nothing to draw.
        known = tape.origin != "recorded" or f"{STREAM}/order" in tape.choices
        if tape.origin != "enumerated" and known:
            drawn = tape.stream(STREAM, "order")
            if drawn.boolean(LABEL):
                seed = drawn.choose(1 << 32, "order of sets of tasks")
                self.next = functools.partial(TapeRandom(seed).getrandbits, _BITS)

    def note_asked(self, number: int) -> None:
        """Somebody wants the hash of an object: for a set or a dictionary, most likely."""
        if self._asked_first is None:
            self._asked_first = number
        elif self._asked_first != number:
            self.are_asked = self.are_asked or not _is_without_order(sys._getframe(2))


def _is_without_order(frame: FrameType | None) -> bool:
    for _ in range(_CALLERS):
        if frame is not None:
            if frame.f_code in WITHOUT_ORDER:
                return True
            frame = frame.f_back
    return False


numbers: Final = Numbers()
