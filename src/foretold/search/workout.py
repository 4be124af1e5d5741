"""From a failing run to something a person can use: smaller, tried in stock order, told, confirmed.

Its tape is saved before any of that begins, and again whenever there is a better one. A tape that
was saved while it was being shrunk says so (`shrinking unfinished`), and is where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretold.errors import ForetoldError, TapeError
from foretold.kernel import real
from foretold.search import shorter, stock
from foretold.search.failure import Failure
from foretold.search.isolation import Brief, Forked, Runner
from foretold.search.pair import what_decides
from foretold.search.replayers import Replayer
from foretold.search.shrinking import Shrinking
from foretold.search.signature import signature_of
from foretold.search.story import faults_of, tell_run
from foretold.search.verify import confirm
from foretold.tape import Tape, TapeFile
from foretold.trace import Trace
from foretold.world.run import Run, execute
from foretold.world.settings import Settings

SHRINK_RUNS_MAX = 2_000
SHRINK_S_MAX = 30.0
OTHERS_S_MAX = 5.0
DECIDED_S_MAX = 10.0
OTHERS_RUNS = 600
UNSTEADY = "the same tape, run again in the same process, did not fail like this"


@dataclass(slots=True)
class Workshop:
    """Where the failures of one program are worked out."""

    main: Callable[[Any], Any]
    runner: Runner
    wall_s_max: float | None = None
    shrinks: bool = True
    shrink_s_max: float = SHRINK_S_MAX
    save_to: str | Path | None = None
    target: str = ""
    replayer: Replayer | None = None
    on_stage: Callable[[str], object] = field(default=lambda stage: None)

    def work_out(self, found: Failure) -> None:
        """Find out all that can be said about a failure, of which the tape is known."""
        self.save(found)
        self.on_stage("shrinking")
        tape: Tape | None = found.tape
        if not (found.unfinished and found.tape.scheduled_by_key):
            recorded = self._again(found.tape, recording=True)
            tape = recorded.recorded if recorded.signature == found.signature else None
            if tape is None:
                found.doubt = UNSTEADY
        if tape is not None:
            original = found.tape
            self._make_smaller(found, tape)
            if not found.doubt:
                if self.shrinks and shorter.is_worth_it(found.tape):
                    self._try_others(found, original)
                self._try_stock(found)
        self._tell(found)
        self.save(found)
        if self.replayer is not None:
            self.on_stage("confirming")
            confirm(found, self.main, self.replayer)

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
        return self.runner(tape, self._settings_of(tape), recording=recording)

    # Smaller

    def _make_smaller(self, found: Failure, tape: Tape) -> None:
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

        shrinking = Shrinking(
            self._again,
            found.signature,
            runs_max=SHRINK_RUNS_MAX - found.shrink_runs,
            s_max=self.shrink_s_max,
            on_better=save_best,
        )
        try:
            found.tape = shrinking.smallest(tape)
            found.unfinished = not shrinking.finished
        finally:
            found.shrink_runs += shrinking.runs

    def _try_others(self, found: Failure, original: Tape) -> None:
        """Is there another way to the same failure, by a shorter program?"""

        def again(tape: Tape, recording: bool) -> Brief:
            found.shrink_runs += 1
            return self._again(tape, recording=recording)

        until_s = real.monotonic() + min(OTHERS_S_MAX, self.shrink_s_max)
        for tape in shorter.others(original, found.signature, again):
            if real.monotonic() > until_s:
                return
            if tape is None:
                continue
            left_s = until_s - real.monotonic()
            shrinking = Shrinking(self._again, found.signature, runs_max=OTHERS_RUNS, s_max=left_s)
            smaller = shrinking.smallest(tape)
            found.shrink_runs += shrinking.runs
            if shorter.is_shorter(smaller, found.tape):
                found.tape = smaller

    def _try_stock(self, found: Failure) -> None:
        """Can stock asyncio do this? Only a run in its own order that fails is a yes."""
        tape, found.stock_known = found.tape, True
        if tape.settings.get("order") == "asyncio":
            found.stock_asyncio = True
            return
        for tried, candidate in enumerate(stock.candidates(tape, found.seed)):
            seen = self._again(candidate)
            if seen.signature == found.signature:
                found.stock_asyncio = True
                recorded = self._again(candidate, recording=True).recorded
                assert recorded is not None, "asked for"
                self._make_smaller(found, recorded)
                return
            found.stock_tries = tried + 1
            if not seen.choices and not seen.discarded:
                found.stock_tries = 0  # it makes no choice at all: its order is the only one
                return

    # Told

    def _tell(self, found: Failure) -> None:
        # In this process even with isolation="fork": the exception itself is wanted, and a parent
        # that never ran anything is as fresh as a child.
        done = execute(self.main, found.tape, self._settings_of(found.tape), detail=True)
        if done.error is None or signature_of(done.error) != found.signature:
            found.reproduced = False
            found.doubt = UNSTEADY
            return
        found.exception = done.error
        found.digest = done.digest
        # Many runs in this process: not where each run was to start afresh.
        afresh = isinstance(self.runner, Forked)
        if self.shrinks and not found.unfinished and not afresh:
            s_max = min(self.shrink_s_max, DECIDED_S_MAX)
            found.decision = what_decides(self._watch, done, found.signature, s_max=s_max)
        found.story, found.delays = tell_run(done, found.decision)
        found.faults = faults_of(done)
        found.notes = done.notes

    def _watch(self, tape: Tape, trace: Trace) -> Run:
        return execute(self.main, tape, self._settings_of(tape), trace=trace)
