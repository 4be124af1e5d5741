"""Writes any schedule down as holds.

Calm order is: of the steps that may run, the one that arrived first. Whenever a scheduler takes a
later one, all that arrived before it are *overtaken*. For each step that was overtaken we write
one sentence: hold it until its **last** overtaker has run.

Why that is exact. Replay runs the first arrival that is not held. Consider the moment at which the
original run picked step e. Everything that had arrived before e was overtaken by e, so its last
overtaker is e or something later: it is still held. And e itself is not held: its last overtaker,
if any, has run. So replay picks e too, and by induction the whole run is the same.

The last overtaker of a step that arrived as number s is the latest pick with an arrival number
above s. Of all picks only those matter that no later pick with a higher number outdoes; they form
a stack with falling numbers, so one bisection finds it: O(log n) a step.

Threads enter the pool at its front as well, with a number below all others (`threads/pool.py`). Who
was picked before a step entered the pool has not overtaken it, whatever its number: so each pick is
kept with its place in the order of picks.
"""

from __future__ import annotations

from bisect import bisect_left

from foretold.kernel.actors import Stepper
from foretold.tape import Hold, Schedule


class HoldRecorder:
    def __init__(self, host: str, schedule: Schedule) -> None:
        self._host = host
        self._schedule = schedule
        self._arrivals_negated: list[int] = []
        self._picks: list[tuple[str, int, int]] = []
        self._count = 0

    def picked(self, arrival: int, actor: Stepper, *, can_be_held: bool, entered: int = 0) -> None:
        """`actor` is about to make its step number `actor.steps`. It came into the pool after so
        many picks as `entered` says."""
        numbers = self._arrivals_negated
        self._count += 1
        if can_be_held:
            self._hold(arrival, actor.name, actor.steps, entered)
        while numbers and -numbers[-1] < arrival:
            numbers.pop()
            self._picks.pop()
        numbers.append(-arrival)
        self._picks.append((actor.name, actor.steps, self._count))

    def never_picked(self, arrival: int, actor: Stepper, entered: int = 0) -> None:
        """The next step of `actor` is not made: its process ends. Who overtook it did so all the
        same, and without a hold it would be made in a replay."""
        self._hold(arrival, actor.name, actor.steps + 1, entered)

    def _hold(self, arrival: int, actor: str, step: int, entered: int) -> None:
        above = bisect_left(self._arrivals_negated, -arrival)
        if above and self._picks[above - 1][2] > entered:
            until_actor, until_step, _ = self._picks[above - 1]
            self._schedule.add(Hold(self._host, actor, step, until_actor, until_step))
