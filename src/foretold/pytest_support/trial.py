"""One test on trial: what failed before is tried first, then new runs are searched.

Used alike for a pytest item and for a decorated function that is called directly; what differs
between the two (name, seed, place to keep tapes, command to replay) comes in a `TrialSetup`.
"""

from __future__ import annotations

import inspect
import os
import sys
import unittest
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretold.errors import ForetoldError, TapeError, Vacuous
from foretold.kernel import real
from foretold.pytest_support.simulation import Simulation
from foretold.report.explained import ONE_COLD_RUN, explanation_text
from foretold.report.exports import Annotation, annotation_of
from foretold.report.text import failure_note, notes_on
from foretold.report.vacuity import hollow_lines, tally_lines
from foretold.search.checking.replayers import Replayer
from foretold.search.explore import Progress, explore, resume
from foretold.search.failures.explain import explain
from foretold.search.failures.failure import Failure, Outcome
from foretold.search.failures.recall import recalled
from foretold.search.failures.retry import failure_elsewhere, failure_of, recorded_elsewhere
from foretold.search.failures.store import Store
from foretold.search.workers.warming import run_warm
from foretold.tape.file import TapeFile, load
from foretold.trace import Place
from foretold.world.settings import Settings
from foretold.world.world import World

Main = Callable[[World], Any]

_HOLDS_BY_CHANCE = (
    "it holds here on {}, a saved failure, but not in a process with PYTHONHASHSEED=0, or that "
    "could not be found out; the failure is kept"
)

_EMPTY_REMEDY = (
    ". Give the search more time, look at why a run takes so long, or draw from strategies that "
    "have values"
)

EXPLAIN_VARIABLE = "FORETOLD_EXPLAIN"
"""Set by `foretold explain`: so many continuations from each point of the run that is replayed."""


@dataclass(frozen=True)
class TrialSetup:
    """Who is on trial, and by which means."""

    target: str
    """The name under which tapes are kept and replayed."""
    seed: int
    runs: int
    store: Store
    replayer: Replayer | None
    command: Callable[[Failure], str]
    """The line that replays a failure."""
    tries_saved: bool = True
    before_run: Callable[[], object] = lambda: None
    vacuity: str = "fail"
    """Whether a search that tests nothing fails, unless the simulation says it otherwise."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Besides those of the simulation."""


@dataclass
class Record:
    """What there is to say about a trial afterwards. Plain data: it travels between processes."""

    test: str
    seed: int
    runs: int = 0
    search_s: float = 0.0
    failed: bool = False
    vacuous: bool = False
    nothing: str = ""
    """Why nothing was explored, if it is vacuous."""
    empty: bool = False
    """No run counts: that fails the test."""
    replayed: str = ""
    """The file that was replayed on demand."""
    saved_as: str = ""
    note: str = ""
    annotation: Annotation | None = None
    """The failure as GitHub is told of it."""
    fixed: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    hollow: list[dict[str, str]] = field(default_factory=list)
    """What never came to pass, though the search was long enough; points are in `missed`."""
    hints: list[dict[str, str]] = field(default_factory=list)
    """The same of a search that was too short for a verdict."""
    notes: list[str] = field(default_factory=list)
    """What is no failure and deserves a look all the same."""
    shared: list[str] = field(default_factory=list)
    """What all runs get from fixtures of wider scopes, as far as a run could change it."""


