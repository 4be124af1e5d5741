"""The search: many runs, until one fails or the budget is spent; then shrink, confirm, tell."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foretold.arguments import check_number, check_seed, check_whole
from foretold.errors import (
    ForetoldError,
    Hang,
    LimitExceeded,
    ModelLooksAround,
    ScenarioError,
    TapeError,
    TargetError,
    UsageError,
    WorkerDied,
)
from foretold.kernel import real
from foretold.kernel.interrupt import interrupts
from foretold.kernel.session import session
from foretold.kernel.threads.preempt import preempt_of_search
from foretold.kernel.watchdog import watchdog
from foretold.search.checking.replayers import Replayer, replayer_for
from foretold.search.checking.vacuity import hints_in, hollow_in
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.failures.workout import Workshop
from foretold.search.planning.corpus import STORED_MAX, load_corpus, store_corpus
from foretold.search.planning.deadline import RUNS_S, Deadline, OutOfTime, Shares, is_time_up
from foretold.search.planning.exhaustive import Enumeration, check_delays
from foretold.search.planning.feedback import Feedback, check_feedback
from foretold.search.planning.planner import SeedPlanner
from foretold.search.planning.portfolio import EXHAUSTIVE
from foretold.search.planning.rounds import Rounds
from foretold.search.workers.batch import Errand, Maker, Manner, recipe_for
from foretold.search.workers.brief import Brief
from foretold.search.workers.campaign import Crowd, check_elsewhere, here
from foretold.search.workers.executors import executor_named
from foretold.search.workers.isolation import runner_for
from foretold.search.workers.targets import importable_name
from foretold.search.workers.warming import Warmth, cold, failed_alone
from foretold.story.signature import Signature, signature_of, text_of
from foretold.story.words import short_path
from foretold.tape import Tape, load
from foretold.world.faults import FaultSet
from foretold.world.run import Main, bind_main, settings_for
from foretold.world.settings import Settings

if TYPE_CHECKING:
    from typing import Unpack

    from foretold.keywords import RunSettings

RUNS_DEFAULT = 100
RUNS_TO_THE_END = 1 << 62
NOTES_MAX = 10


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search stands; handed to `on_progress` after each run."""

    runs: int
    runs_max: int
    failures: int
    stage: str = "searching"
    reached: int = 0
    """How many different things were reached so far (`kernel/reach.py`)."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed in a search. It knows what was found until then."""

    def __init__(self, outcome: Outcome, where: str = "") -> None:
        super().__init__(last_words(outcome, outcome.failures))
        self.outcome = outcome
        self.where = where
        """Where the program was; empty if no run was in progress."""
        if where:
            self.add_note(where)


