"""A failure that was found: the exception, the tape that leads to it, and the story."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foretold.search.feedback import Coverage
from foretold.search.pair import Decision
from foretold.search.signature import Signature, place_of, text_of
from foretold.search.swarm import Swarm
from foretold.tape import Hold, Tape
from foretold.tape.file import FailureNote, TapeFile, save
from foretold.trace import Place
from foretold.world.tally import Tally

if TYPE_CHECKING:
    from foretold.search.vacuity import Hollow


class Delay(NamedTuple):
    """An actor was held before a step, at a line, until something else had happened."""

    actor: str
    step: int
    location: Place | None
    until: str
    hold: Hold


@dataclass(slots=True)
class Failure:
    """One failure, found by `explore`."""

    exception: BaseException
    tape: Tape
    signature: Signature
    run: int
    """Which run of the search found it, counted from 1."""
    seed: int
    """The seed of that run."""
    profile: str = ""
    """What the search had learned by then: with the seed, it says all about the run."""
    story: str = ""
    delays: list[Delay] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What else deserves a look in this run, such as threads that were left running."""
    stock_asyncio: bool = False
    """True if stock asyncio can do this; False if it needs an order stock asyncio does not take."""
    stock_tries: int = 0
    """How many runs in stock order did not fail; 0 if its order is the only one it can take."""
    reproduced: bool | None = None
    """Whether a fresh process failed in the same way; None if that was not asked for."""
    doubt: str = ""
    """If it did not: what happened there instead, and the first event that differs."""
    digest: str = ""
    target: str = ""
    shrink_runs: int = 0
    unfinished: bool = False
    """True if shrinking was broken off: there may be a smaller tape."""
    decision: Decision | None = None
    """The critical pair: the two steps whose swap turns the failure into success. None if that was
    not looked for."""
    saved_as: Path | None = None
    times: int = 1
    """How many runs of the search failed like this."""
    changes: int = 0
    """How often the tape was changed, since it came from its seed, before this was found."""
    configuration: dict[str, str] = field(default_factory=dict)
    """What that run drew once for all of it: order, strategy, faults, knobs."""

    def save(self, path: str | Path) -> Path:
        """Write the tape to a file that `foretold replay` takes."""
        error = self.exception
        lines = text_of(error).splitlines()
        place = place_of(error)
        note = FailureNote(
            type(error).__qualname__, lines[0] if lines else "", str(place) if place else ""
        )
        file = TapeFile(
            self.tape,
            target=self.target,
            failure=note,
            digest=self.digest or None,
            unfinished=self.unfinished,
        )
        save(path, file)
        return Path(path)


@dataclass(slots=True)
class Outcome:
    """What a search gave."""

    runs: int
    """Runs of the search itself, without those for shrinking and confirming."""
    seed: int
    failures: list[Failure] = field(default_factory=list)
    vacuous: bool = False
    """Nothing was explored: no choice was ever made (every run is the same run), or every run was
    discarded."""
    discarded: int = 0
    """Runs that said nothing, because a strategy gave no value."""
    reached: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    """`sometimes` points that no run ever satisfied."""
    notes: list[str] = field(default_factory=list)
    """What is no failure and deserves a look all the same; of the first run that had any."""
    worker_notes: list[str] = field(default_factory=list)
    """What happened to the workers."""
    covered: str = ""
    """With `strategy="exhaustive"`: which schedules were run, in words; no more is claimed."""
    elapsed_s: float = 0.0
    virtual_s: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    """What all runs together reached."""
    tally: Tally = field(default_factory=Tally)
    """How often each rule, invariant and fault came to something, in all runs together."""
    swarm: Swarm = field(default_factory=Swarm)
    """The configurations of all runs, if the search went on after a failure."""
    faults: str = ""
    """The kinds of faults that were asked for."""
    hollow: list[Hollow] = field(default_factory=list)
    """If it held: rules, invariants, points and faults that never came to anything. Empty below 100
    runs, which say too little."""
    interrupted: bool = False
    """Ctrl-C was pressed before the search was over."""

    @property
    def failure(self) -> Failure | None:
        return self.failures[0] if self.failures else None
