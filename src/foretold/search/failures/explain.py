"""How likely was this failure, at each point of the run that has it?

The beginning of the failing run is kept up to a point, all that follows is drawn anew, many times.
Early points give what a search gives; late ones fail always. Where the share jumps, something
happened that decided the rest: that event is named. (Antithesis draws this figure for whole
systems.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from foretold.errors import UsageError
from foretold.search.planning.allowance import Allowance
from foretold.search.planning.portfolio import run_seed
from foretold.story.signature import Signature, signature_of
from foretold.story.story import failure_among
from foretold.tape import Tape
from foretold.trace.events import Chose, Event, Fault, Late, Resumed
from foretold.trace.record import Trace
from foretold.world.current import current_world
from foretold.world.run import execute
from foretold.world.settings import Settings

CONTINUATIONS = 20
POINTS = 12
RUNS_MAX = 2_000
CPU_S = 60.0
"""Of processor time: a busy machine draws the same figure."""
_TOLD = (Resumed, Chose, Fault, Late)


class StartingPoint(NamedTuple):
    """A place to go on from by chance: after this event, with so much drawn already."""

    event: Event | None
    """None: the run begins."""
    draws: dict[str, int]
    time_ns: int


@dataclass(frozen=True, slots=True)
class Point:
    """What continuations from one mark gave."""

    number: int
    mark: StartingPoint
    failed: int
    runs: int

    @property
    def share(self) -> float:
        return self.failed / self.runs


@dataclass(frozen=True, slots=True)
class Explanation:
    """The share of failures over the run, and where it jumps."""

    points: list[Point]
    jump: tuple[Point, Point] | None
    """The last point before it and the first one after it: the second one's event decides."""
    continuations: int
    runs: int
    start_ns: int
    is_cut_short: bool = False
    """The budget was spent before the jump was narrowed down to one event."""

    @property
    def is_one_event(self) -> bool:
        return self.jump is not None and self.jump[1].number - self.jump[0].number == 1


def explain(
    main: Callable[[Any], Any],
    tape: Tape,
    *,
    continuations: int = CONTINUATIONS,
    points: int = POINTS,
    runs_max: int = RUNS_MAX,
    cpu_s: float = CPU_S,
    seed: int = 0,
) -> Explanation:
    """The figure for one failing tape. `main` is a function of the world."""
    return _Figure(main, tape, continuations, Allowance(runs_max, cpu_s), seed).drawn(points)


class _Spent(Exception):
    """No further run is allowed."""


class _Figure:
    def __init__(
        self,
        main: Callable[[Any], Any],
        tape: Tape,
        continuations: int,
        allowance: Allowance,
        seed: int,
    ) -> None:
        self._main = main
        self._settings = Settings.from_tape(tape.settings)
        self._tape, self._wanted = self._recorded(tape)
        self._marks = self._marked()
        self._continuations = continuations
        self._allowance = allowance
        self._seed = seed
        self._points: dict[int, Point] = {}
        self.runs = 0

    def _recorded(self, tape: Tape) -> tuple[Tape, Signature]:
        """The same tape with every choice on it that the run makes, and how that run fails."""
        done = execute(self._main, tape, self._settings, recording=True)
        if done.error is None:
            raise UsageError("the run holds on this tape: there is no failure to explain")
        recorded = done.tape.recorded()
        if tape.scheduled_by_key:  # its own sentences: short, and in its words
            recorded = tape.derived(choices=recorded.choices)
        return recorded, signature_of(done.error)

    def _marked(self) -> list[StartingPoint]:
        marks: list[StartingPoint] = []

        def keep(event: Event) -> None:
            marks.append(StartingPoint(event, dict(current_world().tape.draws), event.time_ns))

        trace = Trace(detail=True, on_event=keep)
        done = execute(self._main, self._tape, self._settings, trace=trace)
        events = [mark.event for mark in marks if mark.event is not None]
        cut, _ = failure_among(events, done.error)
        begin = StartingPoint(None, {}, 0)
        told = [m for m in marks[:cut] if isinstance(m.event, _TOLD)]
        return [begin, *told]

    def drawn(self, points: int) -> Explanation:
        last = len(self._marks) - 1
        numbers = sorted({round(last * n / max(1, points - 1)) for n in range(points)})
        spent = False
        try:
            for number in numbers:
                self._point(number)
            self._narrow()
        except _Spent:
            spent = True
        made = [self._points[number] for number in sorted(self._points)]
        start_ns = int(self._settings.monotonic_s * 1e9)
        jump = _largest_jump(made)
        return Explanation(made, jump, self._continuations, self.runs, start_ns, spent)

    def _narrow(self) -> None:
        """Bisect: the larger half of the jump, until one event is left."""
        while True:
            made = [self._points[number] for number in sorted(self._points)]
            jump = _largest_jump(made)
            if jump is None or jump[1].number - jump[0].number <= 1:
                return
            self._point((jump[0].number + jump[1].number) // 2)

    def _point(self, number: int) -> None:
        if number in self._points:
            return
        mark, failed = self._marks[number], 0
        for n in range(self._continuations):
            if self._allowance.is_spent:
                raise _Spent
            self.runs += 1
            tape = self._tape.continued(mark.draws, mark.time_ns, run_seed(self._seed, n))
            done = execute(self._main, tape, self._settings)
            self._allowance.spend()
            failed += done.error is not None and signature_of(done.error) == self._wanted
        self._points[number] = Point(number, mark, failed, self._continuations)


def _largest_jump(points: list[Point]) -> tuple[Point, Point] | None:
    pairs = itertools.pairwise(points)
    rising = [pair for pair in pairs if pair[1].share > pair[0].share]
    return max(rising, key=lambda pair: pair[1].share - pair[0].share, default=None)