def explore(
    main: Main,
    *,
    runs: int | None = None,
    seed: int = 0,
    order: str | None = None,
    strategy: str = "portfolio",
    delays: int | None = None,
    workers: int = 1,
    executor: str | Executor | None = None,
    faults: FaultSet | str | None = None,
    shrink: bool = True,
    shrink_runs: int | None = None,
    confirm: bool = True,
    keep_going: bool = False,
    feedback: Feedback = True,
    time_s: float | None = None,
    save_to: str | Path | None = None,
    corpus: str | Path | None = None,
    target: str | None = None,
    replayer: Replayer | None = None,
    isolation: str | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    **settings: Unpack[RunSettings],
) -> Outcome:
    """Run `main` again and again, each time on another tape, until a run fails.

    With `keep_going=True` the search goes on after that, and failures of one kind at one place
    count as one. `workers=4` makes the runs and shrinks failures in four forks of this process; the
    result is the same for any number of workers. `executor` is another
    `concurrent.futures.Executor` to make them, or "dask://host:port". The search looks at what runs
    reach, and changes tapes that reached something new. This costs nothing in a run that computes,
    and a tenth to a half more in one that does little but switch tasks; `feedback=False` switches
    it off. With
    `feedback="branches"` what runs reach includes the branches they take in your own code
    ("branches: shop, redis": in these modules). This helps with bugs behind conditions on drawn
    values: a bug behind three nested conditions, on values of sixteen each, was found in 15 of 20
    searches of 1,000 runs instead of 6 (tapes are also changed twice as often). It costs 5 to 10
    per cent, and 0.2 µs for each pass of a branch of which one way was never taken: a hot loop with
    such a branch takes 3 times as long. On Python 3.11 everything takes 2 to 3 times as long, and
    such a loop 17 times.

    `order=None` uses both orders. The default is 100 `runs`. Each process makes one more run before
    them, which fills caches and does not count. `strategy="exhaustive"` runs every schedule with at
    most `delays` delays (2) instead, and `Outcome.covered` says which were run. `time_s` ends the
    search after that many real seconds. Shrinking takes at most 2,000 runs, and fewer where runs
    are long; `shrink_runs` sets their number, however long they are. A failing tape is written to
    the folder `save_to` before shrinking begins, so a kill loses nothing. The search keeps
    interesting tapes in the folder `corpus`; the next search with that folder tries them first.
    `isolation="fork"` starts each run from the same module state, in a fork of this process.
    `faults` says which faults foretold may inject, such as `foretold.faults.network`. Further
    keyword arguments are those of `foretold.run` (`exact_time=True`, `steps_max=…`).
    """
    exhaustive = strategy == EXHAUSTIVE
    if runs is None:
        runs = RUNS_TO_THE_END if exhaustive else RUNS_DEFAULT
    check_whole("runs", runs, at_least=1, example=500)
    check_seed(seed)
    if time_s is not None:
        check_number("time_s", time_s, above=0, finite=False)
    if shrink_runs is not None:
        check_whole("shrink_runs", shrink_runs, at_least=1, example=2_000)
    check_whole("workers", workers, at_least=1, example=4)
    feedback = check_feedback(feedback)
    delays = check_delays(delays, strategy, order, isolation)
    several = workers > 1 or executor is not None
    if exhaustive and several:
        raise UsageError('strategy="exhaustive" runs in one process: leave workers=1')
    own = settings_for(main, {**settings, "faults": faults}, explore)
    changed = Settings().with_changes(**own)
    changed = changed.with_changes(cold=isolation is not None or None)
    stored = load_corpus(Path(corpus)) if corpus is not None else {}
    known = {"profile": changed.profile, "preempt": preempt_of_search(changed.preempt)}
    planner = SeedPlanner(order, strategy, seed, feedback=feedback, stored=list(stored), **known)
    program, warmth = bind_main(main), Warmth()
    runner = runner_for(program, isolation, warmth=warmth)
    workshop = Workshop(program, runner, changed.wall_s_max, shrink, shrink_runs)
    workshop.save_to, workshop.target, workshop.workers = save_to, target or "", workers
    workshop.replayer = replayer or (replayer_for(main) if confirm else None)
    manner = Manner(changed, isolation, feedback, keeps_going=keep_going, stored=stored)
    maker = Maker(program, manner, warmth=warmth)
    search = Search(maker, workshop, target or importable_name(main) or "", on_progress)
    with session():
        if exhaustive:
            outcome = search.run_all(runs, seed, time_s, delays)
        else:
            crowd = search.crowd_of(executor, workers) if several else contextlib.nullcontext()
            outcome = search.run(planner, crowd, runs, seed, time_s)
            if corpus is not None:
                newest = planner.corpus.entries[-STORED_MAX:]
                tapes = map(maker.recording_of, newest)
                store_corpus(Path(corpus), tapes, workshop.target)
    outcome.expect_a_look(sys._getframe(1))
    return outcome


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
    if file.tape.settings.get("cold"):
        isolation = "fork"
    workshop = Workshop(bind_main(main), runner_for(bind_main(main), isolation), wall_s_max)
    workshop.target = file.target
    workshop.replayer = replayer or (replayer_for(main) if confirm else None)
    workshop.on_stage = on_stage or workshop.on_stage
    with session():
        return workshop.go_on(file, path)


