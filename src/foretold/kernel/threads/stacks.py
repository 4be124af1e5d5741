"""Where threads stand, and what they wait for: for deadlocks and stories."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.kernel import real
from foretold.kernel.waiting import is_library, is_ours, users_place, wait_line
from foretold.trace import Place

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew
    from foretold.kernel.threads.strand import Strand

_FRAMES_MAX = 200
_CALLS_MAIN = "_call"
"""The function of `world/run.py` in which the program begins."""
owners: dict[int, tuple[Any, Strand, Place | None]] = {}
"""Who holds which lock, by the lock's id, as far as it was taken while threads were there."""


def frames_of(strand: Strand) -> list[Place]:
    """The lines at which a thread stands, the outermost first."""
    frame = sys._current_frames().get(strand.ident)
    places: list[Place] = []
    while frame is not None and len(places) < _FRAMES_MAX:
        code = frame.f_code
        if not is_ours(code.co_filename):
            places.append(Place(code.co_filename, frame.f_lineno, code.co_qualname))
        elif code.co_name == _CALLS_MAIN:
            break  # below it are those who called foretold.run
        frame = frame.f_back
    return places[::-1]


def users_line() -> Place | None:
    """The user's line that the calling thread executes."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return None


def free_locks_of(gone: Iterable[Strand]) -> None:
    """Give back what threads hold that never go on."""
    dead = set(gone)
    for key, (lock, owner, _) in list(owners.items()):
        if owner in dead:
            del owners[key]
            if isinstance(lock, real._Lock):
                real.lock_release(lock)
            else:
                real.rlock_release_save(lock)


def _words_for(strand: Strand) -> str:
    """What a thread waits for."""
    wanted = strand.waits_for
    if isinstance(wanted, str):
        return wanted
    kind = "a lock" if isinstance(wanted, real._Lock) else "an RLock"
    held = owners.get(id(wanted))
    if held is None:
        return f"{kind} that nobody gives back"
    _, owner, place = held
    if wanted in owner.last_locks:
        return f"the end of {owner.actor.name}"
    if owner is strand and (called := _library_call(strand)) is not None:
        return called
    who = "itself" if owner is strand else owner.actor.name
    return f"{kind} that is held by {who}" + (f", taken at {place}" if place else "")


def _library_call(strand: Strand) -> str | None:
    """What the program called of the standard library that waits by a lock of its own."""
    places = frames_of(strand)
    own = [number for number, place in enumerate(places) if not is_library(place.file)]
    calls = places[own[-1] + 1 :] if own else places
    for place in calls:
        module = os.path.splitext(os.path.basename(place.file))[0]
        if not place.function.startswith("Thread."):
            return f"{place.function}() in {module}"
    return None


def _lines_of(strand: Strand) -> list[str]:
    places = frames_of(strand)
    lines = [wait_line(strand.actor.name, users_place(places), _words_for(strand))]
    stack = [place for place in places if not is_library(place.file)]
    lines += [f"      {place} in {place.function}" for place in reversed(stack[:-1])]
    return lines


def lines_about(crews: Iterable[Crew]) -> list[str]:
    """For a deadlock: where each thread waits, for what, and who holds it."""
    return [line for crew in crews for strand in crew.blocked for line in _lines_of(strand)]
