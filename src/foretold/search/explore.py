"""The search: many runs, until one fails or the budget is spent; then shrink, confirm, tell."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from foretold.arguments import check_number, check_seed, check_whole, nearest
from foretold.errors import ForetoldError, TapeError, UsageError
from foretold.kernel import real
from foretold.kernel.session import session
from foretold.search import stock
from foretold.search.budget import Budget
from foretold.search.exhaustive import Enumeration, check_delays
from foretold.search.failure import Failure, Outcome
from foretold.search.isolation import Brief, runner_for
from foretold.search.learning import Learner
from foretold.search.portfolio import EXHAUSTIVE, Plan, plans_for
from foretold.search.replayers import Replayer, replayer_for
from foretold.search.signature import Signature, signature_of
from foretold.search.story import faults_of, tell_run
from foretold.search.verify import confirm
from foretold.tape import Setting, Tape
from foretold.tape.shrink import BudgetSpent
from foretold.tape.shrink import shrink as shrink_tape
from foretold.world.faults import FaultSet
from foretold.world.run import Main, Run, bind_main, execute, tape_given
from foretold.world.settings import Settings

RUNS_DEFAULT = 100
RUNS_TO_THE_END = 1 << 62
SHRINK_RUNS_MAX = 2_000
SHRINK_S_MAX = 30.0
NOTES_MAX = 10


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands; handed to `on_progress` after each run."""

    runs: int
    runs_max: int
    failures: int
    stage: str = "searching"


def explore(
    main: Main,
    *,
    runs: int | None = None,
    seed: int = 0,
    order: str | None = None,
    strategy: str = "portfolio",
    delays: int | None = None,
    workers: int = 1,
    faults: FaultSet | str | None = None,
    shrink: bool = True,
    confirm: bool = True,
    time_s: float | None = None,
    save_to: str | Path | None = None,
    target: str | None = None,
    replayer: Replayer | None = None,
    isolation: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    **settings: Any,
) -> Outcome:
    """Run `main` again and again, each time on another tape, until a run fails.

    `order=None` uses both orders. There are 100 `runs`, if nothing else is said.
    `strategy="exhaustive"` runs each schedule with at most `delays` delays (2) instead, to the end
    of them, and `Outcome.covered` says which have been run. `time_s` ends the search after that
    many real seconds. A failing tape is written to the folder `save_to` before shrinking begins:
    a kill loses nothing. `isolation="fork"` starts each run from the same module state, in a fork
    of this process. `faults` is what the world may do to the program by itself, such as
    `foretold.faults.network`.
    Further keyword arguments are those of `foretold.run` (`exact_time=True`, `steps_max=…`).
    """
    exhaustive = strategy == EXHAUSTIVE
    if runs is None:
        runs = RUNS_TO_THE_END if exhaustive else RUNS_DEFAULT
    check_whole("runs", runs, at_least=1, example=500)
    check_seed(seed)
    if time_s is not None:
        check_number("time_s", time_s, above=0, finite=False)
    if workers != 1:
        raise UsageError("several workers are not part of this version yet: leave workers=1")
    plans = plans_for(order, strategy)
    delays = check_delays(delays, strategy, order, isolation)
    search = Search(bind_main(main), plans, _settings({**settings, "faults": faults}), isolation)
    search.shrinks, search.confirms, search.save_to = shrink, confirm, save_to
    search.target = target or ""
    search.replayer = replayer or (replayer_for(main) if confirm else None)
    search.on_progress = on_progress
    with session():
        if exhaustive:
            return search.run_all(runs, seed, time_s, delays)
        return search.run(runs, seed, time_s)


def _settings(changes: dict[str, Any]) -> Settings:
    known = [field.name for field in fields(Settings)]
    for name in changes:
        if name not in known:
            meant = nearest(name, (*known, *inspect.signature(explore).parameters))
            raise UsageError(f"foretold.explore does not know the setting {name!r}.{meant}")
    return Settings().with_changes(**changes)


def replay(main: Main, tape: Tape | str | os.PathLike[str]) -> Run:
    """Run `main` on a tape again, exactly. `tape` is a `Tape` or the path of a tape file."""
    tape = tape_given(tape, "foretold.replay(main, tape)")
    done = execute(bind_main(main), tape, Settings.from_tape(tape.settings))
    if done.error is not None:
        raise done.error
    return done


