"""The serial oracle of a machine: a serial beginning, then a storm of two or three calls at once.

The run is made once more for each serial order of the storm, on the same tape: everything up to
the storm is the same, to the instant, and so are the arguments of its calls, which were drawn
before the first of them began. So what differs at the end comes from the calls having overlapped.
Results and databases must be those of one of the orders (`spec/alike.py` says what is compared).

What also differs where nothing overlaps says nothing: keys that the program invents, numbers of
sequences, what depends on the instant. Before anybody is accused, a serial order is made again at
another time: fields that change by that are not compared. Then with other randomness and numbers as
well: fields that change by that are compared by where their values stand. If more changes than
values, there is no verdict.

Where a rehearsal can look for storms (`rehearsal.py`), a run ends in one. What an application keeps
in memory cannot be put back, so there nobody can rehearse: a run ends in several storms, one after
the other, and after each of them the pages about the same things are read. One more run has all
storms in a serial order. Only one that it does not explain is looked at by itself; the storms
before that one are then made as they were.

Faults would strike other calls in other orders: there are none during a storm.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from foretold.errors import NotSerial
from foretold.spec.alike import Ending, Made, alike, dependent, ending_of, invented, renamed
from foretold.spec.machine.options import aimed
from foretold.spec.machine.pairs import Pairs, things_of, twin
from foretold.spec.machine.printing import call_text
from foretold.spec.machine.rehearsal import (
    Rehearsal,
    Rehearsed,
    StormNumber,
    gated,
    party_of,
    result_of,
)
from foretold.spec.serial import NUMBERS_SKIPPED, Turnstile, explains, is_refusal, not_serial
from foretold.world.omens import BOUND, Bound
from foretold.world.run import Run, execute
from foretold.world.spare import Spare

if TYPE_CHECKING:
    from foretold.spec.machine.calls import Call
    from foretold.spec.machine.course import Course
    from foretold.spec.machine.machine import Machine
    from foretold.tape import Stream, Tape
    from foretold.world.settings import Settings

STREAM: Final = "machine"
P_CALL: Final = 0.97
PAUSES_S: Final = (0.0, 0.0001, 0.001, 0.01)
ANOTHER, ALIKE, TWIN, RELATED = 0, 1, 2, 3
"""A call of the storm is any call; or one of the same rule as the first, the same call again, or a
call of any rule, about the same things."""
LIKE: Final = (1, 2, 2, 3)
DRAWS_MAX: Final = 6
P_AMONG_FAULTS: Final = 1 / 3
"""The share of storms at most, where other runs have faults."""
BEGINNING_MAX: Final = 30
"""So many calls at most come before a storm: they are made again for each serial order."""
P_SAME_USER: Final = 0.5
P_MIDDLE: Final = 0.5
"""The share of storms in which a call waits until another one is in the middle of its work, where
there are no statements that could take turns."""
LOOKS_FROM: Final = 10
"""Calls that look around are numbered from here, after the steps."""
SPAN_S_MIN: Final = 1.0
STORMS_MAX: Final = 4
"""So many storms a run ends in if nobody can rehearse."""
MORE_STORMS: Final = 2
"""So many times more runs end in storms then."""
PAGES_MAX: Final = 4
"""So many pages are read after a storm at most."""
NUMBERS_OF_STORM: Final = 20
PAGES_FROM: Final = 10
"""Each storm has so many numbers for its calls; those from here on read pages."""


Again = Callable[["Tape", "Settings"], Run]
LATER, ALL, PROMPT = "later", "all", "prompt"


class Serial(NamedTuple):
    """How the calls of a storm are made one after the other."""

    order: tuple[int, ...]
    storm: int = 0
    """Which storm; those before it are made at the same time, those after it one after the other
    as they come."""
    shaken: str = ""
    """`later`; `all`: later, with other randomness and other numbers from sequences; `prompt`: each
    call begins as soon as the one before has returned."""


_serial: Serial | None = None
"""None: at the same time."""


class Stormed(NamedTuple):
    calls: tuple[str, ...]
    ending: Ending
    optional: tuple[int, ...]
    """Calls that were refused or have failed: they count as not made."""


def is_due(course: Course) -> bool:
    """Whether this run ends in a storm."""
    machine, world = course.machine, course.world
    if machine.oracle is None or getattr(world, "url", None) is not None:
        return False  # a server that runs already cannot be put back
    if len(course.actors) < 2:
        return False  # nothing would be at the same time
    share = _share(machine, is_alone=not world.services.get("postgres"))
    if world.nemesis is not None:
        share = min(share, P_AMONG_FAULTS)
    return share >= 1 or world.tape.stream(STREAM, "storm").chance(share, "storm")


def _share(machine: Machine | type[Machine], *, is_alone: bool) -> float:
    """Of how many runs end in storms. `is_alone`: there is no database, so nobody can rehearse."""
    share = float(machine.storms)
    return min(1.0, share * MORE_STORMS) if is_alone and machine.foretold_rehearses else share


class Storm:
    """The rules of one run, as the oracle wants them applied."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._head = course.world.tape.stream(STREAM, "storm")
        self._pairs = Pairs(course)
        self._bound: dict[int, Bound] = {}
        self._stormed: list[Stormed] = []
        self._way: Serial | None = None
        """How the calls of this storm are made. None: at the same time."""

    async def run(self) -> Sequence[Stormed] | Rehearsed:
        """The beginning and the storms that could be compared, or a rehearsal of many."""
        machine, storm = self._course.machine, self._course.options.storm
        rehearses = machine.foretold_rehearses and bool(self._databases())
        async with self._course.world.calm():  # what strikes would strike others each time
            if rehearses:
                await self._look_around(0)
            await self._begin_serially()
            if rehearses:
                await self._look_around(1)
                await self._settle()
            machine.is_in_storm = True
            if storm is None and rehearses:
                return await self._rehearse()
            can_rehearse = rehearses or not machine.foretold_rehearses
            if not can_rehearse:
                self._course.forget_swarm()
            for number in range(1 if can_rehearse else STORMS_MAX):
                calls = self._draw(number) if storm is None else self._drawn(storm)
                if len(calls) > 1:
                    await self._make(calls, self._pages(number, [call for call, _ in calls]))
            machine.is_in_storm = False
        return self._stormed

    async def _rehearse(self) -> Rehearsed:
        machine = self._course.machine
        machine.is_rehearsing = True
        self._course.looks_at_end = False  # what was made in tries is not there any more
        rehearsal = Rehearsal(self._course, self._databases(), self._pairs, self._turns)
        return await rehearsal.suspects()

    def _drawn(self, storm: int) -> list[tuple[Call, float]]:
        """The calls of a storm that a rehearsal has named."""
        number = StormNumber.read(storm)
        first = self._pairs.first(number)
        second = None if first is None else self._pairs.second(number, first)
        return [(call, 0.0) for call in (first, second) if call is not None]

    def _turns(self, number: StormNumber) -> Callable[[int], int]:
        """Whose statement is next, in one try of a pair."""
        stream = self._course.world.tape.stream(STREAM, "storm", "turns", number.on_tape)
        return lambda parties: stream.choose(parties, "whose statement")

    async def _begin_serially(self) -> None:
        for number in range(1, min(self._course.slots, BEGINNING_MAX) + 1):
            stream = self._course.world.tape.stream(STREAM, number)
            if stream.chance(P_CALL, "call"):
                await self._one(number, stream)
        await self._settle()

    async def _look_around(self, time: int) -> None:
        """Every page is read once, and those about one thing again at the second time: so the ids
        of most things are known, and whatever is noted of a user who calls is new."""
        course, reads = self._course, set(self._course.machine.foretold_reads())
        rules = [rule for rule in course.blueprint.rules if rule.name in reads]
        for place, rule in enumerate(rules):
            stream = course.world.tape.stream(STREAM, "storm", "look", time, place)
            if course.is_wanted(rule) and stream.chance(P_CALL, "call"):
                actor = course.actors[stream.choose(len(course.actors), "actor")]
                await course.until_quiet()
                if course.is_possible(rule, actor):
                    number = course.options.steps + LOOKS_FROM + time * len(rules) + place
                    call = course.make_call(number, stream, rule, actor)
                    if call is not None and (time == 0 or call.references):
                        await course.start(call)
        await course.until_quiet()

    async def _shake(self, span_s: float) -> None:
        """Whatever the calls do from here on, they do at another time and with other numbers."""
        await self._course.world.clock.advance(span_s)
        if self._salt:
            for database in self._databases():
                database.skip_numbers(NUMBERS_SKIPPED)

    @property
    def _salt(self) -> str:
        """For other randomness."""
        return " shaken" if self._way is not None and self._way.shaken == ALL else ""

    def _way_of(self, calls: int) -> Serial | None:
        here = len(self._stormed)
        if _serial is None or here < _serial.storm:
            return None
        return _serial if here == _serial.storm else Serial(tuple(range(calls)), here)

    async def _make(self, calls: list[tuple[Call, float]], pages: list[Call]) -> None:
        """All calls. Every way ends at the same instant, so that what goes on by itself has had the
        same time. Then somebody reads the pages."""
        course = self._course
        self._way = way = self._way_of(len(calls))
        span_s = (len(calls) + 1) * max(course.machine.quiet_s, SPAN_S_MIN)
        if way is not None and way.shaken in (LATER, ALL):
            await self._shake(span_s)
        ends_s = course.world.clock.monotonic() + span_s
        if way is None:
            await self._all_at_once(calls)
        else:
            for number in way.order:
                await self._begin(calls[number][0], 0.0)
                if way.shaken == PROMPT:
                    await course.until_quiet()
                else:
                    await self._settle()
        await self._settle()
        await course.world.clock.advance(max(0.0, ends_s - course.world.clock.monotonic()))
        made = [call for call, _ in calls]
        if way is None:
            course.machine.foretold_after_storm(made)
        for page in pages:
            await self._begin(page, 0.0)
            await course.until_quiet()
        self._note(made, pages)

    async def _all_at_once(self, calls: list[tuple[Call, float]]) -> None:
        storm = self._course.options.storm
        if storm is None:
            if not self._databases() and self._head.chance(P_MIDDLE, "in the middle of another"):
                self._course.machine.foretold_meet()
            await asyncio.gather(*(self._begin(call, pause_s) for call, pause_s in calls))
            return
        made = [call for call, _ in calls]
        with gated(self._databases(), made, self._turns(StormNumber.read(storm))) as gate:
            for call in made:
                await self._begin(call, 0.0)
                assert call.task is not None, "it was begun"
                call.task.add_done_callback(functools.partial(_leave, gate, party_of(call)))
            await self._course.until_quiet()

    async def _one(self, number: int, stream: Stream) -> None:
        course = self._course
        actor = course.actors[stream.choose(len(course.actors), "actor")]
        await course.until_quiet()
        call = course.choose(number, stream, actor)
        if call is not None:
            await course.start(call)

    async def _settle(self) -> None:
        """What goes on by itself gets some time."""
        await self._course.until_quiet()
        await self._course.world.clock.advance(self._course.machine.quiet_s)

    def _draw(self, storm: int) -> list[tuple[Call, float]]:
        """The calls of a storm, all of them before the first begins, each of another actor."""
        course = self._course
        size = min(2 + self._head.weighted((3, 1), "a third call"), len(course.actors))
        keys = ("storm", "again", storm) if storm else ("storm",)
        free = list(course.actors)
        calls: list[tuple[Call, float]] = []
        for place in range(size):
            stream = course.world.tape.stream(STREAM, *keys, place)
            if not stream.chance(P_CALL, "call"):
                continue
            actor = free.pop(stream.choose(len(free), "actor"))
            number = self._number(storm) + place
            first = calls[0][0] if calls else None
            call = self._call(number, stream, actor, first)
            if call is not None:
                calls.append((call, stream.pick(PAUSES_S, "begins")))
        return calls

    def _number(self, storm: int) -> int:
        """Of the first call of a storm."""
        return self._course.options.steps + 1 + storm * NUMBERS_OF_STORM

    def _pages(self, storm: int, calls: Sequence[Call]) -> list[Call]:
        """What is to be read after a storm, by who makes its first call: pages about the same
        things and those about everything. Drawn before, so that they are the same in each order.
        Databases are compared as they are."""
        course, first = self._course, calls[0]
        if self._databases():
            return []
        reads = set(course.machine.foretold_reads())
        rules = [each for each in course.blueprint.rules if each.name in reads]
        things: set[Any] = set().union(*map(things_of, calls))
        pages: list[Call] = []
        for place, rule in enumerate(rules):
            stream = course.world.tape.stream(STREAM, "storm", "page", storm, place)
            if len(pages) == PAGES_MAX or not course.is_wanted(rule):
                continue
            if not stream.chance(P_CALL, "call") or not course.is_possible(rule, first.actor):
                continue
            number = self._number(storm) + PAGES_FROM + len(pages)
            with course.near([kept for each in calls for kept in each.references]):
                page = course.make_call(number, stream, rule, first.actor)
            if page is not None and (not page.references or things & things_of(page)):
                pages.append(page)
        return pages

    def _call(self, number: int, stream: Stream, actor: Any, first: Call | None) -> Call | None:
        like = ANOTHER if first is None else stream.weighted(LIKE, "like the first")
        if first is None or like == ANOTHER:
            return self._course.choose(number, stream, actor)
        return self._like(like, number, stream, actor, first)

    def _like(self, like: int, number: int, stream: Stream, actor: Any, first: Call) -> Call | None:
        course = self._course
        user = actor
        if course.machine.foretold_acts_twice and stream.chance(P_SAME_USER, "by the same user"):
            user = first.actor
        if like == TWIN and course.is_possible(first.rule, user):
            call: Call | None = twin(number, first, user)
        else:
            with course.near(first.references):
                if like == ALIKE and course.is_possible(first.rule, user):
                    call = course.make_call(number, stream, first.rule, user)
                else:
                    call = self._related(number, stream, user, first)
        if call is not None and user is not actor:
            call.actor, call.user = actor, user
        return call

    def _related(self, number: int, stream: Stream, user: Any, first: Call) -> Call | None:
        """A call of any rule about the same things, if one is found soon."""
        things = things_of(first)
        call = None
        for _ in range(DRAWS_MAX):
            call = self._course.choose(number, stream, user)
            if not things or (call is not None and things & things_of(call)):
                break
        return call

    async def _begin(self, call: Call, pause_s: float) -> None:
        """Begin a call. What it draws of randomness is its own, in each order the same."""
        if pause_s:
            await asyncio.sleep(pause_s)
        bound = Bound(frozenset(), party=party_of(call), salt=self._salt)
        self._bound[call.number] = bound
        call.actor._context.run(BOUND.set, bound)
        await self._course.start(call)

    def _databases(self) -> Sequence[Any]:
        found: Sequence[Any] = self._course.world.services.get("postgres", ())
        return found

    def _note(self, calls: list[Call], pages: list[Call]) -> None:
        """A storm is over."""
        course = self._course
        results = [result_of(call) for call in calls]
        read = {call_text(course, page): result_of(page) for page in pages}
        ending = ending_of(results, self._databases(), course.machine.ignore, read)
        optional = tuple(n for n, call in enumerate(calls) if self._is_optional(call))
        texts = tuple(call_text(course, call) for call in calls)
        self._stormed.append(Stormed(texts, ending, optional))

    def _is_optional(self, call: Call) -> bool:
        """Whether nothing came of a call."""
        if call.outcome in ("refused", "failed") or is_refusal(call.result):
            return True
        bound = self._bound.get(call.number)
        return bound is not None and bound.is_aborted


