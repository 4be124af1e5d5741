"""A failure that was found: the exception, the tape that leads to it, and the story."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from foretold.errors import EscapedWorld, ServiceError, TimeUp, Vacuous, WorkerDied
from foretold.search.failures.unseen import Attention, warn_if_unseen
from foretold.search.planning.feedback import Coverage
from foretold.search.planning.swarm import Swarm
from foretold.search.workers.brief import first_line
from foretold.story.decision import Decision
from foretold.story.signature import Signature, place_of, text_of
from foretold.story.tale import Delay, Story
from foretold.story.words import count
from foretold.tape import DecidedNote, FailureNote, StockNote, Tape, TapeFile, save
from foretold.world.tally import Tally

if TYPE_CHECKING:
    from foretold.search.checking.vacuity import Hollow

NOTED_CHARS_MAX = 1_000
"""Of a value in a tape file."""


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
    story: Story = field(default_factory=Story)
    """What a person reads. It is a text with facts: `story.pair`, `story.calls`, `story.faults`."""
    delays: list[Delay] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What else deserves a look in this run, such as threads that were left running."""
    stock_asyncio: bool | None = None
    """True if a run in the order of stock asyncio failed like this; False if that is excluded, for
    `stock_reason`; None if it was not seen in `stock_tries` tries."""
    stock_reason: str = ""
    stock_tries: int = 0
    """0 if nobody tried: a failure is reported as it was found, without shrinking."""
    has_only_threads: bool = False
    """The program has no tasks: what is said of stock asyncio holds of real threads."""
    stock_tape: Tape | None = None
    """The tape of that run in stock order."""
    reproduced: bool | None = None
    """Whether a fresh process failed in the same way; None if that was not asked for."""
    replayed_in: str = "a fresh process"
    """Who has found that out. A saved failure is replayed by the process that tells of it, whatever
    that did before."""
    elsewhere: bool = False
    """A saved failure that a fresh process has seen again, and this one, which has run things
    before, has not."""
    doubt: str = ""
    """If it did not: what happened there instead, and the first event that differs."""
    leans_on_earlier: bool = False
    """In a fresh process the second run of the tape failed like this, and the first did not."""
    digest: str = ""
    target: str = ""
    shrink_runs: int = 0
    unfinished: bool = False
    """True if shrinking was broken off: there may be a smaller tape."""
    decision: Decision | None = None
    """The critical pair: the two steps whose swap turns the failure into success. None if that was
    not looked for."""
    saved_as: Path | None = None
    first_only: bool = False
    """Only the first run of a process failed like this, and the same tape held when it was run
    again there. The tape is a cold one: its replay is the first run of its process."""
    times: int = 1
    """How many runs of the search failed like this."""
    changes: int = 0
    """How often the tape was changed, since it came from its seed, before this was found."""
    configuration: dict[str, str] = field(default_factory=dict)
    """What that run drew once for all of it: order, strategy, faults, knobs."""

    @property
    def stock(self) -> StockNote | None:
        """Whether stock asyncio can do this; None if nobody asked."""
        if self.stock_asyncio is None and not self.stock_tries:
            return None
        return StockNote(self.stock_asyncio, self.stock_tries, self.stock_reason)

    @property
    def where(self) -> str:
        """Which run of the search failed, in words."""
        before = "the first run of a process, made before " if self.first_only else ""
        return f"{before}run {self.run:,}"

    @property
    def has_to_do_with_order(self) -> bool:
        """Not so if foretold or a service of its own has failed, or if the program has left the
        world, or if it asked a server that is not there in the calm run either."""
        if isinstance(self.exception, EscapedWorld | ServiceError | WorkerDied | TimeUp):
            return False
        return not (is_calm(self.tape) and _found_nobody(self.exception))

    def note_stock(self, stock: StockNote | None) -> None:
        """What is known about that; a tape in stock order says it itself."""
        if self.tape.settings.get("order") == "asyncio":
            stock, self.stock_tape = StockNote(True), self.tape
        if not self.has_to_do_with_order:
            stock, self.stock_tape = StockNote(None), None
        if stock is not None:
            self.stock_asyncio, self.stock_tries = stock.possible, stock.tries
            self.stock_reason = stock.reason

    @property
    def _decided(self) -> DecidedNote | None:
        """What a tape file keeps of the decision: a replay tells it, and need not run what has
        established it."""
        found = self.decision
        if found is None or found.is_unknown:
            return None
        pair = None if found.pair is None else (found.pair.first.key, found.pair.second.key)
        expired = None if found.expired is None else (found.expired.host, found.expired.whose)
        values = found.values
        if values is not None and max(map(len, values)) > NOTED_CHARS_MAX:
            values = None
        return DecidedNote(
            pair, values, found.times, expired, found.needs_faults, found.orders_tried
        )

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
            stock=self.stock,
            decided=self._decided,
        )
        save(path, file)
        return Path(path)


