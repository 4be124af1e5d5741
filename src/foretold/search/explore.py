"""The search: many runs, until one fails or the budget is spent; then shrink, confirm, tell."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from foretold.arguments import check_number, check_seed, check_whole, nearest
from foretold.errors import ForetoldError, UsageError, WorkerDied
from foretold.kernel import real
from foretold.kernel.session import session
from foretold.search.batch import Maker, Seen
from foretold.search.campaign import Crowd, check_elsewhere, done_with, here, recipe_for
from foretold.search.corpus import STORED_MAX, Corpus, load_corpus, store_corpus
from foretold.search.executors import executor_named
from foretold.search.exhaustive import Enumeration, check_delays
from foretold.search.failure import Failure, Outcome
from foretold.search.feedback import Feedback, check_feedback
from foretold.search.isolation import Brief, runner_for
from foretold.search.planner import SeedPlanner
from foretold.search.portfolio import EXHAUSTIVE
from foretold.search.replayers import Replayer, replayer_for
from foretold.search.rounds import Rounds
from foretold.search.signature import Signature, text_of
from foretold.search.targets import importable_name
from foretold.search.vacuity import hollow_in
from foretold.search.words import short_path
from foretold.search.workout import SHRINK_S_MAX, Workshop
from foretold.tape import Tape, load
from foretold.world.faults import FaultSet
from foretold.world.run import Main, Run, bind_main, execute, tape_given
from foretold.world.settings import Settings

RUNS_DEFAULT = 100
RUNS_TO_THE_END = 1 << 62
NOTES_MAX = 10
SHARE_S_MIN = 3.0
GRACE_S = 5.0
"""When the time of a search is up, its workers have so long to finish what they are at."""


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

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("interrupted")
        self.outcome = outcome


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
    **settings: Any,
) -> Outcome:
    """Run `main` again and again, each time on another tape, until a run fails.

    With `keep_going=True` the search goes on after that, and failures of one kind at one place
    count as one. `workers=4` makes the runs in four forks of this process; which runs are made, and
    what is found, is the same for any number of workers. `executor` is another
    `concurrent.futures.Executor` to make them, or "dask://host:port". `feedback=False` does without
    looking at what runs reach and changing tapes that reached something new: nothing to a run that
    computes, a tenth to a half more to one that does little but switch tasks. With
    `feedback="branches"` what runs reach includes the branches they take in your own code
    ("branches: shop, redis": in these modules). For bugs behind conditions on drawn values: three
    nested ones, with values of sixteen each, were found in 14 of 20 searches of 1,000 runs instead
    of 3 (it also changes tapes twice as often). It adds 5 to 10 per cent, and 0.2 µs each time for
    a branch of which one way was never taken: a hot loop with such a branch takes 3 times as long.
    On Python 3.11 all takes 2 to 3 times as long, and such a loop 17 times.

    `order=None` uses both orders. There are 100 `runs`, if nothing else is said.
    `strategy="exhaustive"` runs each schedule with at most `delays` delays (2) instead, to the end
    of them, and `Outcome.covered` says which have been run. `time_s` ends the search after that
    many real seconds. A failing tape is written to the folder `save_to` before shrinking begins: a
    kill loses nothing. In the folder `corpus` tapes are kept that are worth a second look: the next
    search with that folder tries them first. `isolation="fork"` starts each run from the same
    module state, in a fork of this process.
    `faults` is what the world may do to the program by itself, such as `foretold.faults.network`.
    Further keyword arguments are those of `foretold.run` (`exact_time=True`, `steps_max=…`).
    """
    exhaustive = strategy == EXHAUSTIVE
    if runs is None:
        runs = RUNS_TO_THE_END if exhaustive else RUNS_DEFAULT
    check_whole("runs", runs, at_least=1, example=500)
    check_seed(seed)
    if time_s is not None:
        check_number("time_s", time_s, above=0, finite=False)
    check_whole("workers", workers, at_least=1, example=4)
    feedback = check_feedback(feedback)
    delays = check_delays(delays, strategy, order, isolation)
    several = workers > 1 or executor is not None
    if exhaustive and several:
        raise UsageError('strategy="exhaustive" runs in one process: leave workers=1')
    changed = _settings(main, {**settings, "faults": faults})
    stored = load_corpus(Path(corpus)) if corpus is not None else {}
    planner = SeedPlanner(
        order, strategy, seed, feedback=feedback, stored=list(stored), profile=changed.profile
    )
    search = Search(
        bind_main(main),
        changed,
        isolation,
        feedback=feedback,
        keeps_going=keep_going,
        stored=stored,
    )
    search.shrinks, search.confirms, search.save_to = shrink, confirm, save_to
    search.target = target or ""
    search.import_as = target or importable_name(main) or ""
    search.replayer = replayer or (replayer_for(main) if confirm else None)
    search.on_progress = on_progress
    with session():
        if exhaustive:
            return search.run_all(runs, seed, time_s, delays)
        crowd = search.crowd_of(executor, workers) if several else contextlib.nullcontext()
        outcome = search.run(planner, crowd, runs, seed, time_s)
        if corpus is not None:
            search.keep_corpus(Path(corpus), planner.corpus)
        return outcome


def _settings(main: Main, changes: dict[str, Any]) -> Settings:
    own = getattr(main, "foretold_settings", None)
    changes = changes if own is None else own(changes)  # a machine has settings of its own
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
        settings: Settings,
        isolation: str | None = None,
        *,
        feedback: Feedback = False,
        keeps_going: bool = False,
        stored: Mapping[str, Tape] | None = None,
    ) -> None:
        self.main = main
        self._run_tape = runner_for(main, isolation)
        self._maker = Maker(
            main, settings, isolation, feedback=feedback, swarm=keeps_going, stored=stored
        )
        self._feedback = feedback
        self._isolation = isolation
        self.settings = settings
        self.shrinks = self.confirms = True
        self.keeps_going = keeps_going
        self.save_to: str | Path | None = None
        self.target = ""
        self.import_as = ""
        """How workers elsewhere find the program."""
        self.replayer: Replayer | None = None
        self.on_progress: Callable[[Progress], object] | None = None
        self.crowd: Crowd | None = None
        """Those who make the runs; None if that is done here."""
        self.outcome = Outcome(0, 0)
        self._runs_max = 0

    @contextlib.contextmanager
    def crowd_of(self, executor: str | Executor | None, workers: int) -> Iterator[Crowd]:
        """Workers for this search."""
        recipe = recipe_for(
            self._maker,
            self.import_as,
            self.settings,
            self._isolation,
            feedback=self._feedback,
            swarm=self.keeps_going,
        )
        with contextlib.ExitStack() as stack:
            stack.callback(done_with, recipe)
            if isinstance(executor, Executor):
                who = executor
            else:
                who = stack.enter_context(executor_named(executor, workers))
            check_elsewhere(who, self.import_as)
            yield Crowd(who, workers, recipe, self._note_death)

    def _note_death(self, text: str) -> None:
        self.outcome.worker_notes.append(text)

    def run(
        self,
        planner: SeedPlanner,
        crowd: contextlib.AbstractContextManager[Crowd | None],
        runs: int,
        seed: int,
        time_s: float | None,
    ) -> Outcome:
        """Search, and work out what was found, when those who helped are gone."""
        outcome = self.outcome
        outcome.seed, outcome.faults = seed, self.settings.faults
        self._runs_max = runs
        try:
            with crowd as self.crowd:
                failed = self._search(planner, runs, time_s)
            self.crowd = None
            outcome.vacuous = planner.is_vacuous and not failed
            outcome.vacuous |= outcome.discarded == outcome.runs  # none, if time was up before
            outcome.hollow = hollow_in(outcome)
            shares = Shares(time_s, len(failed))
            for seen in failed:
                self._work_out(seen, shares.next_s())
        except KeyboardInterrupt:
            outcome.interrupted = True
            raise Interrupted(outcome) from None
        return outcome

    def run_all(self, runs: int, seed: int, time_s: float | None, delays: int) -> Outcome:
        """Each schedule with at most so many delays, instead of those that seeds lead to."""
        outcome = self.outcome
        outcome.seed, self._runs_max = seed, runs
        started = real.monotonic()
        settings = self.settings.with_changes(order="any", strategy="fifo")
        schedules = Enumeration(
            lambda tape: self._run_tape(tape, settings), settings.on_tape(), delays
        )
        for tape, done in schedules:
            self._count(done)
            if done.signature is not None:
                again = self._run_tape(tape, settings, recording=True)
                if again.signature == done.signature and again.recorded is not None:
                    tape = again.recorded  # in words that a replay understands
                found = self._found(tape, done, outcome.runs, seed)
                self._workshop(outcome.runs).work_out(found)
            if done.signature is not None or outcome.runs >= runs:
                break
            if time_s is not None and real.monotonic() - started > time_s:
                break
        outcome.elapsed_s = real.monotonic() - started
        outcome.covered = schedules.words()
        outcome.vacuous = outcome.failure is None and schedules.nothing_to_choose
        return outcome

    def keep_corpus(self, folder: Path, corpus: Corpus) -> None:
        """Keep the newest tapes that reached something new."""
        newest = corpus.entries[-STORED_MAX:]
        store_corpus(folder, map(self._maker.recording_of, newest), self.target)

    def _search(self, planner: SeedPlanner, runs: int, time_s: float | None) -> list[Seen]:
        """The failing runs, one of each kind."""
        outcome, rounds = self.outcome, Rounds(planner, runs)
        started = real.monotonic()
        if self.crowd is not None and time_s is not None:
            self.crowd.until_s = started + time_s + GRACE_S
        results = here(self._maker, rounds) if self.crowd is None else self.crowd.results(rounds)
        failed: list[Seen] = []
        with contextlib.closing(results):
            for seen in results:
                news = self._add(seen)
                rounds.put(seen, news)
                if seen.brief.signature is not None:
                    failed += self._note_failure(seen)
                    if not self.keeps_going:
                        break
                outcome.elapsed_s = real.monotonic() - started
                if time_s is not None and outcome.elapsed_s > time_s:
                    break
        rounds.finish()
        outcome.elapsed_s = real.monotonic() - started
        return failed

    def _add(self, seen: Seen) -> int:
        """Returns how much of what the run reached was new."""
        if self.keeps_going:
            self.outcome.swarm.add(seen.brief.configuration, seen.brief.signature)
        news = self.outcome.coverage.add(seen.features)
        self._count(seen.brief)
        return news

    def _count(self, done: Brief) -> None:
        outcome = self.outcome
        outcome.runs += 1
        outcome.discarded += bool(done.discarded)
        outcome.virtual_s += done.virtual_s
        if done.reached or done.missed:
            _add_points(outcome, done)
        if done.tally is not None:
            outcome.tally.add(done.tally)
        outcome.notes = outcome.notes or done.notes[:NOTES_MAX]
        self._tell_progress(outcome.runs, "searching")

    def _tell_progress(self, runs: int, stage: str) -> None:
        if self.on_progress is not None:
            outcome, crowd = self.outcome, self.crowd
            made = runs if crowd is None or stage != "searching" else crowd.made
            reached, failed = outcome.coverage.reached, len(outcome.failures)
            self.on_progress(Progress(max(runs, made), self._runs_max, failed, stage, reached))

    def _note_failure(self, seen: Seen) -> list[Seen]:
        """Count a failing run. If it is the first of its kind, keep its tape at once."""
        done = seen.brief
        wanted, lineage = done.signature, seen.errand.lineage
        assert wanted is not None, "only failing runs are noted"
        for known in self.outcome.failures:
            if known.signature == wanted:
                known.times += 1
                return []
        tape = self._maker.tape_of(lineage)
        run, seed = seen.errand.number, tape.seed if lineage.stored else lineage.seed
        found = self._found(tape, done, run, seed)
        found.changes = len(lineage.changes) + bool(lineage.stored)
        found.configuration = done.configuration
        self._workshop(run).save(found)
        return [seen]

    def _found(self, tape: Tape, done: Brief, run: int, seed: int) -> Failure:
        wanted = done.signature
        assert wanted is not None, "only failing runs are noted"
        if wanted.kind == _MISTAKE:
            raise _mistake(wanted, done)
        error = done.error or _stand_in(wanted, done.message)
        found = Failure(error, tape, wanted, run, seed, target=self.target, digest=done.digest)
        found.profile = Settings.from_tape(tape.settings).profile
        self.outcome.failures.append(found)
        return found

    def _work_out(self, seen: Seen, shrink_s_max: float) -> None:
        wanted, run = seen.brief.signature, seen.errand.number
        found = next(each for each in self.outcome.failures if each.signature == wanted)
        if not isinstance(found.exception, WorkerDied):  # that would end this process as well
            workshop = self._workshop(run)
            workshop.shrink_s_max = shrink_s_max
            workshop.work_out(found)

    def _workshop(self, run: int) -> Workshop:
        return Workshop(
            self.main,
            self._run_tape,
            wall_s_max=self.settings.wall_s_max,
            shrinks=self.shrinks,
            save_to=self.save_to,
            target=self.target,
            replayer=self.replayer,
            on_stage=lambda stage: self._tell_progress(run, stage),
        )


class Shares:
    """How long each of several failures may be shrunk. A search that has a time to keep shall not
    take several times as long because it found much: several failures share that time once more.
    What one leaves over is the others'."""

    def __init__(self, time_s: float | None, failures: int) -> None:
        alone = failures == 1
        self._until_s = None if time_s is None or alone else real.monotonic() + time_s
        self._left = failures

    def next_s(self) -> float:
        """For the next failure."""
        left, self._left = self._left, self._left - 1
        if self._until_s is None:
            return SHRINK_S_MAX
        return min(SHRINK_S_MAX, max(SHARE_S_MIN, (self._until_s - real.monotonic()) / left))


_MISTAKE = f"{UsageError.__module__}.{UsageError.__qualname__}"


def _mistake(wanted: Signature, done: Brief) -> UsageError:
    """A call of foretold's that cannot work as written is nothing that a program does under some
    tapes: there is nothing to shrink or to keep, the test has to be changed."""
    said = done.message if done.error is None else text_of(done.error)
    error = UsageError(f"{said}\n  at {short_path(wanted.place)}" if wanted.place else said)
    error.in_run = done.error
    return error


def _stand_in(wanted: Signature, message: str) -> BaseException:
    """For an exception that was raised in another process."""
    said = f": {message}" if message else ""
    return ForetoldError(f"{wanted.kind}{said} at {wanted.place}")


def _add_points(outcome: Outcome, done: Brief) -> None:
    for point, count in done.reached.items():
        outcome.reached[point] = outcome.reached.get(point, 0) + count
    passed = dict.fromkeys(outcome.missed + done.missed)
    outcome.missed = [point for point in passed if point not in outcome.reached]
