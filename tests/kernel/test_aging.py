"""kernel/aging.py: what a session has to know, and a collection has made old before it began."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

import foretold
from foretold.kernel.patches import patches

IN_1999 = 920_000_000


def year_by(clock: Any) -> int:
    """What a method that was bound before the run says in it."""

    def main() -> int:
        year: int = clock().year
        return year

    year: int = foretold.run(main, epoch_s=IN_1999).value
    return year


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """For each time that a session looks through the whole heap: how many objects it saw."""
    patches.aging.watch()
    foretold.run(lambda: None)
    seen: list[int] = []
    get_objects = gc.get_objects

    def counted(generation: int | None = None) -> list[Any]:
        found = get_objects(generation)
        if generation is None:
            seen.append(len(found))
        return found

    monkeypatch.setattr(gc, "get_objects", counted)
    yield seen
    patches.aging.end()


def grow_old() -> None:
    """What is young becomes old, as it does by itself now and then."""
    gc.collect(1)


def test_what_became_old_is_known_without_a_look_at_all(looks: list[int]) -> None:
    """A clock that was bound, and grew old, between two sessions."""
    clock = datetime.now
    grow_old()
    assert year_by(clock) == 1999
    assert year_by(clock) == 1999
    assert looks == []


def test_generators_that_became_old_are_known(looks: list[int]) -> None:
    """One without a seed draws from the tape, which is the same in both runs."""
    generator = random.Random()
    grow_old()
    first, second = (foretold.run(lambda: generator.random(), seed=1).value for _ in range(2))
    assert first == second
    assert looks == []


def test_who_was_not_heard_is_looked_for(looks: list[int]) -> None:
    """Somebody took the callback away: the whole heap is looked through, as without it."""
    gc.callbacks.clear()
    clock = datetime.now
    grow_old()
    assert year_by(clock) == 1999
    assert len(looks) == 1


def test_what_nobody_else_holds_is_let_go(looks: list[int]) -> None:
    """Bound methods of many tests do not pile up."""
    for _ in range(20):
        grow_old()
        assert year_by(datetime.now) == 1999
    clock = datetime.now
    assert year_by(clock) == 1999
    held = [swap.function for swap in patches._bound]
    assert sum(each is clock for each in held) == 1
    assert len(held) < 20
    assert looks == []


def test_nothing_else_is_kept_alive(looks: list[int]) -> None:
    """A bound method of a list is no concern of a session."""
    things: list[int] = []
    append = things.append
    held = sys.getrefcount(append)
    grow_old()
    assert sys.getrefcount(append) == held
    assert looks == []


def test_nothing_stays_in_the_collector() -> None:
    """After `end` the collector calls nobody, and a session looks at everything again."""
    before = list(gc.callbacks)
    patches.aging.end()
    foretold.run(lambda: None)
    patches.aging.watch()
    foretold.run(lambda: None)
    assert any(each.__self__ is patches.aging for each in gc.callbacks if hasattr(each, "__self__"))
    patches.aging.end()
    assert not any(getattr(each, "__self__", None) is patches.aging for each in gc.callbacks)
    assert patches.aging.seen() is None
    gc.callbacks[:] = before