@dataclass
class Search:
    maker: Maker
    workshop: Workshop
    """Where its failures are worked out."""
    import_as: str = ""
    """How workers elsewhere find the program."""
    on_progress: Callable[[Progress], object] | None = None
    crowd: Crowd | None = None
    """Those who make the runs; None if that is done here."""
    outcome: Outcome = field(default_factory=lambda: Outcome(0, 0))
    deadline: Deadline = field(default_factory=Deadline)

    @property
    def manner(self) -> Manner:
        return self.maker.manner

    @contextlib.contextmanager
    def crowd_of(self, executor: str | Executor | None, workers: int) -> Iterator[Crowd]:
        with contextlib.ExitStack() as stack:
            recipe = stack.enter_context(recipe_for(self.maker, self.import_as))
            if isinstance(executor, Executor):
                who = executor
            else:
                who = stack.enter_context(executor_named(executor, workers))
            check_elsewhere(who, self.import_as)
            yield Crowd(who, workers, recipe, self.outcome.worker_notes.append)

    def run(
        self,
        planner: SeedPlanner,
        crowd: contextlib.AbstractContextManager[Crowd | None],
        runs: int,
        seed: int,
        time_s: float | None,
    ) -> Outcome:
        """Search, and work out what was found, when those who helped are gone."""
        outcome = self._begin(runs, seed, time_s)
        outcome.faults = self.manner.settings.faults
        with self._interruptible():
            with (
                self.deadline.runs_until(RUNS_S),
                crowd as self.crowd,
                watchdog.farewell(self._last_words),
            ):
                self._search(planner, runs, time_s)
            self.crowd = None
            outcome.vacuous = _is_vacuous(outcome, planner.is_vacuous)
            outcome.hollow, outcome.hints = hollow_in(outcome), hints_in(outcome)
            self._work_out(time_s)
        return outcome

    def _last_words(self, error: LimitExceeded) -> str:
        """The process is about to be ended, in the middle of a run: keep its tape, and say what is
        known of others."""
        failures = list(self.outcome.failures)
        if self.maker.at_work is not None and not failures:
            run, tape = self.maker.at_work
            found = Failure(
                error, tape, signature_of(error), run, tape.seed, target=self.workshop.target
            )
            self._workshop(run).save(found)
            failures.append(found)
        return last_words(self.outcome, failures)

    def run_all(self, runs: int, seed: int, time_s: float | None, delays: int) -> Outcome:
        """Each schedule with at most so many delays, instead of those that seeds lead to."""
        outcome = self._begin(runs, seed, time_s)
        settings = self.manner.settings.with_changes(order="any", strategy="fifo")
        schedules = Enumeration(
            lambda tape: self._run_in_time(tape, settings), settings.on_tape(), delays
        )
        with self._interruptible():
            with self.deadline.runs_until(RUNS_S), watchdog.farewell(self._last_words):
                self._enumerate(schedules, settings)
            outcome.vacuous = _is_vacuous(outcome, schedules.nothing_to_choose)
            self._work_out(time_s)
        return outcome

    def _begin(self, runs: int, seed: int, time_s: float | None) -> Outcome:
        self.deadline = Deadline(time_s)
        self.outcome.seed, self.outcome.runs_max = seed, runs
        return self.outcome

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """What was found before Ctrl-C was pressed is not lost."""
        try:
            yield
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            raise Interrupted(self.outcome, interrupts.where) from None

    def _run_in_time(self, tape: Tape, settings: Settings) -> Brief:
        """A run of an enumeration. None begins after the search's time, but for the first."""
        if self.outcome.runs:
            self.deadline.check(0)
        self.maker.at_work = self.outcome.runs + 1, tape
        done = self.workshop.runner(tape, settings)
        if is_time_up(done.signature):
            raise OutOfTime
        return done

    def _enumerate(self, schedules: Enumeration, settings: Settings) -> None:
        """Run one schedule after the other, and say which, however it ends."""
        outcome, started = self.outcome, real.monotonic()
        try:
            with contextlib.suppress(OutOfTime):
                self._run_schedules(schedules, settings)
        finally:
            outcome.covered = schedules.words()
            outcome.elapsed_s = real.monotonic() - started

    def _run_schedules(self, schedules: Enumeration, settings: Settings) -> None:
        for tape, done in schedules:
            self._count(done)
            if self._note_schedule(tape, done, settings) and not self.manner.keeps_going:
                break
            if self.outcome.runs >= self.outcome.runs_max:
                break

    def _note_schedule(self, tape: Tape, done: Brief, settings: Settings) -> bool:
        """As `_note_failure`."""
        failed = self._note_first(done, lambda: tape, self.outcome.runs, self.outcome.seed)
        if done.signature is not None and not self._is_known(done.signature):
            self._keep_schedule(tape, done, settings)
        return failed or done.signature is not None

    def _keep_schedule(self, tape: Tape, done: Brief, settings: Settings) -> None:
        """A schedule fails, the first of its kind. It is not lost if Ctrl-C comes now."""
        found = self._found(tape, done, self.outcome.runs, self.outcome.seed)
        try:
            again = self.workshop.runner(tape, settings, recording=True)
            if again.signature == done.signature and again.recorded is not None:
                found.tape = again.recorded  # in words that a replay understands
        finally:
            self._workshop(found.run).save(found)

    def _search(self, planner: SeedPlanner, runs: int, time_s: float | None) -> None:
        """Make the runs, and keep of the failing ones one of each kind."""
        outcome, rounds = self.outcome, Rounds(planner, runs)
        started = real.monotonic()
        if self.crowd is not None:
            self.crowd.until_s = self.deadline.end_s(RUNS_S)
        results = here(self.maker, rounds) if self.crowd is None else self.crowd.results(rounds)
        with contextlib.closing(results):
            for errand, done in results:
                if is_time_up(done.signature):
                    outcome.notes.append(f"run {errand.number:,} does not count: {done.message}")
                    break
                news = self._add(done)
                rounds.put(errand, done, news)
                if self._note_failure(errand, done) and not self.manner.keeps_going:
                    break
                outcome.elapsed_s = real.monotonic() - started
                if time_s is not None and outcome.elapsed_s > time_s:
                    break
        rounds.finish()
        outcome.elapsed_s = real.monotonic() - started

    def _add(self, done: Brief) -> int:
        """Returns how much of what the run reached was new."""
        if self.manner.keeps_going:
            self.outcome.swarm.add(done.configuration, done.signature)
        news = self.outcome.coverage.add(done.features)
        self._count(done)
        return news

    def _count(self, done: Brief) -> None:
        outcome = self.outcome
        outcome.runs += 1
        outcome.discarded += bool(done.discarded)
        outcome.virtual_s += done.virtual_s
        if done.reached or done.missed:
            for point, count in done.reached.items():
                outcome.reached[point] = outcome.reached.get(point, 0) + count
            passed = dict.fromkeys(outcome.missed + done.missed)
            outcome.missed = [point for point in passed if point not in outcome.reached]
        if done.tally is not None:
            outcome.tally.add(done.tally)
        outcome.notes = outcome.notes or done.notes[:NOTES_MAX]
        outcome.first_differs = outcome.first_differs or done.first is not None
        self._show_progress(outcome.runs, "searching")

    def _note_first(self, done: Brief, tape_of: Callable[[], Tape], run: int, seed: int) -> bool:
        """The run before `done`, of the same tape and the first in its process, is a failure if it
        has failed in a way of its own. Another failure is told instead of it if there is one: that
        can be made smaller."""
        first, outcome = done.first, self.outcome
        if first is None or first.signature is None or first.signature == done.signature:
            return False
        told = done.signature is None or self.manner.keeps_going
        if not (told and failed_alone(first, done.signature)):
            outcome.first_failed = first.how
            return False
        if not self._is_known(first.signature, first_only=True):
            found = self._found(cold(tape_of()), first, run, seed)
            found.first_only = True
            self._workshop(run).save(found)
        return True

    def _show_progress(self, runs: int, stage: str) -> None:
        if self.on_progress is not None:
            outcome, crowd = self.outcome, self.crowd
            made = runs if crowd is None or stage != "searching" else crowd.made
            reached, failed = outcome.coverage.reached, len(outcome.failures)
            self.on_progress(Progress(max(runs, made), outcome.runs_max, failed, stage, reached))

    def _is_known(self, wanted: Signature, *, first_only: bool = False) -> bool:
        """Whether a run has failed like this before. It is counted."""
        for known in self.outcome.failures:
            if (known.signature, known.first_only) == (wanted, first_only):
                known.times += 1
                return True
        return False

    def _note_failure(self, errand: Errand, done: Brief) -> bool:
        """Whether the run failed, which is counted, or that before it which does not count. If it
        is the first of its kind, its tape is kept at once."""
        run, lineage = errand.number, errand.lineage
        if done.signature is None and done.first is None:
            return False

        def tape_of() -> Tape:
            return self.maker.tape_of(lineage)

        seed = tape_of().seed if lineage.stored else lineage.seed
        failed = self._note_first(done, tape_of, run, seed)
        if done.signature is None:
            return failed
        if not self._is_known(done.signature):
            found = self._found(tape_of(), done, run, seed)
            found.changes = len(lineage.changes) + bool(lineage.stored)
            found.configuration = done.configuration
            self._workshop(run).save(found)
        return True

    def _found(self, tape: Tape, done: Brief, run: int, seed: int) -> Failure:
        wanted = done.signature
        assert wanted is not None, "only failing runs are noted"
        if wanted.kind in _MISTAKES:
            raise _mistake(wanted, done)
        error = done.error or _stand_in(wanted, done.message)
        found = Failure(
            error, tape, wanted, run, seed, target=self.workshop.target, digest=done.digest
        )
        found.profile = Settings.from_tape(tape.settings).profile
        self.outcome.failures.append(found)
        return found

    def _work_out(self, time_s: float | None) -> None:
        """All that can be said about each failure."""
        failures = self.outcome.failures
        shares = Shares(time_s, len(failures))
        for found in failures:
            until_s = shares.next_until_s()
            if _can_be_repeated(found.exception):
                workshop = self._workshop(found.run)
                workshop.until_s = until_s
                workshop.work_out(found)

    def _workshop(self, run: int) -> Workshop:
        def on_stage(stage: str) -> None:
            self._show_progress(run, stage)

        return replace(self.workshop, on_stage=on_stage, deadline=self.deadline)


