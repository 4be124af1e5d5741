"""Looking at the invariants: after a step, at quiet moments, at the end, and once faults stopped.

A quiet moment is one at which no call is under way, and work that goes on by itself (background
tasks, late commits) has had `quiet_s` of virtual time. Waiting for it would hide what overlaps with
the next call; so where there are quiet moments before the end is a choice of the tape.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foretold.spec.machine import sql
from foretold.spec.machine.invariants import END, LIVENESS, QUIET, STEP, Invariant
from foretold.spec.machine.printing import call_text

if TYPE_CHECKING:
    from foretold.spec.machine.course import Call, Course

POLLS = 64
"""How often a condition is looked at, at most, before its time is up."""
FIRST_POLL_S = 0.001


class Checks:
    """The invariants of one run."""

    def __init__(self, course: Course) -> None:
        self._course = course
        plan = course.blueprint
        self._of_steps, self._of_quiet = plan.at(STEP), plan.at(QUIET)
        self._of_end, self._live = plan.at(END), plan.at(LIVENESS)
        for each in plan.invariants:
            course.tally.invariant(each.name, checked=False)

    def begin(self) -> None:
        """The machine is set up: databases are watched from here on."""
        if self._course.blueprint.has_sql:
            sql.watch(self._course)

    # --- when ------------------------------------------------------------------------------------

    def after_step(self, call: Call | None = None) -> None:
        """After each call, in the same step of the program as its end."""
        for each in self._of_steps:
            if self._course.holds(each):
                try:
                    self._judge(each, each.function(self._course.machine))
                except Exception as error:
                    self._failed(each, error, call)
                    raise

    def after_call(self, call: Call) -> None:
        """A call is over."""
        course = self._course
        for companion in course.companions:
            companion.returned(call)
        if call.number > 0:
            self.after_step(call)

    async def quiet(self) -> None:
        """Nobody is at work, and what goes on by itself gets some time."""
        course = self._course
        async with course.world.calm():
            await course.world.clock.advance(course.machine.quiet_s)
            await self._look_at(self._of_quiet)
            for companion in course.companions:
                await companion.quiet()

    async def at_end(self) -> None:
        """The last call is over."""
        course = self._course
        if self._of_quiet or self._of_end or course.companions:
            await self.quiet()
            async with course.world.calm():
                await self._look_at(self._of_end)
                for companion in course.companions:
                    await companion.end()
        if self._live:
            await self._become_true()
        if course.failure is not None:
            raise course.failure

    async def _look_at(self, invariants: Iterable[Invariant]) -> None:
        for each in invariants:
            if self._course.holds(each):
                try:
                    self._judge(each, await self._ask(each))
                except Exception as error:
                    self._failed(each, error)
                    raise

    async def _become_true(self) -> None:
        """Faults stop; each condition has its time to become true."""
        course = self._course
        await course.world.heal()
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        waiting, pause_s = [each for each in self._live if self._course.holds(each)], FIRST_POLL_S
        while waiting:
            late = {e for e in waiting if loop.time() - start_s >= e.within_s}
            waiting = [e for e in waiting if not await self._is_true(e, last=e in late)]
            next_s = min((start_s + e.within_s for e in waiting), default=0.0)
            await asyncio.sleep(max(0.0, min(pause_s, next_s - loop.time())))
            pause_s = min(2 * pause_s, max((e.within_s for e in waiting), default=0.0) / POLLS)

    async def _is_true(self, each: Invariant, *, last: bool) -> bool:
        within = f"within {each.within_s:g} s of virtual time after faults had stopped"
        try:
            result = await self._ask(each)
        except Exception as error:
            if not isinstance(error, AssertionError) and not self._course.is_tolerated(error):
                self._failed(each, error)
                raise
            if last:
                self._failed(each, error, said=f"did not become true {within}")
                raise
            return False
        if result is None or result or _number(result) is not None:
            self._course.tally.invariant(each.name, over=_number(result))
            return True
        if last:
            violated = each.violated(f"{each.words}: not so {within}")
            self._failed(each, violated, said=f"did not become true {within}")
            raise violated
        return False

    # --- how -------------------------------------------------------------------------------------

    async def _ask(self, each: Invariant) -> Any:
        result = each.function(self._course.machine)
        return await result if inspect.isawaitable(result) else result

    def _judge(self, each: Invariant, result: Any) -> None:
        if result is False:
            raise each.violated(f"{each.words}: not so, {each.name} is false")
        self._course.tally.invariant(each.name, over=_number(result))

    def _failed(
        self, each: Invariant, error: Exception, call: Call | None = None, said: str = "failed"
    ) -> None:
        after = "" if call is None else f" after {call_text(self._course, call)}"
        self._course.fail(error, f"the invariant {each.name} {said}{after}")


def _number(result: Any) -> int | None:
    """Over how many things it ranged, if it says so."""
    return result if isinstance(result, int) and not isinstance(result, bool) else None