class Search:
    """One search with its settings."""

    def __init__(
        self,
        main: Callable[[Any], Any],
        plans: tuple[Plan, ...],
        settings: Settings,
        isolation: str | None = None,
    ) -> None:
        self.main = main
        self._run_tape = runner_for(main, isolation)
        self.plans = plans
        self.settings = settings
        self.shrinks = self.confirms = True
        self.save_to: str | Path | None = None
        self.target = ""
        self.replayer: Replayer | None = None
        self.on_progress: Callable[[Progress], object] | None = None
        self._learner = Learner()
        self._by_plan = self._planned()
        self._runs_max = 0

    def _planned(self) -> dict[Plan, tuple[Settings, dict[str, Setting]]]:
        """The settings of a run, by its plan, with what is known by now."""
        known = self._learner.text or self.settings.profile
        planned = {
            plan: self.settings.with_changes(
                order=plan.order, strategy=plan.strategy, profile=known
            )
            for plan in self.plans
        }
        return {plan: (each, each.on_tape()) for plan, each in planned.items()}

    def run(self, runs: int, seed: int, time_s: float | None) -> Outcome:
        outcome = Outcome(0, seed)
        self._runs_max = runs
        started = real.monotonic()
        budget = Budget(self.plans, seed)
        while outcome.runs < runs:
            if time_s is not None and real.monotonic() - started > time_s:
                break
            plan, next_seed = budget.next()
            done = self._one(plan, next_seed, outcome)
            if done.signature is not None:
                tape = Tape.seeded(next_seed, self._by_plan[plan][1])
                outcome.failures.append(self._work_out(tape, done, next_seed, outcome.runs))
                break
            if done.pairs:
                budget.tell(self._learner.news(done.pairs))
            if self._learner.note(done.profile):
                self._by_plan = self._planned()
            if idle := self._idle_after(plan, done):
                budget.drop(idle)
            if budget.spent:
                outcome.vacuous = True
                break
        outcome.elapsed_s = real.monotonic() - started
        outcome.vacuous |= outcome.runs > 0 and outcome.discarded == outcome.runs
        return outcome

    def run_all(self, runs: int, seed: int, time_s: float | None, delays: int) -> Outcome:
        """Each schedule with at most so many delays, instead of those that seeds lead to."""
        outcome = Outcome(0, seed)
        self._runs_max = runs
        started = real.monotonic()
        settings, on_tape = next(iter(self._by_plan.values()))
        schedules = Enumeration(lambda tape: self._run_tape(tape, settings), on_tape, delays)
        for tape, done in schedules:
            self._count(done, outcome)
            if done.signature is not None:
                recorded = self._again(tape, recording=True)
                if recorded.signature == done.signature and recorded.recorded is not None:
                    tape = recorded.recorded  # in words that a replay understands
                outcome.failures.append(self._work_out(tape, done, seed, outcome.runs))
            if done.signature is not None or outcome.runs >= runs:
                break
            if time_s is not None and real.monotonic() - started > time_s:
                break
        outcome.elapsed_s = real.monotonic() - started
        outcome.covered = schedules.words()
        outcome.vacuous = outcome.failure is None and schedules.nothing_to_choose
        return outcome

    def _one(self, plan: Plan, seed: int, outcome: Outcome) -> Brief:
        settings, on_tape = self._by_plan[plan]
        learning = self._learner.wants_next()
        done = self._run_tape(Tape.seeded(seed, on_tape), settings, learning=learning)
        self._count(done, outcome)
        return done

    def _count(self, done: Brief, outcome: Outcome) -> None:
        outcome.runs += 1
        outcome.discarded += bool(done.discarded)
        outcome.virtual_s += done.virtual_s
        if done.reached or done.missed:
            _add_points(outcome, done)
        outcome.notes = outcome.notes or done.notes[:NOTES_MAX]
        self._tell_progress(outcome.runs, len(outcome.failures), "searching")

    def _tell_progress(self, runs: int, failures: int, stage: str) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(runs, self._runs_max, failures, stage))

    def _idle_after(self, plan: Plan, done: Brief) -> tuple[Plan, ...]:
        """Plans under which no choice is ever made: one run of them is enough."""
        if done.choices or done.discarded:
            return ()
        # Nobody to choose between, in any order.
        return self.plans if plan.order == "any" or done.alone else (plan,)

    # From the first failing run to something a person can use

    def _work_out(self, tape: Tape, done: Brief, seed: int, run: int) -> Failure:
        wanted = done.signature
        assert wanted is not None, "only failing runs are worked out"
        error = done.error or ForetoldError(f"{wanted.kind} at {wanted.place}")
        found = Failure(error, tape, wanted, run, seed, target=self.target, digest=done.digest)
        found.profile = Settings.from_tape(tape.settings).profile
        self._save(found)
        self._tell_progress(run, 1, "shrinking")
        recorded = self._again(tape, recording=True)
        if recorded.signature == wanted and recorded.recorded is not None:
            found.tape = self._smaller(recorded.recorded, wanted, found)
            self._try_stock(found, wanted)
        self._tell(found, wanted)
        self._save(found)
        if self.replayer is not None:
            self._tell_progress(run, 1, "confirming")
            confirm(found, self.main, self.replayer)
        return found

    def _save(self, found: Failure) -> None:
        if self.save_to is not None:
            name = f"{found.signature.kind.rpartition('.')[2]}-{found.seed}.tape"
            try:
                found.saved_as = found.save(Path(self.save_to) / name)
            except (OSError, TapeError) as error:
                found.doubt = f"the tape could not be saved: {error}"  # the failure is not lost

    def _settings_of(self, tape: Tape) -> Settings:
        settings = Settings.from_tape(tape.settings)
        return settings.with_changes(wall_s_max=self.settings.wall_s_max)

    def _again(self, tape: Tape, *, recording: bool = False) -> Brief:
        return self._run_tape(tape, self._settings_of(tape), recording=recording)

    def _fails_as(self, tape: Tape, wanted: Signature) -> bool:
        return self._again(tape).signature == wanted

    def _smaller(self, tape: Tape, wanted: Signature, found: Failure) -> Tape:
        if not self._fails_as(tape, wanted):
            return found.tape  # the recording does not replay: keep what does
        if not self.shrinks:
            return tape
        deadline = real.monotonic() + SHRINK_S_MAX

        def still_fails(candidate: Tape) -> bool:
            if found.shrink_runs >= SHRINK_RUNS_MAX or real.monotonic() > deadline:
                raise BudgetSpent
            found.shrink_runs += 1
            # A hold that had to be broken off is no explanation: the sentence would be untrue.
            seen = self._again(candidate)
            return seen.signature == wanted and not seen.broken_holds

        return shrink_tape(tape, still_fails)

    def _try_stock(self, found: Failure, wanted: Signature) -> None:
        """Can stock asyncio do this? Only a run in its own order that fails is a yes."""
        tape = found.tape
        if tape.settings.get("order") == "asyncio":
            found.stock_asyncio = True
            return
        for tried, candidate in enumerate(stock.candidates(tape, found.seed)):
            seen = self._again(candidate)
            if seen.signature == wanted:
                found.stock_asyncio = True
                recorded = self._again(candidate, recording=True).recorded
                assert recorded is not None, "asked for"
                found.tape = self._smaller(recorded, wanted, found)
                return
            found.stock_tries = tried + 1
            if not seen.choices and not seen.discarded:
                found.stock_tries = 0  # it makes no choice at all: its order is the only one
                return

    def _tell(self, found: Failure, wanted: Signature) -> None:
        # In this process even with isolation="fork": the exception itself is wanted, and a parent
        # that never ran anything is as fresh as a child.
        done = execute(self.main, found.tape, self._settings_of(found.tape), detail=True)
        if done.error is None or signature_of(done.error) != wanted:
            found.reproduced = False
            found.doubt = "the same tape, run again in the same process, did not fail like this"
            return
        found.exception = done.error
        found.digest = done.digest
        found.story, found.delays = tell_run(done)
        found.faults = faults_of(done)
        found.notes = done.notes


def _add_points(outcome: Outcome, done: Brief) -> None:
    for point, count in done.reached.items():
        outcome.reached[point] = outcome.reached.get(point, 0) + count
    passed = dict.fromkeys(outcome.missed + done.missed)
    outcome.missed = [point for point in passed if point not in outcome.reached]