def _leave(gate: Turnstile, party: str, _: asyncio.Task[None]) -> None:
    gate.leave(party)


class Judge:
    """Whether some serial order of the storm explains how a run ends."""

    def __init__(self, main: Any, machine: type[Any], tape: Tape, settings: Settings) -> None:
        self._main, self._tape, self._settings = main, tape, settings
        self._spare: Spare | None = None
        if machine.foretold_keeps_state() and self._may_storm(_share(machine, is_alone=True)):
            self._spare = Spare(self._ended)

    def _may_storm(self, share: float) -> bool:
        return share >= 1 or self._tape.fresh().stream(STREAM, "storm").chance(share, "storm")

    def verdict(self, done: Run, again: Again) -> Run:
        """Storms that a rehearsal suspects have runs of their own; the first that fails is the run
        that counts."""
        tape, settings = self._tape, self._settings
        if isinstance(done.value, Rehearsed):
            for storm in done.value.suspected:
                machine = aimed(settings.machine, storm.on_tape)
                other = tape.fresh()
                other.settings = {**tape.settings, "machine": machine}
                made = again(other, settings.with_changes(machine=machine))
                if made.error is not None:
                    return made
        elif done.value:
            with suppress(_NothingToCompare):
                done.error = self._verdict(done.value)
        return done

    def _verdict(self, storms: Sequence[Stormed]) -> NotSerial | None:
        """The first storm that no serial order explains."""
        begin = 0
        made: Made = {}
        while begin < len(storms):
            way = Serial(tuple(range(len(storms[begin].calls))), begin)
            serial = self._run(way)
            pairs = zip(storms[begin:], serial[begin:], strict=False)
            same = (alike(renamed(s.ending, made), renamed(e, made)) for s, e in pairs)
            odd = next((n for n, is_same in enumerate(same, begin) if not is_same), None)
            if odd is None:
                return None
            known = {way: serial[odd]} if odd == begin else {}
            case = _Case(storms[odd], odd, self._run, known, made)
            with suppress(_NothingToCompare):
                if found := case.verdict():
                    return found
            begin, made = odd + 1, case.made
        return None

    def close(self) -> None:
        """No more runs are made to compare with."""
        if self._spare is not None:
            self._spare.close()

    def _run(self, way: Serial | None) -> Sequence[Ending]:
        """How the calls of the storms end this way; None: at the same time, as before."""
        ending = self._ended(way) if self._spare is None else self._spare.ask(way)
        if ending is None:
            raise _NothingToCompare  # what fails without any overlap is not the oracle's affair
        return cast(Sequence[Ending], ending)

    def _ended(self, way: Serial | None) -> Sequence[Ending] | None:
        with _one_after_the_other(way):
            done = execute(lambda world: self._main(world), self._tape, self._settings)
        failed = done.error is not None or done.discarded or done.value is None
        return None if failed else [each.ending for each in done.value]


