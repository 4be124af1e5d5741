"""Shrinking a failure that was found: how many runs it may cost, what counts as the same failure,
and what is kept if somebody interrupts.

The best tape so far is saved now and then, and in any case when shrinking is broken off. Whoever
goes on from there (`explore.resume`) needs no other state: a tape is all there is to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from foretold.kernel import real
from foretold.search.failures.ahead import Ahead
from foretold.search.planning.allowance import Allowance
from foretold.search.planning.deadline import OutOfTime
from foretold.search.workers.brief import Brief
from foretold.story.signature import Signature
from foretold.tape import Tape
from foretold.tape.shrink import BudgetSpent, shrink

SAVED_EVERY_S = 1.0
STEPS_BACK_MAX = 12


@dataclass(slots=True)
class Shrinking:
    again: Callable[[Tape], Brief]
    wanted: Signature
    allowance: Allowance
    on_better: Callable[[Tape], object] | None = None
    ahead: Ahead | None = None
    runs: int = 0
    finished: bool = False
    """False if the budget was spent before nothing smaller could be found."""
    found: list[Tape] = field(default_factory=list)
    """All that failed on the way, each no larger than the one before it."""
    _told_s: float = field(default_factory=real.monotonic)
    _untold: Tape | None = None

    def smallest(self, tape: Tape) -> Tape:
        """The smallest tape that fails in the same way, and fails when it is run again.

        A program that keeps something between runs may fail once on a tape and never again. Then
        it is the last one on the way here that does.
        """
        try:
            foresee = None if self.ahead is None else self.ahead.foresee
            best = shrink(tape, self._still_fails, foresee)
            self.finished = not self.allowance.is_spent
        except OutOfTime:
            self._show_best()  # each of those was run, and failed; there is no time to do it again
            return self.found[-1] if self.found else tape
        except BaseException:
            self._show_best()
            raise
        try:
            return best if best is tape or self._fails(best) else self._last_that_fails(tape)
        except OutOfTime:
            return best

    def _still_fails(self, candidate: Tape) -> bool:
        if self.allowance.is_spent:
            raise BudgetSpent
        self.runs += 1
        fails = self._fails(candidate)
        self.allowance.spend()
        if not fails:
            return False
        if self.ahead is not None:
            self.ahead.forget()
        self.found.append(candidate)
        self._untold = candidate
        if real.monotonic() - self._told_s > SAVED_EVERY_S:
            self._show_best()
        return True

    def _fails(self, tape: Tape) -> bool:
        # A hold that had to be broken off is no explanation: the sentence would be untrue.
        seen = self.again(tape)
        return seen.signature == self.wanted and not seen.broken_holds

    def _show_best(self) -> None:
        if self._untold is not None and self.on_better is not None:
            self.on_better(self._untold)
        self._untold, self._told_s = None, real.monotonic()

    def _last_that_fails(self, first: Tape) -> Tape:
        back = self.found[::-1][1:]
        step = max(1, -(-len(back) // STEPS_BACK_MAX))
        return next((tape for tape in back[::step] if self._fails(tape)), first)
