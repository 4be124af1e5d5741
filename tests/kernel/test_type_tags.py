"""Types that are changed for a run: what CPython caches about them is right, and costs no tags."""

from __future__ import annotations

import _thread
import ctypes
import threading
from typing import Any

import pytest

import foretold
from foretold.kernel import type_tags
from foretold.kernel.swap import Changes, Setting
from foretold.kernel.type_tags import TypeView

Lock, RLock = type(threading.Lock()), _thread.RLock
only_where_tags_are_few = pytest.mark.skipif(
    not type_tags.LIMITED, reason="only Python 3.12 has so few tags for all immutable types"
)


class Mine(RLock):  # type: ignore[misc,valid-type]  # typeshed calls it final, or a function
    """A class of the program's own, made of one that is changed."""


def taken_by(lock: Any) -> str:
    """One place in the code, which CPython specialises for what it meets there."""
    said: Any = lock.acquire()
    if said is True:
        lock.release()
        return "its own"
    return str(said)


def changes() -> tuple[Setting, Setting]:
    """`acquire` of both kinds of locks says who it is."""
    return (
        Setting(Lock, "acquire", lambda self: "lock"),
        Setting(RLock, "acquire", lambda self: "rlock"),
    )


def test_a_change_is_seen_and_its_end_too() -> None:
    """At call sites that were specialised for either; in subclasses as well."""
    locks = (threading.Lock(), RLock(), Mine())
    changed = Changes()
    for _ in range(100):
        assert [taken_by(lock) for lock in locks * 5] == ["its own"] * 15
        changed.apply(*changes())
        assert [taken_by(lock) for lock in locks * 5] == ["lock", "rlock", "rlock"] * 5
        changed.undo()


def test_a_change_that_fails_leaves_nothing() -> None:
    """All or none: the first is undone if the second can't be done."""
    twice = changes()[0]
    with pytest.raises(foretold.ForetoldError):
        Changes().apply(twice, twice)
    assert taken_by(threading.Lock()) == "its own"
    with pytest.raises(TypeError):
        Lock.mark = 1  # type: ignore[attr-defined]  # immutable, as ever


def next_tag() -> int:
    """Takes one of the few."""
    modified = ctypes.pythonapi.PyType_Modified
    modified(ctypes.py_object(RLock))
    getattr(RLock, "nothing", None)
    tag: int = TypeView.from_address(id(RLock)).tp_version_tag
    return tag


def tags_of_ten_runs() -> int:
    """How many tags are used up by runs, each with a session of its own."""

    def main() -> None:
        thread = threading.Thread(target=threading.Lock().acquire)
        thread.start()
        thread.join()

    foretold.run(main)
    before = next_tag()
    for seed in range(10):
        foretold.run(main, seed=seed)
    return next_tag() - before - 1


@only_where_tags_are_few
def test_runs_use_up_no_tags() -> None:
    """However many runs a process makes, it never comes to the end of them."""
    assert tags_of_ten_runs() == 0


@only_where_tags_are_few
def test_that_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the care that is taken, each run uses up several."""
    monkeypatch.setattr(type_tags, "LIMITED", False)
    assert tags_of_ten_runs() > 10
