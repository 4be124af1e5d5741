"""What grows old between two sessions, seen while it is young.

A session has to know some objects that were made before it: bound clocks, bound methods of locks,
generators of random numbers. One session after the other looks at what is young. But collections
make young objects old, and to look through all that is old takes a tenth of a second where a large
application is imported: in a suite of tests, for nearly each of them. So, as long as pytest runs,
the collector says when it is about to do that, and what is young is looked at there and then.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

_FIGURES_TELL: Final = sys.version_info < (3, 14)
"""Whether the collector counts each collection that makes objects old: since 3.14 it moves some in
between, and counts that nowhere."""
_FIRST_THAT_AGES: Final = 1 if _FIGURES_TELL else 0
"""The first generation of which a collection makes old objects."""
Choose = Callable[[list[Any]], list[Any]]


def young() -> list[Any]:
    """What no collection has made old so far."""
    return [*gc.get_objects(0), *gc.get_objects(1)]


def collections() -> int | None:
    """Grows whenever young objects may have become old ones; None where nobody can tell."""
    if not _FIGURES_TELL:
        return None
    figures = [int(each["collections"]) for each in gc.get_stats()]
    return sum(figures[_FIRST_THAT_AGES:])


def _weakly(thing: Any) -> Callable[[], Any]:
    """Gives the object as long as somebody else has it; if that cannot be told, in any case."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


class Aging:
    """What was of interest among the objects that have become old since the last session."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._is_wanted = False
        self._before: int | None = None
        self._heard = 0
        self._is_complete = False
        """Whether all collections since the last session were heard."""
        self._seen: list[Callable[[], Any]] = []

    def watch(self) -> None:
        """Many sessions will follow."""
        self._is_wanted = True

    def end(self) -> None:
        """No more of them."""
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)
        self._is_wanted = self._is_complete = False
        self._seen.clear()

    def pause(self, callbacks: list[Any]) -> None:
        """A session begins, and the collector's `callbacks` are put away."""
        if self._collecting not in callbacks:
            self._is_complete = False  # somebody took it away

    def begin_anew(self, callbacks: list[Any]) -> None:
        """A session is over. `callbacks` are those that come back."""
        self._seen.clear()
        self._before, self._heard, self._is_complete = collections(), 0, self._is_wanted
        if self._is_wanted and self._collecting not in callbacks:
            callbacks.append(self._collecting)

    def seen(self) -> list[Any] | None:
        """What has become old since then; None if some of it may have been missed."""
        counted = collections()
        if counted is not None and self._before is not None:
            self._is_complete &= counted == self._before + self._heard
        found = [each() for each in self._seen]
        return [each for each in found if each is not None] if self._is_complete else None

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] >= _FIRST_THAT_AGES:
            self._heard += 1
            self._seen += map(_weakly, self._choose(young()))
