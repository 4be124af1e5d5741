"""Where a world stands: each thread and each task, by the user's lines. For runs that do not end.

It is asked from another thread while the run goes on, or does not: everything is copied first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretold.arguments import printable
from foretold.kernel.threads.stacks import stack_of, words_for
from foretold.kernel.threads.strand import ENDED, Strand
from foretold.kernel.waiting import (
    await_chain,
    describe_wait,
    is_library,
    is_machinery,
    place_of_task,
    users_place,
    wait_line,
)
from foretold.kernel.watchdog import Watch
from foretold.trace import Place

if TYPE_CHECKING:
    from foretold.world.world import World

LINES_MAX = 40
CALLERS_MAX = 8


def watch_over(world: World, wall_s_max: float) -> Watch:
    """What the watchdog has to know of a run."""
    return Watch(
        wall_s_max,
        progress=lambda: sum(host.kernel.clock.ns for host in list(world.hosts.values())),
        holder=lambda: _holder_of(world),
        standing=lambda: standing(world),
    )


def _holder_of(world: World) -> int | None:
    """The thread that runs, if it is not the one that drives."""
    crew = world.home.kernel.crew
    if crew is None or crew.baton.holder is crew.baton.driver:
        return None
    return crew.baton.holder.ident


def standing(world: World) -> str:
    """Who runs, and who waits where for what."""
    running = _running(world)
    waiting = [*_threads(world), *_tasks(world)]
    shown = waiting[:LINES_MAX]
    if len(waiting) > LINES_MAX:
        shown.append(f"  … and {len(waiting) - LINES_MAX} more")
    return "\n".join(["Where it stands:", *running, *shown, *world.outside.in_services()])


def _running(world: World) -> list[str]:
    """The one that has the processor, with those who called it."""
    ident = _holder_of(world) or world.driver
    crew = world.home.kernel.crew
    strand = None if crew is None else crew.baton.holder
    host = world.home if strand is None else world.hosts[strand.crew.kernel.host]
    places = stack_of(ident)
    own = [place for place in places if not is_library(place.file)]
    place = users_place(places)
    if place is None or (not own and (strand is None or strand.is_main)):
        return []  # a loop that has nothing to do
    who = host.kernel.current.name if strand is None or strand.is_main else strand.actor.name
    who = who if host is world.home else f"{host.name}/{who}"
    return [f"  {printable(who)} runs at {place}{_inside(places) if own else ''}", *_callers(own)]


def _inside(places: list[Place]) -> str:
    """What of others' code it is in."""
    inner = places[-1]
    return f", in {inner.function} at {inner}" if is_library(inner.file) else ""


def _callers(own: list[Place]) -> list[str]:
    return [f"      {place} in {place.function}" for place in own[-2 : -2 - CALLERS_MAX : -1]]


def _threads(world: World) -> list[str]:
    """The threads that do not run."""
    found = []
    for crew in world.outside.crews():
        for strand in [*crew.strands, crew.main]:
            if strand is not crew.baton.holder and strand.state is not ENDED and strand.ident:
                found += _thread(strand)
    return found


def _thread(strand: Strand) -> list[str]:
    places = stack_of(strand.ident)
    own = [place for place in places if not is_library(place.file)]
    if strand.is_main and not own:
        return []  # the main thread of a host, whose loop has nothing to do
    words = "its turn" if strand.waits_for is None else words_for(strand, for_ever=False)
    return [wait_line(strand.actor.name, users_place(places), words), *_callers(own)]


def _tasks(world: World) -> list[str]:
    """The tasks that do not run."""
    lines = []
    for task in world.outside.tasks():
        coro = task.get_coro()
        if not getattr(coro, "cr_running", False) and not is_machinery(await_chain(coro)):
            lines.append(wait_line(task.get_name(), place_of_task(task), describe_wait(task)))
    return lines
