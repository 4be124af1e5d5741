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

from foretold.errors import PropertyViolated
from foretold.spec.machine import mirrors, sql
from foretold.spec.machine.invariants import COMMIT, END, INSTANT, LIVENESS, QUIET, STEP, Invariant
from foretold.spec.machine.printing import call_text
from foretold.spec.machine.tables import Tables

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course
    from foretold.world.host import Host

_UNREAD = "found in web.errors. If it may happen, write world.web(app, allows=[…])"
POLLS = 64
"""How often a condition is looked at, at most, before its time is up."""
FIRST_POLL_S = 0.001


class Checks:
    def __init__(self, course: Course) -> None:
        self._course = course
        plan = course.blueprint
        self._of_steps, self._of_quiet = plan.at(STEP), plan.at(QUIET)
        self._of_end, self._live = plan.at(END), plan.at(LIVENESS)
        self._of_instants = plan.at(INSTANT)
        for each in plan.invariants:
            course.tally.invariant(each.name, checked=False)
        self._mirrors: list[mirrors.Reflection] = []
        self._tables: dict[str, Tables] = {}

    def tables_of(self, server: Any) -> Tables:
        """The tables of a server. Invariants and mirrors share them: they ask the same of each
        commit."""
        name = server.host.name
        if name not in self._tables:
            self._tables[name] = Tables(server)
        return self._tables[name]

    def begin(self) -> None:
        """The machine is set up: databases and instants are watched from here on."""
        if self._of_instants:
            self._course.world.outside.watch(self._at_instant)
        if any(each.when == COMMIT for each in self._course.blueprint.invariants):
            sql.watch(self._course)
        self._mirrors = mirrors.watch(self._course)

    def end(self) -> None:
        """The machine is at work no more."""
        watchers = self._course.world.outside.watchers
        if self._at_instant in watchers:
            watchers.remove(self._at_instant)

    # --- when ------------------------------------------------------------------------------------

    def after_step(self, call: Call | None = None) -> None:
        """After each call, in the same step of the program as its end."""
        for each in self._of_steps:
            if not each.preconditions or self._course.holds(each):
                try:
                    self._judge(each, each.function(self._course.machine))
                except Exception as error:
                    self._failed(each, error, call)
                    raise

    def _at_instant(self, host: Host) -> None:
        """After everything that happens, wherever, as long as the machine is at work."""
        course = self._course
        for each in self._of_instants:
            if course.failure is None and course.holds(each):
                try:
                    self._judge(each, each.function(course.machine))
                except Exception as error:
                    # Not raised: no task of the program acts here.
                    self._failed(each, error)
                    course.world.fail(error, at=host)

    def after_call(self, call: Call) -> None:
        course = self._course
        for companion in course.companions:
            companion.returned(call)
        if call.number > 0:
            self.after_step(call)

    @property
    def has_pages(self) -> bool:
        """Whether there is anything to read when a call ends."""
        return bool(self._mirrors)

    async def pages(self, call: Call) -> None:
        """A call is about to end: perhaps its actor reads the pages of what it was told of."""
        for each in self._mirrors:
            await each.look(call)

    async def quiet(self) -> None:
        """Nobody is at work, and what goes on by itself gets some time."""
        course = self._course
        async with course.world.calm():
            await course.world.clock.advance(course.machine.quiet_s)
            await self._look_at(self._of_quiet)
            self._look_at_errors()
            for companion in course.companions:
                await companion.quiet()

    async def at_end(self) -> None:
        """The last call is over."""
        course = self._course
        plan = course.blueprint
        if self._of_quiet or self._of_end or course.companions or plan.has_pages:
            await self.quiet()
            async with course.world.calm():
                for each in self._mirrors:
                    await each.at_end()
                await self._look_at(self._of_end)
                for companion in course.companions:
                    await companion.end()
        if self._live:
            await self._become_true()
        self._look_at_errors()
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

    def _look_at_errors(self) -> None:
        """No error of an application stays unread: neither a response of 5xx nor an exception."""
        for web in getattr(self._course.world, "services", {}).get("web", ()):
            unread = web.caught.unread(settled=not web.under_way)
            allows = self._course.machine.foretold_allows
            error = next((each for each in unread if not allows(each)), None)
            if error is not None:
                violated = PropertyViolated(
                    f"no rule could read this error: {error}: {error.unread}"
                )
                violated.place = error.place
                self._course.fail(violated, _UNREAD, f"an application failed: {error}")
                raise violated

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
            violated = each.violated(f"{each.words.rstrip('.')}: not so {within}")
            self._failed(each, violated, said=f"did not become true {within}")
            raise violated
        return False

    # --- how -------------------------------------------------------------------------------------

    async def _ask(self, each: Invariant) -> Any:
        result = each.function(self._course.machine)
        return await result if inspect.isawaitable(result) else result

    def _judge(self, each: Invariant, result: Any) -> None:
        if result is False:
            raise each.violated(f"{each.words.rstrip('.')}: not so, {each.name} is false")
        self._course.tally.invariant(each.name, over=_number(result))

    def _failed(
        self, each: Invariant, error: Exception, call: Call | None = None, said: str = "failed"
    ) -> None:
        after = "" if call is None else f" after {call_text(self._course, call)}"
        told = f"the invariant {each.name} {said}{after}"
        self._course.fail(error, told, told)


def _number(result: Any) -> int | None:
    """Over how many things it ranged, if it says so."""
    return result if isinstance(result, int) and not isinstance(result, bool) else None
