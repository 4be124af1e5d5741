"""A rehearsal: which of many storms is worth a run of its own?

Most storms that chance draws say nothing: a call is refused whatever the others do, or the calls
are about different things. So a run of a machine whose state lies in databases tries many calls
after its serial beginning, then and there. After each try the databases are put back, so that a
try costs a call, not a run:

    calls alone: one is of interest if it changes something; each rule is drawn until one does
    others after it, and alone: a pair is of interest if the second call does something else after
        the first than it does alone
    such a pair at the same time, statement by statement, in orders that the tape chooses

Rules that were refused most often before they succeeded come first, because other runs have the
rest. A pair that ends as in neither serial order is suspected. That is all: what the program keeps
in memory was not put back, so nobody is accused by a rehearsal. A run of its own is made for each
suspected storm, on the same tape, without the rehearsal (`storm.py`), and that one is judged.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from foretold.spec.alike import TIMES, Ending, ending_of, invented, plain_result, renamed, timed
from foretold.spec.serial import NUMBERS_SKIPPED, Turnstile, explains
from foretold.world.omens import BOUND, Bound

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course
    from foretold.spec.machine.pairs import Pairs

TURNS_MAX: Final = 3
"""A small API has so many turns, if it takes few calls."""
DRAWS_MAX: Final = 8
"""So often a rule is drawn in a turn at most, and tried alone."""
ALONE_MAX: Final = 80
"""So many calls are made alone at most in a turn,"""
CALLS_MAX: Final = 260
"""and so many altogether."""
TRIES: Final = 2
"""In so many orders of their statements a pair is tried at the same time."""
SUSPECTED_MAX: Final = 2
PAUSE_S: Final = 60.0
"""Before the calls of a pair are tried: limits by the minute are those of a call, not of a
rehearsal."""
PAIRS_MAX: Final = 30
"""So many calls are made for the pairs of one call."""
SORTS: Final = (
    *(("twin", place) for place in range(3)),
    *(("twin again", 0), ("other", 0), ("other", 1)),
    *(("sibling", place) for place in range(3)),
    *(("related", place) for place in range(8)),
    *(("reader", place) for place in range(3)),
)
"""The calls that are tried with each first one, see `pairs.py`."""
SECONDS: Final = len(SORTS)
BOTH_CHANGE: Final = ("twin", "other", "sibling")
"""Sorts that are calls of the same rule: if one is refused alone, it is so after the first."""

Contents = tuple[Any, ...]
"""What each database holds."""
Turns = Callable[[int], int]
"""Which of so many calls has the next statement."""


class StormNumber(NamedTuple):
    """Which of the storms that a run could end in."""

    first: int
    second: int = 0
    attempt: int = 0

    @classmethod
    def read(cls, number: int) -> StormNumber:
        """As it stands on a tape."""
        return cls(number // TRIES // SECONDS, number // TRIES % SECONDS, number % TRIES)

    @property
    def sort(self) -> tuple[str, int]:
        """Of the second call, and which of that sort."""
        return SORTS[self.second]

    @property
    def on_tape(self) -> int:
        return (self.first * SECONDS + self.second) * TRIES + self.attempt


class Rehearsed(NamedTuple):
    suspected: tuple[StormNumber, ...]


class Tried(NamedTuple):
    """A call, and where the databases were after it."""

    outcome: tuple[str, Any]
    is_optional: bool
    is_hopeless: bool
    """Whether it was refused for a reason that has nothing to do with other calls."""
    after: Contents
    changes: tuple[Any, ...]
    """The rows that it changed, but for times."""
    effect: tuple[Any, ...]
    """These, and what it gave."""


class _Found(NamedTuple):
    """A call that changes something, and how many of its rule were drawn before."""

    number: StormNumber
    call: Call
    drawn: int


class Rehearsal:
    """The tries of one run."""

    def __init__(
        self,
        course: Course,
        databases: Sequence[Any],
        pairs: Pairs,
        turns: Callable[[StormNumber], Turns],
    ) -> None:
        self._course = course
        self._databases = databases
        self._pairs = pairs
        self._turns = turns
        self._layouts = [each.layout() for each in databases]
        self._base = self._now = self._contents()
        self._made = 0
        self._met: set[tuple[str, ...]] = set()
        """Pairs that were tried in this turn, by their rules."""

    async def suspects(self) -> Rehearsed:
        """The storms whose end no serial order explains, as it seems."""
        suspected: list[StormNumber] = []
        beginning = self._base
        for turn in range(TURNS_MAX):
            self._met.clear()
            for found in sorted(await self._alone(turn), key=lambda each: -each.drawn):
                if self._made < CALLS_MAX and len(suspected) < SUSPECTED_MAX:
                    suspected += await self._suspects_of(found.number, found.call)
                    self._base = beginning
                    self._restore(beginning)
        return Rehearsed(tuple(suspected))

    async def _alone(self, turn: int) -> list[_Found]:
        """A call of each rule that changes something, if one is found."""
        found: dict[str, _Found] = {}
        rules, until = self._pairs.rules, min(CALLS_MAX, self._made + ALONE_MAX)
        draws = range(turn * DRAWS_MAX, (turn + 1) * DRAWS_MAX)
        for draw, (place, rule) in itertools.product(draws, enumerate(rules)):
            if self._made >= until or rule.name in found:
                continue
            number = StormNumber(draw * len(rules) + place)
            call = self._pairs.first(number)
            if call is not None and await self._changes_something(call):
                found[rule.name] = _Found(number, call, draw)
        return list(found.values())

    async def _changes_something(self, call: Call) -> bool:
        """A call that fails is worth a closer look as well."""
        try:
            return bool((await self._step(call)).changes)
        except _Failed:
            self._now = self._contents()
            return True
        finally:
            self._restore(self._base)

    async def _be_there(self, number: StormNumber, user: Any) -> None:
        """A user who has just read a page is known to the service: from here on that is where
        every try begins."""
        await self._course.world.clock.advance(PAUSE_S)
        call = self._pairs.reader(number.first, user)
        if call is not None:
            await self._step(call)
            self._base = self._now

    async def _suspects_of(self, storm: StormNumber, first: Call) -> list[StormNumber]:
        """One is enough."""
        try:
            await self._be_there(storm, first.actor)
            alone = await self._step(first)
            until = min(CALLS_MAX, self._made + PAIRS_MAX)
            for place in self._pairs.seconds(storm):
                storm = StormNumber(storm.first, place)
                second = self._pairs.second(storm, first) if self._made < until else None
                pair = None if second is None else await self._pair(storm, first, second, alone)
                if pair is not None and (found := await self._suspected(storm, pair)):
                    return [found]
        except _Failed:
            self._now = self._contents()
            return [storm]
        return []

    async def _suspected(self, storm: StormNumber, pair: _Pair) -> StormNumber | None:
        for attempt in range(TRIES):
            storm = storm._replace(attempt=attempt)
            try:
                if not await pair.explains(self._turns(storm)):
                    return storm
            except _Failed:
                self._now = self._contents()
                return storm
        return None

    async def _pair(
        self, storm: StormNumber, first: Call, second: Call, alone: Tried
    ) -> _Pair | None:
        """Two calls, if the second does something else after the first than it does alone; once for
        two rules and a sort."""
        key = (first.name, second.name, str(first.who == second.who), storm.sort[0])
        if key in self._met:
            return None
        self._restore(self._base)
        before = await self._step(second)
        if before.is_hopeless or (storm.sort[0] in BOTH_CHANGE and not before.changes):
            return None
        self._restore(alone.after)
        after = await self._step(second)
        if after.effect == before.effect:
            return None
        self._met.add(key)
        then = alone
        if before.changes:
            self._restore(before.after)
            then = await self._step(first)
        ways = {(0, 1): (alone, after), (1, 0): (then, before), (0,): (alone,), (1,): (before,)}
        return _Pair(self, (first, second), ways)

    def ending(self, steps: Sequence[Tried | None], contents: Contents | None = None) -> Ending:
        """How calls have ended; the databases as they were at the beginning, if nothing is said."""
        results = [None if step is None else step.outcome for step in steps]
        read = [
            _Read(each.tables(layout))
            for each, layout in zip(contents or self._base, self._layouts, strict=True)
        ]
        return ending_of(results, read, self._course.machine.ignore)

    def is_same(self, one: Contents, other: Contents) -> bool:
        """Whether the databases hold the same, but for times."""
        return not _changes(one, other, self._layouts)

    # --- calls -----------------------------------------------------------------------------------

    async def _step(self, call: Call) -> Tried:
        before, made = self._now, await self._make(call)
        await self._settle()
        return self._step_of(made, before)

    async def forth_again(self, calls: Sequence[Call]) -> Ending:
        """One call after the other, with other numbers from sequences, and later."""
        self._restore(self._base)
        for each in self._databases:
            each.skip_numbers(NUMBERS_SKIPPED)
        steps = [await self._step(call) for call in calls]
        return self.ending(steps, self._now)

    async def together(self, calls: Sequence[Call], turns: Turns) -> list[Tried]:
        """All at the same time."""
        self._restore(self._base)
        with gated(self._databases, calls, turns) as gate:
            made = await asyncio.gather(*(self._make(each, gate) for each in calls))
        await self._settle()
        try:
            self._course.machine.foretold_after_storm(made)
        except Exception as error:
            raise _Failed from error
        return [self._step_of(each, self._base) for each in made]

    def _step_of(self, call: Call, before: Contents) -> Tried:
        changes = _changes(before, self._now, self._layouts)
        is_optional = call.outcome in ("refused", "failed")
        outcome = result_of(call)
        effect = plain_result(outcome, self._course.machine.ignore), changes
        hopeless = call.outcome == "refused" and self._course.machine.foretold_forbids(call)
        return Tried(outcome, is_optional, hopeless, self._now, changes, effect)

    async def _make(self, call: Call, gate: Turnstile | None = None) -> Call:
        """Make a copy of a call, which does not count; with the same randomness each time."""
        self._made += 1
        made = dataclasses.replace(call, produced=[], handed_over=[])
        party, context = party_of(call), call.actor._context
        self._course.world.tape.rewind(party)
        context.run(BOUND.set, Bound(frozenset(), party=party))
        try:
            await asyncio.create_task(self._attempt(made), context=context)
        finally:
            if gate is not None:
                gate.leave(party)
        return made

    async def _attempt(self, call: Call) -> None:
        self._course.world.home.kernel.keep_call(f"{call.who}.{call.name}")
        try:
            await self._course.attempt(call)
        except Exception as error:
            raise _Failed from error

    async def _settle(self) -> None:
        course, world = self._course, self._course.world
        await world.clock.advance(course.machine.quiet_s)
        self._now = self._contents()
        if world.failures or world.background:
            world.failures.clear()
            world.background.clear()
            raise _Failed

    def _contents(self) -> Contents:
        return tuple(each.moment() for each in self._databases)

    def _restore(self, contents: Contents) -> None:
        for database, wanted, there in zip(self._databases, contents, self._now, strict=True):
            if wanted != there:
                database.restore(wanted, there)
        self._now = contents


class _Failed(Exception):
    """A call fails the run. Whether it does so in a run of its own is another matter."""


@dataclass
class _Pair:
    """Two calls that have to do with each other, and how they end in serial orders."""

    rehearsal: Rehearsal
    calls: tuple[Call, Call]
    ways: Mapping[tuple[int, ...], Sequence[Tried]]
    _endings: dict[tuple[int, ...], Ending] = field(default_factory=dict)

    async def explains(self, turns: Turns) -> bool:
        """Whether the calls at the same time end as in a serial order."""
        steps = await self.rehearsal.together(self.calls, turns)
        optional = [n for n, step in enumerate(steps) if step.is_optional]
        if any(self._is_exactly(order, steps) for order in ((0, 1), (1, 0))):
            return True
        ended = self.rehearsal.ending(steps, steps[0].after)
        if explains(ended, optional, self._ending):
            return True
        again = await self.rehearsal.forth_again(self.calls)
        made = invented([(self._ending((0, 1)), again)])
        known = dict.fromkeys(made or ())
        return bool(made) and explains(
            renamed(ended, known), optional, lambda order: renamed(self._ending(order), known)
        )

    def _is_exactly(self, order: tuple[int, int], steps: Sequence[Tried]) -> bool:
        """Whether ids are the same as well: then there is no need to look at what they mean."""
        serial = self.ways[order]
        given = all(a.effect[0] == b.effect[0] for a, b in zip(steps, serial, strict=True))
        return given and self.rehearsal.is_same(steps[0].after, serial[order[-1]].after)

    def _ending(self, order: tuple[int, ...]) -> Ending:
        if order not in self._endings:
            steps: list[Tried | None] = [None, None]
            contents = None
            for number, step in zip(sorted(order), self.ways.get(order, ()), strict=True):
                steps[number] = step
                contents = step.after if number == order[-1] else contents
            self._endings[order] = self.rehearsal.ending(steps, contents)
        return self._endings[order]


class _Read(NamedTuple):
    """A database as it was."""

    contents: Any

    def tables(self) -> Any:
        """All of it."""
        return self.contents


def _changes(before: Contents, after: Contents, layouts: Sequence[Any]) -> tuple[Any, ...]:
    """Ids are not masked: a call draws the same randomness each time. Numbers of sequences are."""
    rows: Counter[str] = Counter()
    for one, other, layout in zip(before, after, layouts, strict=True):
        for name, content in other.contents.items():
            if content != one.contents[name]:
                columns = enumerate(layout[name])
                kept = [n for n, each in columns if each.kind not in TIMES and not each.counts]
                rows.update(_lines(name, content, kept))
                rows.subtract(_lines(name, one.contents[name], kept))
    return tuple(sorted(item for item in rows.items() if item[1]))


def _lines(name: str, content: bytes, kept: Sequence[int]) -> Iterator[str]:
    for line in content.decode().split("\n")[:-1]:
        cells = line.split("\t")
        yield timed(" ".join([name, *(cells[n] for n in kept)]))


def party_of(call: Call) -> str:
    """By which name the statements of a call are known."""
    return f"storm {call.number}"


def result_of(call: Call) -> tuple[str, Any]:
    """What a call gave. What goes into a bundle is a name for something: which, does not matter."""
    if call.outcome == "succeeded":
        return "gave", None if call.rule.targets else call.result
    if call.outcome == "running":
        return "was not made", None
    return call.outcome, str(call.error)


@contextmanager
def gated(
    databases: Sequence[Any], calls: Sequence[Call], choose: Callable[[int], int]
) -> Iterator[Turnstile]:
    """Statements of these calls go through one by one, as chosen; where there are several
    databases, those of the first."""
    gate = Turnstile(databases[0], [party_of(call) for call in calls], choose)
    databases[0].gate = gate
    try:
        yield gate
    finally:
        databases[0].gate = None