def _is_vacuous(outcome: Outcome, nothing_chosen: bool) -> bool:
    """Whether it held and explored nothing; no run at all, if time was up before, is nothing."""
    none_counts = outcome.discarded == outcome.runs
    return not outcome.failures and (nothing_chosen or none_counts)


_HANG = f"{Hang.__module__}.{Hang.__qualname__}"
_MISTAKES = {
    f"{each.__module__}.{each.__qualname__}": each
    for each in (UsageError, ScenarioError, TapeError, TargetError, ModelLooksAround)
}


def _can_be_repeated(error: BaseException) -> bool:
    """A dead worker would end this process as well; a limit of real time would be spent again and
    again."""
    is_slow = isinstance(error, LimitExceeded) and error.in_real_time
    return not isinstance(error, WorkerDied) and not is_slow


def _mistake(wanted: Signature, done: Brief) -> UsageError:
    """A call of foretold's that cannot work as written is nothing that a program does under some
    tapes: there is nothing to shrink or to keep, the test has to be changed."""
    said = done.message if done.error is None else text_of(done.error)
    sort = _MISTAKES[wanted.kind]
    error = sort(f"{said}\n  at {short_path(wanted.place)}" if wanted.place else said)
    error.in_run = done.error
    return error


def last_words(outcome: Outcome, failures: Sequence[Failure]) -> str:
    """What a search knows that cannot go on: each failure on a line, with its tape."""
    lines = [f"The search (seed {outcome.seed}) had made {outcome.runs:,} runs."]
    for found in failures:
        where = f" at {short_path(found.signature.place)}" if found.signature.place else ""
        kept = f": foretold replay {short_path(str(found.saved_as))}" if found.saved_as else ""
        lines.append(f"  {type(found.exception).__name__}{where}{kept}")
    return "\n".join(lines)


def _stand_in(wanted: Signature, message: str) -> BaseException:
    """For an exception that was raised in another process."""
    if wanted.kind == _HANG:
        return Hang(message)
    said = f": {message}" if message else ""
    return ForetoldError(f"{wanted.kind}{said} at {wanted.place}")
