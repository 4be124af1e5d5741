"""The search: many runs, until one fails or the budget is spent; then shrink, confirm, tell."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from foretold.arguments import check_number, check_seed, check_whole, nearest
from foretold.errors import ForetoldError, UsageError
from foretold.kernel import real
from foretold.kernel.session import session
from foretold.search.failure import Failure, Outcome
from foretold.search.isolation import Brief, runner_for
from foretold.search.portfolio import Plan, plan_of, plans_for
from foretold.search.replayers import Replayer, replayer_for
from foretold.search.workout import Workshop
from foretold.tape import Tape, load
from foretold.world.faults import FaultSet
from foretold.world.run import Main, Run, bind_main, execute, tape_given
from foretold.world.settings import Settings


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
    runs: int = 100,
    seed: int = 0,
    order: str | None = None,
    strategy: str = "portfolio",
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

    `order=None` uses both orders. `time_s` ends the search after that many real seconds. A failing
    tape is written to the folder `save_to` before shrinking begins: a kill loses nothing.
    `isolation="fork"` starts each run from the same module state, in a fork of this process.
    `faults` is what the world may do to the program by itself, such as `foretold.faults.network`.
    Further keyword arguments are those of `foretold.run` (`exact_time=True`, `steps_max=…`).
    """
    check_whole("runs", runs, at_least=1, example=500)
    check_seed(seed)
    if time_s is not None:
        check_number("time_s", time_s, above=0, finite=False)
    if workers != 1:
        raise UsageError("several workers are not part of this version yet: leave workers=1")
    plans = plans_for(order, strategy)
    search = Search(bind_main(main), plans, _settings({**settings, "faults": faults}), isolation)
    search.shrinks, search.confirms, search.save_to = shrink, confirm, save_to
    search.target = target or ""
    search.replayer = replayer or (replayer_for(main) if confirm else None)
    search.on_progress = on_progress
    with session():
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


def resume(
    main: Main,
    tape: str | os.PathLike[str],
    *,
    confirm: bool = True,
    isolation: str | None = None,
    wall_s_max: float | None = None,
    replayer: Replayer | None = None,
    on_stage: Callable[[str], object] | None = None,
) -> Failure | None:
    """Go on shrinking from the best tape that a search saved before it was interrupted.

    The file is written anew with what is found; None if the run holds now.
    """
    path, file = Path(tape), load(tape)
    workshop = Workshop(bind_main(main), runner_for(bind_main(main), isolation), wall_s_max)
    workshop.target = file.target
    workshop.replayer = replayer or (replayer_for(main) if confirm else None)
    workshop.on_stage = on_stage or workshop.on_stage
    with session():
        return workshop.go_on(file, path)


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
        planned = {
            plan: settings.with_changes(order=plan.order, strategy=plan.strategy) for plan in plans
        }
        self._by_plan = {plan: (each, each.on_tape()) for plan, each in planned.items()}
        self._runs_max = 0
        self._idle_plans: set[Plan] = set()
        """Plans under which no choice is ever made: one run of them is enough."""

    def run(self, runs: int, seed: int, time_s: float | None) -> Outcome:
        outcome = Outcome(0, seed)
        self._runs_max = runs
        started = real.monotonic()
        next_seed = seed
        while outcome.runs < runs:
            if time_s is not None and real.monotonic() - started > time_s:
                break
            plan = plan_of(next_seed, self.plans)
            if plan not in self._idle_plans:
                done = self._one(plan, next_seed, outcome)
                if done.signature is not None:
                    outcome.failures.append(self._work_out(plan, done, next_seed, outcome.runs))
                    break
                self._note_choices(plan, done)
                if len(self._idle_plans) == len(set(self.plans)):
                    outcome.vacuous = True
                    break
            next_seed += 1
        outcome.elapsed_s = real.monotonic() - started
        outcome.vacuous |= outcome.runs > 0 and outcome.discarded == outcome.runs
        return outcome

    def _one(self, plan: Plan, seed: int, outcome: Outcome) -> Brief:
        settings, on_tape = self._by_plan[plan]
        done = self._run_tape(Tape.seeded(seed, on_tape), settings)
        outcome.runs += 1
        outcome.discarded += bool(done.discarded)
        outcome.virtual_s += done.virtual_s
        if done.reached or done.missed:
            _add_points(outcome, done)
        self._tell_progress(outcome.runs, len(outcome.failures), "searching")
        return done

    def _tell_progress(self, runs: int, failures: int, stage: str) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(runs, self._runs_max, failures, stage))

    def _note_choices(self, plan: Plan, done: Brief) -> None:
        if done.choices or done.discarded:
            return
        self._idle_plans.add(plan)
        if plan.order == "any" or done.alone:
            # Nobody to choose between, in any order.
            self._idle_plans.update(self.plans)

    def _work_out(self, plan: Plan, done: Brief, seed: int, run: int) -> Failure:
        wanted = done.signature
        assert wanted is not None, "only failing runs are worked out"
        tape = Tape.seeded(seed, self._by_plan[plan][1])
        error = done.error or ForetoldError(f"{wanted.kind} at {wanted.place}")
        found = Failure(error, tape, wanted, run, seed, target=self.target, digest=done.digest)
        self._workshop(run).work_out(found)
        return found

    def _workshop(self, run: int) -> Workshop:
        return Workshop(
            self.main,
            self._run_tape,
            wall_s_max=self.settings.wall_s_max,
            shrinks=self.shrinks,
            save_to=self.save_to,
            target=self.target,
            replayer=self.replayer,
            on_stage=lambda stage: self._tell_progress(run, 1, stage),
        )


def _add_points(outcome: Outcome, done: Brief) -> None:
    for point, count in done.reached.items():
        outcome.reached[point] = outcome.reached.get(point, 0) + count
    passed = dict.fromkeys(outcome.missed + done.missed)
    outcome.missed = [point for point in passed if point not in outcome.reached]
