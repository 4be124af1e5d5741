"""Where threads stand, and what they wait for: for deadlocks and stories."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.errors import ForetoldError, Waiting
from foretold.kernel import real
from foretold.kernel.waiting import Blocked, is_library, is_ours, users_place
from foretold.trace import Place, raised
from foretold.trace.events import Ended

if TYPE_CHECKING:
    from foretold.kernel.threads.crew import Crew
    from foretold.kernel.threads.strand import Strand

_FRAMES_MAX = 200
_CALLS_MAIN = "_run_to_its_end"
"""The function of `world/run.py` in which the program begins, and ends."""
owners: dict[int, tuple[Any, Strand, Place | None]] = {}
"""Who holds which lock, by the lock's id, as far as it was taken while threads were there."""


def frames_of(strand: Strand) -> list[Place]:
    """The lines at which a thread stands, the outermost first."""
    return stack_of(strand.ident)


def stack_of(ident: int) -> list[Place]:
    """The same of any thread of the run."""
    frame = real.current_frames().get(ident)
    places: list[Place] = []
    while frame is not None and len(places) < _FRAMES_MAX:
        code = frame.f_code
        if not is_ours(code.co_filename):
            places.append(Place(code.co_filename, frame.f_lineno, code.co_qualname))
        elif code.co_name == _CALLS_MAIN:
            break  # below it are those who called foretold.run
        frame = frame.f_back
    return places[::-1]


def place_of_strand(strand: Strand) -> Place | None:
    """The user's line at which a thread stands. In the worker of a pool, which has none while it
    waits for work: what it does, and not the locks beneath that."""
    places = frames_of(strand)
    if any(not is_library(place.file) for place in places):
        return users_place(places)
    works = (place for place in places if not place.function.startswith("Thread."))
    return next(works, users_place(places))


def note_failed_main(crew: Crew | None, error: BaseException) -> None:
    """The program's main has failed, in its main thread: for stories alone."""
    if crew is not None and crew.threaded and not isinstance(error, ForetoldError):
        actor, kernel = crew.main.actor, crew.kernel
        who = (kernel.host, actor.name, actor.steps)
        kernel.trace.keep(Ended(crew.clock.ns, *who, outcome=raised(error)))


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


def words_for(strand: Strand, *, for_ever: bool = True) -> str:
    """What a thread waits for; `for_ever` if nobody is left who could give it that."""
    wanted = strand.waits_for
    if isinstance(wanted, str):
        return wanted
    kind = "a lock" if isinstance(wanted, real._Lock) else "an RLock"
    held = owners.get(id(wanted))
    if held is None:
        return f"{kind} that nobody gives back" if for_ever else kind
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


def _blocked(crew: Crew, strand: Strand) -> Blocked:
    places, name = frames_of(strand), strand.actor.name
    waits = Waiting(name, (crew.kernel.host, name), users_place(places), words_for(strand))
    stack = [place for place in places if not is_library(place.file)]
    return waits, [f"      {place} in {place.function}" for place in reversed(stack[:-1])]


def blocked_of(crews: Iterable[Crew]) -> list[Blocked]:
    """For a deadlock: where each thread waits, for what, and who holds it."""
    return [_blocked(crew, strand) for crew in crews for strand in crew.blocked]