class _NothingToCompare(Exception):
    """A serial order fails by itself, or does not end as it ends a moment later; or the runs find
    what other runs have stored."""


class _Case:
    """How the calls of a storm ended, and how they end in serial orders."""

    def __init__(
        self,
        stormed: Stormed,
        storm: int,
        run: Callable[[Serial | None], Sequence[Ending]],
        known: dict[Serial, Ending],
        made: Made,
    ) -> None:
        self._stormed, self._storm, self._run, self._known = stormed, storm, run, known
        self.made = made
        """What is invented, as far as storms before this one have shown."""

    def verdict(self) -> NotSerial | None:
        if self._is_explained({}):
            return None
        if self.made and self._is_explained(self.made):
            return None
        self.made = made = self._invented()
        if made and self._is_explained(made):
            return None
        if self._is_explained(made, PROMPT):  # what comes too soon after the last one is refused
            return None
        if self._ending_of(None) != self._stormed.ending:
            raise _NothingToCompare
        whole = {
            way.order: renamed(ending, made)
            for way, ending in self._known.items()
            if len(way.order) == len(self._stormed.calls) and not way.shaken
        }
        together = renamed(self._stormed.ending, made)
        return NotSerial(not_serial(self._stormed.calls, together, whole))

    def _is_explained(self, made: Made, how: str = "") -> bool:
        together = renamed(self._stormed.ending, made)
        return explains(
            together,
            self._stormed.optional,
            lambda order: renamed(self._ending(order, how), made),
        )

    def _invented(self) -> Made:
        """The fields whose values change although the order is the same."""
        forth = tuple(range(len(self._stormed.calls)))
        times = invented([self._shaken(forth, LATER)])
        made = invented(self._shaken(order, ALL) for order in (forth, forth[::-1]))
        if times is None or made is None:
            raise _NothingToCompare
        # Seconds that are left, or tokens of a limit: what depends on how soon a call comes.
        spans = dependent(self._shaken(order, PROMPT) for order in (forth, forth[::-1]))
        return {**made, **dict.fromkeys(times), **spans}

    def _shaken(self, order: tuple[int, ...], how: str) -> tuple[Ending, Ending]:
        return self._ending(order), self._ending(order, how)

    def _ending(self, order: tuple[int, ...], how: str = "") -> Ending:
        way = Serial(order, self._storm, how)
        if way not in self._known:
            self._known[way] = self._ending_of(way)
        return self._known[way]

    def _ending_of(self, way: Serial | None) -> Ending:
        endings = self._run(way)
        if len(endings) <= self._storm:
            raise _NothingToCompare
        return endings[self._storm]


@contextmanager
def _one_after_the_other(way: Serial | None) -> Iterator[None]:
    global _serial
    before, _serial = _serial, way
    try:
        yield
    finally:
        _serial = before
