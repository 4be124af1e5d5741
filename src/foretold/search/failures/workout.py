"""From a failing run to something a person can use: smaller, tried in stock order, told, confirmed.

Its tape is saved before any of that begins, and again whenever there is a better one. A tape that
was saved while it was being shrunk says so (`shrinking unfinished`), and is where to go on.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretold.errors import ForetoldError, TapeError, TimeUp
from foretold.kernel import real
from foretold.search.checking.replayers import ForkedReplayer, Replayer
from foretold.search.checking.verify import confirm
from foretold.search.failures import shorter, stock
from foretold.search.failures.ahead import Ahead
from foretold.search.failures.examiner import Seen, look, seen_of
from foretold.search.failures.failure import Failure
from foretold.search.failures.pair import what_decides
from foretold.search.failures.shrinking import Shrinking
from foretold.search.planning.allowance import Allowance
from foretold.search.planning.deadline import CONFIRMED_S, SMALLER_S, TOLD_S, Deadline, OutOfTime
from foretold.search.workers.brief import Brief
from foretold.search.workers.isolation import Forked, Runner
from foretold.story.decision import Decision
from foretold.story.signature import signature_of
from foretold.story.story import faults_of, has_only_threads, tell_run
from foretold.tape import Tape, TapeFile
from foretold.tape.schedule import Key
from foretold.world.run import execute
from foretold.world.settings import Settings

SHRINK_RUNS_MAX = 2_000
SHRINK_CPU_S = 60.0
"""Of processor time, for programs whose runs are long; so are the next ones."""
STOCK_RUNS_MIN = 200
"""For the tape in stock order, if shrinking has used up its runs before."""
OTHERS_RUNS = 600
OTHERS_CPU_S = 10.0
DECIDED_RUNS = 500
DECIDED_CPU_S = 20.0
NOT_FRESH = (
    "it was not replayed, because only a fresh process could, and the function has no name by "
    "which one could import it. Define it at the top of a module"
)
UNTOLD = "the time was up before its story could be told"
UNSTEADY = "the same tape, run again in the same process, did not fail like this"


@dataclass(slots=True)
class Workshop:
    main: Callable[[Any], Any]
    runner: Runner
    wall_s_max: float | None = None
    shrinks: bool = True
    shrink_runs: int | None = None
    """So many runs are made, however long they take."""
    until_s: float = math.inf
    """The real time that is this failure's share ends then."""
    save_to: str | Path | None = None
    target: str = ""
    replayer: Replayer | None = None
    on_stage: Callable[[str], object] = field(default=lambda stage: None)
    deadline: Deadline = field(default_factory=Deadline)
    workers: int = 1
    """So many processes run the tapes that shrinking asks about."""
    _ahead: Ahead | None = None

    def work_out(self, found: Failure) -> None:
        """Find out all that can be said about a failure, of which the tape is known."""
        self.save(found)
        if found.first_only:
            self._confirm_first(found)
            return
        self.on_stage("shrinking")
        if self.shrinks or self.replayer is not None:
            try:
                with self.deadline.runs_until(SMALLER_S), self._working_ahead():
                    self._improve(found)
            except OutOfTime:
                found.unfinished = self.shrinks
        with self.deadline.runs_until(TOLD_S):
            self._tell(found)
        self.save(found)
        self._confirm(found)

    @contextlib.contextmanager
    def _working_ahead(self) -> Iterator[None]:
        """Inside, other processes help to shrink."""
        if self.workers == 1:
            yield
            return
        self._ahead = Ahead(self.workers, lambda tape: self.runner(tape, self._settings_of(tape)))
        try:
            yield
        finally:
            self._ahead.close()
            self._ahead = None

    def _confirm(self, found: Failure) -> None:
        if self.replayer is not None:
            self.on_stage("confirming")
            with self.deadline.runs_until(CONFIRMED_S):
                confirm(found, self.main, self.replayer, self.deadline)

    def _confirm_first(self, found: Failure) -> None:
        """A failure of the first run of a process. This process has made its first run: nothing can
        be made smaller or told here. A fresh process can say whether its first run fails, too."""
        if isinstance(self.replayer, ForkedReplayer):
            found.doubt = NOT_FRESH
        else:
            self._confirm(found)

    def _improve(self, found: Failure) -> None:
        tape: Tape | None = found.tape
        if not (found.unfinished and found.tape.scheduled_by_key):
            recorded = self._again(found.tape, recording=True)
            tape = recorded.recorded if recorded.signature == found.signature else None
            if tape is None:
                found.doubt = UNSTEADY
        if tape is not None:
            original = found.tape
            if self.shrinks and shorter.calls_in(tape) >= shorter.CALLS_MIN:
                tape = self._by_last_calls(found, tape)
            self._make_smaller(found, tape, self._runs_left(found))
            if not found.doubt:
                if self.shrinks and shorter.is_worth_it(found.tape):
                    self._try_others(found, original)
                if self.shrinks:
                    self._try_stock(found)

    def go_on(self, file: TapeFile, path: Path | None = None) -> Failure | None:
        """Go on with a tape that was saved while it was being shrunk; None if it holds now."""
        done = self._again(file.tape)
        if done.signature is None:
            return None
        error = done.error or ForetoldError(f"{done.signature.kind} at {done.signature.place}")
        found = Failure(error, file.tape, done.signature, 0, file.tape.seed)
        found.target, found.digest, found.saved_as = self.target, done.digest, path
        found.unfinished = True
        self.work_out(found)
        return found

    # Tapes

    def save(self, found: Failure) -> None:
        """Write the tape as it is now."""
        path = found.saved_as
        if path is None and self.save_to is not None:
            since = f"-{found.run}" if found.changes else ""  # others come from the same seed
            name = f"{found.signature.kind.rpartition('.')[2]}-{found.seed}{since}.tape"
            path = Path(self.save_to) / name
        if path is None:
            return
        try:
            found.saved_as = found.save(path)
        except (OSError, TapeError) as error:
            found.doubt = f"the tape could not be saved: {error}"  # the failure is not lost

    def _settings_of(self, tape: Tape) -> Settings:
        settings = Settings.from_tape(tape.settings)
        return settings.with_changes(wall_s_max=self.wall_s_max)

    def _again(self, tape: Tape, *, recording: bool = False) -> Brief:
        self.on_stage("shrinking")
        self.deadline.check(SMALLER_S)
        if self._ahead is None or recording:
            done = self.runner(tape, self._settings_of(tape), recording=recording)
        else:
            done = self._ahead.answer(tape, self.deadline.end_s(SMALLER_S))
        self.deadline.check(math.inf, done.signature)
        return done

    # Smaller

    def _runs_left(self, found: Failure) -> int:
        return (self.shrink_runs or SHRINK_RUNS_MAX) - found.shrink_runs

    def _make_smaller(self, found: Failure, tape: Tape, runs: int) -> None:
        if self._again(tape).signature != found.signature:
            found.doubt = UNSTEADY
            return  # the recording does not replay: keep what does
        found.tape = tape
        if not self.shrinks:
            return

        def save_best(best: Tape) -> None:
            found.tape, found.unfinished = best, True
            # Whose digest it is must be known; it is run again when somebody goes on with it.
            digest, found.digest = found.digest, ""
            self.save(found)
            found.digest, found.unfinished = digest, False

        allowance = self._allowance(runs, SHRINK_CPU_S)
        shrinking = Shrinking(
            self._again, found.signature, allowance, on_better=save_best, ahead=self._ahead
        )
        try:
            found.tape = shrinking.smallest(tape)
            found.unfinished = not shrinking.finished
        finally:
            found.shrink_runs += shrinking.runs

    def _allowance(self, runs: int, cpu_s: float, until: float = SMALLER_S) -> Allowance:
        until_s = min(self.until_s, real.monotonic() + self.deadline.left_s(until))
        if self.shrink_runs is None:
            return Allowance(runs, cpu_s, until_s)
        return Allowance(min(runs, self.shrink_runs), until_s=until_s)

    def _by_last_calls(self, found: Failure, tape: Tape) -> Tape:
        """A recording that fails like this by the last few calls alone, if there is one."""
        for fewer in shorter.of_last_calls(tape):
            if self._runs_left(found) <= 0:
                break
            found.shrink_runs += 1
            seen = self._again(fewer, recording=True)
            if seen.signature == found.signature and seen.recorded is not None:
                return seen.recorded
        return tape

    def _try_others(self, found: Failure, original: Tape) -> None:
        """Is there another way to the same failure, by a shorter program?"""

        def again(tape: Tape, recording: bool) -> Brief:
            found.shrink_runs += 1
            seen = self._again(tape, recording=recording)
            allowance.spend()
            return seen

        runs = OTHERS_RUNS if self.shrink_runs is None else min(OTHERS_RUNS, self._runs_left(found))
        if runs <= 0:
            return
        allowance = self._allowance(runs, OTHERS_CPU_S)
        for tape in shorter.others(original, found.signature, again):
            if allowance.is_spent:
                return
            if tape is None:
                continue
            shrinking = Shrinking(self._again, found.signature, allowance, ahead=self._ahead)
            smaller = shrinking.smallest(tape)
            found.shrink_runs += shrinking.runs
            if shorter.calls_in(smaller) < shorter.calls_in(found.tape):
                found.tape = smaller

    def _try_stock(self, found: Failure) -> None:
        """Can stock asyncio do this? Only a run in its own order that fails is a yes."""
        found.note_stock(None)
        if found.stock_asyncio or not found.has_to_do_with_order:
            return
        answer = stock.ask(
            found.tape, found.signature, self._again, seed=found.seed, until_s=self.until_s
        )
        runs = self._runs_left(found)
        if self.shrink_runs is None:
            runs = max(runs, STOCK_RUNS_MIN)
        if answer.tape is not None and runs > 0:  # else it would be told as it was found
            recorded = self._again(answer.tape, recording=True).recorded
            assert recorded is not None, "asked for"
            self._make_smaller(found, recorded, runs)
            if found.tape.settings.get("order") != "asyncio":
                return
        found.note_stock(answer.note)

    # Told

    def _tell(self, found: Failure) -> None:
        # In this process even with isolation="fork": the exception itself is wanted, and a parent
        # that never ran anything is as fresh as a child. So what is run in children comes before.
        afresh = isinstance(self.runner, Forked)
        if afresh:
            found.decision = self._decision(found)
        # Where nothing is made smaller, this run is also the one that says who was held where.
        as_found = not self.shrinks and self.replayer is None
        settings = self._settings_of(found.tape)
        done = execute(self.main, found.tape, settings, detail=True, recording=as_found)
        if isinstance(done.error, TimeUp):
            found.doubt = UNTOLD
            return
        if done.error is None or signature_of(done.error) != found.signature:
            found.reproduced = False
            found.doubt = UNSTEADY
            return
        found.exception = done.error
        found.digest = done.digest
        found.note_stock(found.stock)  # the exception itself may be known only now
        if not afresh:
            found.decision = self._decision(found, seen_of(done))
        found.story, found.delays = tell_run(done, found.decision)
        found.faults = faults_of(done)
        found.has_only_threads = has_only_threads(done)
        found.notes = done.notes

    def _decision(self, found: Failure, seen: Seen | None = None) -> Decision | None:
        if not self.shrinks or found.unfinished:
            return None
        allowance = self._allowance(DECIDED_RUNS, DECIDED_CPU_S, TOLD_S)
        return what_decides(self._watch, found.tape, found.signature, allowance, seen)

    def _watch(self, tape: Tape, watched: Sequence[Key]) -> Seen:
        self.on_stage("shrinking")  # as far as anybody waits for it
        settings = self._settings_of(tape)
        return self.runner.apart(lambda: look(self.main, tape, settings, watched))