class Trial:
    """A simulation with its arguments, tried under an errand."""

    def __init__(self, simulation: Simulation, call: Main, errand: TrialSetup) -> None:
        self.simulation = simulation
        self.errand = errand
        self.record = Record(errand.target, errand.seed)
        self._call = call
        self._pid = real.getpid()
        self._verdict: BaseException | None = None
        """`pytest.skip()` and its like, raised in a run: about the test, not about the run."""

    def run(self) -> Failure | None:
        """Saved failures first, then a search. Returns what failed, with its note in place."""
        errand = self.errand
        found = self._saved_failure() if errand.tries_saved else None
        if found is None:
            settings = {**self.simulation.settings, **errand.settings}
            outcome = self._search(errand.runs, errand.seed, settings)
            found = outcome.failure
            self._note_outcome(outcome)
            self._judge(outcome)
        return self._noted(found)

    def replay(self, path: Path) -> Failure | None:
        """The run of one tape and nothing else."""
        self.record.replayed = str(path)
        file = load(path)
        found = self._failure_of(file, path)
        asked = os.environ.get(EXPLAIN_VARIABLE, "")
        if found is not None and asked.isdecimal():
            cold = bool(file.tape.settings.get("cold"))
            more = ONE_COLD_RUN if cold else self._explained(file, int(asked))
            found.story = found.story.with_text(f"{found.story}\n\n{more}")
        return self._noted(found)

    def _explained(self, file: TapeFile, continuations: int) -> str:
        return explanation_text(explain(self.main, file.tape, continuations=max(1, continuations)))

    def main(self, world: World) -> Any:
        """The test as a function of the world alone."""
        self.errand.before_run()
        try:
            result = self._call(world)
            if inspect.iscoroutine(result):
                # Not left to the caller: what pytest.skip() raises in a coroutine comes out here.
                loop = world.home.loop
                task = loop.create_task(result, name=result.__name__)
                result = loop.run_until_complete(task)
        except about_test() as raised:
            self._verdict = raised
            if real.getpid() != self._pid:  # os.getpid is simulated here
                world.fail(raised)  # in a forked child nobody sees our attributes
            return None
        return result

    # What failed before

    def _saved_failure(self) -> Failure | None:
        for path in self.errand.store.saved(self.errand.target):
            try:
                file = load(path)
                found = self._again(file, path) or self._again_cold(file, path)
            except TapeError as error:
                self.record.unreadable.append(str(error))
                continue
            if found is not None:
                return found
            if recorded_elsewhere(file):
                continue
            if self._fails_with_fixed_hashes(file):
                self.record.notes.append(_HOLDS_BY_CHANCE.format(path.name))
            else:
                self.record.fixed.append(str(self.errand.store.set_aside(path)))
        return None

    def _again_cold(self, file: TapeFile, path: Path) -> Failure | None:
        """A tape of the first run of a process holds in this one. That says nothing, because other
        tests have run here: a fresh process is asked."""
        if not file.tape.settings.get("cold") or self.errand.replayer is None:
            return None
        try:
            seen = self.errand.replayer(file.tape)
        except ForetoldError as error:
            raise TapeError(
                f"{file.target}: it could not be replayed in a fresh process: {error}"
            ) from None
        return failure_elsewhere(seen, file, path) if seen.failed else None

    def _fails_with_fixed_hashes(self, file: TapeFile) -> bool:
        """Where the hashes of strings are drawn by chance, that a tape holds does not say that the
        failure is gone: a process with hash seed 0 is asked. What it cannot say counts as yes."""
        if not sys.flags.hash_randomization or self.errand.replayer is None:
            return False
        try:
            return self.errand.replayer(file.tape).failed
        except ForetoldError:
            return True

    def _again(self, file: TapeFile, path: Path) -> Failure | None:
        tape = file.tape
        is_cold = bool(tape.settings.get("cold")) and not self.simulation.settings.get("isolation")
        if (
            tape.origin == "seeded" and not is_cold
        ):  # saved, and then killed before it was shrunk: do that now
            settings = dict(self.simulation.settings, **tape.settings)
            return self._search(1, tape.seed, settings).failure
        if file.unfinished:
            return self._go_on(path)
        return self._failure_of(file, path)

    def _go_on(self, path: Path) -> Failure | None:
        """It was being shrunk when somebody interrupted."""
        settings = self.simulation.settings
        found = resume(
            self.main,
            path,
            confirm=False,
            isolation=settings.get("isolation"),
            wall_s_max=settings.get("wall_s_max"),
            replayer=self.errand.replayer if settings.get("confirm", True) else None,
        )
        self._raise_verdict()
        return found

    def _failure_of(self, file: TapeFile, path: Path) -> Failure | None:
        """What a tape gives now; None if it holds."""
        settings = Settings.from_tape(file.tape.settings)
        settings = settings.with_changes(wall_s_max=self.simulation.settings.get("wall_s_max"))
        done = run_warm(self.main, file.tape, settings, detail=True)
        self.record.runs += 1
        self._raise_verdict()
        return failure_of(done, file, path, recalled(file, done, self.main, settings))

    # What may fail now

    def _search(self, runs: int, seed: int, settings: Any) -> Outcome:
        store, target = self.errand.store, self.errand.target
        started = real.monotonic()

        def on_progress(progress: Progress) -> None:
            self._raise_verdict()
            if progress.stage == "searching":
                self.record.search_s = real.monotonic() - started
            else:
                store.keep_out_of_git()

        outcome = explore(
            self.main,
            runs=runs,
            seed=seed,
            save_to=store.folder_of(target) if store.is_writable() else None,
            target=target,
            replayer=self.errand.replayer if settings.get("confirm", True) else None,
            on_progress=on_progress,
            **settings,
        )
        self.record.runs += outcome.runs
        self._raise_verdict()
        return outcome

    def _raise_verdict(self) -> None:
        if self._verdict is None:
            return
        # Seen in a forked child first, where it counted as a failure.
        store = self.errand.store
        kind = type(self._verdict).__name__
        for path in store.folder_of(self.errand.target).glob(f"{kind}-*.tape"):
            store.discard(path)
        raise self._verdict

    # What there is to say

    def _note_outcome(self, outcome: Outcome) -> None:
        self.record.vacuous = outcome.vacuous
        self.record.nothing = outcome.why_vacuous if outcome.vacuous else ""
        self.record.empty = outcome.is_empty
        self.record.reached = list(outcome.reached)
        self.record.notes += notes_on(outcome)
        if outcome.failure is None:  # a search that was cut short says nothing about what it missed
            self.record.missed = list(outcome.missed)

    def _judge(self, outcome: Outcome) -> None:
        """A search that tests nothing. `sometimes` points are judged by all tests together."""
        if outcome.is_empty:
            raise Vacuous(f"nothing was explored: {outcome.why_vacuous}{_EMPTY_REMEDY}")
        how = self.simulation.vacuity or self.errand.vacuity
        hollow = [each for each in outcome.hollow if each.sort != "sometimes"]
        if how == "ignore":
            return
        self.record.hollow = [each.as_data() for each in hollow]
        self.record.hints = [each.as_data() for each in outcome.hints]
        if hollow and how == "fail":
            lines = [*hollow_lines(hollow), *tally_lines(outcome)]
            lines.append('vacuity="warn" makes a warning of it, for a test or for all (ini-file)')
            raise Vacuous("\n".join(lines))

    def _noted(self, found: Failure | None) -> Failure | None:
        if found is None:
            return None
        command = self.errand.command(found)
        note = failure_note(found, runs=self.errand.runs, command=command)
        found.exception.add_note(note)
        self.record.failed = True
        self.record.annotation = annotation_of(found, command, _definition(self.simulation))
        self.record.note = note
        self.record.saved_as = str(found.saved_as or "")
        return found


def _definition(simulation: Simulation) -> Place | None:
    """Where the test stands: the place of a deadlock, which no line raises."""
    code = getattr(inspect.unwrap(simulation.function), "__code__", None)
    return None if code is None else Place(code.co_filename, code.co_firstlineno, code.co_qualname)


def about_test() -> tuple[type[BaseException], ...]:
    """Exceptions by which a run says something about its test as a whole: skip it, for example."""
    pytest = sys.modules.get("pytest")
    if pytest is None:
        return (unittest.SkipTest,)
    outcomes = (pytest.skip, pytest.xfail, pytest.exit)
    return (unittest.SkipTest, *(outcome.Exception for outcome in outcomes))