@dataclass(slots=True, weakref_slot=True)
class Outcome:
    """What a search gave.

    In a plain test, `outcome.raise_failure()` fails the test by what was found. A failure that
    nobody looks at is worth a warning (`unseen.py`).
    """

    runs: int
    """Runs of the search itself, without those for shrinking and confirming."""
    seed: int
    _failures: list[Failure] = field(default_factory=list)
    vacuous: bool = False
    """Nothing was explored: no run has made a choice and all that were compared are the same, or
    every run was discarded."""
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
    hints: list[Hollow] = field(default_factory=list)
    """If it held in fewer runs than that: rules that never succeeded and faults that never
    happened. They are worth a warning, and do not change the verdict."""
    forgiven: bool = False
    """That is no more than a warning."""
    interrupted: bool = False
    """Ctrl-C was pressed before the search was over."""
    first_differs: bool = False
    """The first run in a process, which does not count, was another one than the same tape gave
    after it: something outlives a run, such as a cache."""
    first_failed: str = ""
    """How that run failed, if that is not among the failures: the run that counts failed as well,
    in another way, or the first one by a limit of real time."""
    runs_max: int = 0
    """How many runs were asked for."""
    _look: Attention = field(default_factory=Attention, repr=False, compare=False)

    @property
    def is_vacuous(self) -> bool:
        """It held, and that is no evidence."""
        return not self._failures and (self.vacuous or bool(self.hollow and not self.forgiven))

    @property
    def is_empty(self) -> bool:
        """No run has said anything: none was over when the time was up, or all were discarded.
        There is no verdict then, whatever is forgiven."""
        return not self._failures and not self.interrupted and self.discarded == self.runs

    @property
    def why_vacuous(self) -> str:
        """Why a search that held is `vacuous`: what was seen, and no more."""
        runs = count(self.runs, "run")
        if not self.runs:
            return "no run was over when the time was up"
        if self.discarded == self.runs:
            return f"all of {runs} were discarded, because a strategy gave no value"
        if self.covered:
            return "no two tasks were ever ready at the same time, so there is one schedule"
        return (
            f"no choice was made in {runs} (no two tasks could change places, the program drew no "
            "value, looked at no clock and used no other host), and all of them did the same"
        )

    @property
    def failures(self) -> list[Failure]:
        """What was found, one failure of each kind."""
        self._look.taken = True
        return self._failures

    @failures.setter
    def failures(self, found: list[Failure]) -> None:
        self._failures = found

    @property
    def failure(self) -> Failure | None:
        """The first failure that was found."""
        return next(iter(self.failures), None)

    def raise_failure(self) -> None:
        """Raise the exception of the first failure, with its story as a note; nothing if the
        search held. A search of which no run counts raises `Vacuous`."""
        __tracebackhide__ = True
        if self.failure is not None:
            raise _prepare(self.failure, self.runs_max)
        if self.is_empty:
            raise Vacuous(f"nothing was explored: {self.why_vacuous}")

    def __str__(self) -> str:
        """The verdict on one line."""
        found, runs = self.failure, count(self.runs, "run")
        if found is not None:
            others = len(self._failures) - 1
            more = f"; {count(others, 'other failure')}" if others else ""
            return f"{_said(found)}, found in {found.where}, seed {found.seed}{more}"
        if self.interrupted:
            return f"interrupted after {runs}, seed {self.seed}"
        if self.vacuous:
            return f"nothing was explored in {runs}, seed {self.seed}"
        doubts = "; ".join(map(str, self.hollow or self.hints))
        return f"held in {runs}, seed {self.seed}" + (f", but {doubts}" if doubts else "")

    def expect_a_look(self, caller: FrameType) -> None:
        """From here on the failures are the caller's to look at."""
        self._look.taken = False
        if self._failures:
            warn_if_unseen(self, self._look, _said(self._failures[0]), caller)


_NOBODY: Final = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)


def _found_nobody(error: BaseException | None) -> bool:
    """Whether a connection failed because nothing listens there, or the name is not known."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return True
        if isinstance(error, OSError) and error.errno in _NOBODY:
            return True
        error = error.__cause__ or error.__context__
    return False


def is_calm(tape: Tape) -> bool:
    """Whether nothing is delayed, late, chosen or faulty on a tape."""
    if not tape.scheduled_by_key or tape.schedule.holds or tape.schedule.slows:
        return False
    return not any(each.value for entries in tape.choices.values() for each in entries)


def _said(found: Failure) -> str:
    said = first_line(found.exception)
    return type(found.exception).__name__ + (f": {said}" if said else "")


def _as_it_is(found: Failure, runs: int) -> BaseException:
    return found.exception


_prepare: Callable[[Failure, int], BaseException] = _as_it_is


def raise_as(prepare: Callable[[Failure, int], BaseException]) -> None:
    """From here on `raise_failure` raises what this function makes of a failure, which was found
    in a search of so many runs."""
    global _prepare
    _prepare = prepare
