"""The tapes of planted mistakes: how they are found, made small, stored and run.

For a switch of an example `tapes/PROGRAM/NAME.tape` holds a run of a scene or of a machine in which
that mistake shows. A tape takes a fraction of a second; a search for it, up to hundreds of runs.
So the suite runs the tapes, and most searches are left to `make soak`.

A tape says by name which calls are made and which steps wait, so most changes of the engine leave
it valid. A change of the machine's rules or of the application may not. Then record it anew:

    FORETOLD_REWRITE=1 pytest tests/examples/test_kept_tapes.py

That searches and shrinks again, three times: about 10 CPU seconds for a scene, 30 to 180 for a
machine. `-k NAME` does it for one mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foretold
from foretold.kernel.session import session
from foretold.story.signature import Signature, signature_of, text_of
from foretold.tape import FailureNote, Tape, TapeFile, dumps, load, save
from foretold.tape.shrink import BudgetSpent, shrink
from foretold.world.run import Run
from tests.helpers import again

FOLDER = Path(__file__).parent / "tapes"
SHRINK_RUNS_MAX = 120
SEARCHES = 3


def noted(error: BaseException) -> FailureNote:
    """What is kept of a failure: lines of the source move too often."""
    return FailureNote(type(error).__qualname__, text_of(error))


@dataclass(frozen=True, slots=True)
class Shelf:
    """The tapes of one kind of program."""

    name: str
    bugs: Collection[str]
    program: Callable[[str], Any]
    """What is run for a mistake: it makes the mistake if that is the mutant of the run."""
    runs_max: int
    """Within so many runs a search has to find each of them."""
    seed: int = 0
    """Where the search begins: runs are long or short, and a long one does not shrink in so few
    runs as are made here."""

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return FOLDER / self.name

    def path(self, bug: str) -> Path:
        """The file of one of them."""
        return self.folder / f"{bug}.tape"

    def stored(self, bug: str) -> TapeFile:
        """A tape, with what was noted of its failure."""
        return load(self.path(bug))

    def run(self, bug: str, tape: Tape, *, mutant: str | None) -> Run:
        """A run on a tape, with this mutant and no other."""
        settings = {name: value for name, value in tape.settings.items() if name != "mutant"}
        if mutant is not None:
            settings["mutant"] = mutant
        return again(self.program(bug), tape.derived(settings=settings))

    def record(self, bug: str) -> None:
        """Search for runs that show the mistake, shrink them, and store the smallest. It has the
        best chance to be valid for other versions of Python, whose loops make other steps."""
        tapes = [self._recorded(bug, seed) for seed in range(self.seed, self.seed + SEARCHES)]
        self.folder.mkdir(parents=True, exist_ok=True)
        save(self.path(bug), min(tapes, key=lambda file: len(dumps(file))))

    def _recorded(self, bug: str, seed: int) -> TapeFile:
        main = self.program(bug)
        outcome = foretold.explore(
            main, runs=self.runs_max, seed=seed, shrink=False, confirm=False, mutant=bug
        )
        assert outcome.failure is not None, f"{bug} was not found in {self.runs_max} runs"
        with session():
            tape = _smallest(main, outcome.failure.tape, outcome.failure.signature)
            error = self.run(bug, tape, mutant=bug).error
        assert error is not None, f"the tape of {bug} does not fail when it is run again"
        return TapeFile(tape, failure=noted(error))


def _smallest(main: Any, found: Tape, wanted: Signature) -> Tape:
    """The tape by its choices, without what guided the search, and with few of them left."""
    recorded = again(main, found, recording=True).tape.recorded()
    settings = {name: value for name, value in recorded.settings.items() if name != "profile"}
    runs = 0

    def still_fails(candidate: Tape) -> bool:
        nonlocal runs
        runs += 1
        if runs > SHRINK_RUNS_MAX:
            raise BudgetSpent
        done = again(main, candidate)
        # A hold that had to be broken off says what did not happen.
        if done.error is None or done.broken_holds:
            return False
        return signature_of(done.error) == wanted

    return shrink(recorded.derived(settings=settings), still_fails)
