"""How long a call may take: a rule that polls for what never comes would go on for ever.

A run has limits of its own, made for whole programs; to reach them takes minutes, and the shrinker
makes many such runs. A call of a rule is small. So it fails the run if it goes on for more than
`call_s_max` of virtual time, or makes more than `call_steps_max` steps. To wait in one piece is no
sign of a loop: `await asyncio.sleep(86400)` in a rule is a jump in time, and may last as long as it
likes. Somebody who looks at his call again and again, and finds that it has moved on each time, can
tell the two apart. Looks are counted in steps of the program, not in time: no timer is needed,
which would keep a deadlock from being seen.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from foretold.errors import LimitExceeded
from foretold.kernel.abandon import chain_of
from foretold.kernel.clock import NS
from foretold.kernel.waiting import place_of_task
from foretold.spec.machine.printing import call_text

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course

MOVES_MAX = 2
"""So many looks in a row it may have moved on, after its time is up."""
TASKS_MAX = 1_000


class Patience:
    def __init__(self, course: Course) -> None:
        self._course = course
        self._seen: dict[int, tuple[int, int]] = {}
        """By call: how many steps it had made, and at how many looks in a row there were more."""

    def begin(self) -> None:
        """From now on, until the run is over."""
        kernel = self._course.world.home.kernel
        if kernel.on_housekeeping is None:
            kernel.on_housekeeping = self._look

    def end(self) -> None:
        """All calls are over, or do not count any more."""
        kernel = self._course.world.home.kernel
        if kernel.on_housekeeping == self._look:
            kernel.on_housekeeping = None

    def _look(self) -> None:
        """Between two steps of the program, now and then."""
        course = self._course
        seen, self._seen = self._seen, {}
        for call in course.busy:
            if call.task is None or course.failure is not None:
                continue
            steps = sum(_steps(task) for task in _at_work(call.task))
            before, moves = seen.get(call.began, (0, 0))
            age_s = (course.world.home.kernel.clock.ns - call.began_ns) / NS
            is_late = age_s > course.machine.call_s_max
            moves = moves + 1 if is_late and steps != before else 0
            self._seen[call.began] = steps, moves
            if moves > MOVES_MAX or steps > course.machine.call_steps_max:
                course.stop(self._error(call, age_s, steps))

    def _error(self, call: Call, age_s: float, steps: int) -> LimitExceeded:
        machine = self._course.machine
        place = place_of_task(call.task) if call.task is not None else None
        where = f" It waits at {place}." if place is not None else ""
        instead = f"call_s_max = {machine.call_s_max * 10:g}"
        if steps > machine.call_steps_max:
            instead = f"call_steps_max = {machine.call_steps_max * 10:g}"
        return LimitExceeded(
            f"{call_text(self._course, call)} is not over after {age_s:,.0f} s of virtual time and "
            f"{steps:,} steps of its own: a loop that waits for what never comes?{where} If it is "
            f"meant to take so long, write {instead} in {type(machine).__name__}"
        )


def _at_work(task: asyncio.Task[Any]) -> Iterator[asyncio.Task[Any]]:
    """The task of a call, and those that it waits for."""
    found, ahead = {task}, [task]
    while ahead and len(found) < TASKS_MAX:
        each = ahead.pop()
        yield each
        for other in _awaited(each):
            if other not in found:
                found.add(other)
                ahead.append(other)


def _awaited(task: asyncio.Task[Any]) -> Iterator[asyncio.Task[Any]]:
    """Tasks that a task waits for: by itself, by `gather`, `wait` or in a task group."""
    waiter = getattr(task, "_fut_waiter", None)
    yield from _tasks([waiter])
    yield from _tasks(getattr(waiter, "_children", ()))
    for innermost in chain_of(task.get_coro())[-1:]:
        for value in gc.get_referents(innermost):  # its variables
            yield from _tasks(value)
            yield from _tasks(inspect.getattr_static(value, "_tasks", ()))  # runs no code of theirs


def _tasks(values: Any) -> Iterator[asyncio.Task[Any]]:
    for value in itertools.islice(values, TASKS_MAX) if type(values) in (list, set) else ():
        if isinstance(value, asyncio.Task) and not value.done():
            yield value


def _steps(task: asyncio.Task[Any]) -> int:
    actor = getattr(task, "actor", None)  # none on a loop that is not ours
    return 0 if actor is None else actor.steps
