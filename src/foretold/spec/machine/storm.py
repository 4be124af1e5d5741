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

Faults would strike other calls in other orders: there are none during a storm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from foretold.errors import NotSerial
from foretold.spec.alike import Ending, Made, ending_of, invented, renamed
from foretold.spec.machine.printing import call_text
from foretold.spec.serial import NUMBERS_SKIPPED, not_serial, orders_of, without
from foretold.world.omens import BOUND, Bound
from foretold.world.run import Run, execute

if TYPE_CHECKING:
    from foretold.spec.machine.course import Call, Course
    from foretold.tape import Stream, Tape
    from foretold.world.settings import Settings

STREAM: Final = "machine"
P_CALL: Final = 0.97
PAUSES_S: Final = (0.0, 0.0001, 0.001, 0.01)
ANOTHER, ALIKE, TWIN, RELATED = 0, 1, 2, 3
"""A call of the storm is any call; or one of the same rule as the first, the same call again, or a
call of any rule, about the same things."""
LIKE: Final = (1, 2, 2, 3)
P_AMONG_FAULTS: Final = 1 / 3
"""The share of storms at most, where other runs have faults."""
BEGINNING_MAX: Final = 30
"""So many calls at most come before a storm: they are made again for each serial order."""
P_SAME_USER: Final = 0.5
SPAN_S_MIN: Final = 1.0


LATER, ALL = "later", "all"


class Serial(NamedTuple):
    """How the calls of a storm are made one after the other."""

    order: tuple[int, ...]
    shaken: str = ""
    """`later`; `all`: later, with other randomness and other numbers from sequences."""


_serial: Serial | None = None
"""None: at the same time."""


class Stormed(NamedTuple):
    """What came of a storm."""

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
    share = float(machine.storms)
    if world.nemesis is not None:
        share = min(share, P_AMONG_FAULTS)
    return share >= 1 or world.tape.stream(STREAM, "storm").chance(share, "storm")


class Storm:
    """The rules of one run, as the oracle wants them applied."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._head = course.world.tape.stream(STREAM, "storm")

    async def run(self) -> Stormed | None:
        """The beginning and the storm. None if there was no storm that could be compared."""
        async with self._course.world.calm():  # what strikes would strike others each time
            await self._begin_serially()
            self._course.machine.is_in_storm = True
            calls = self._draw()
            if len(calls) > 1:
                await self._make(calls)
            self._course.machine.is_in_storm = False
        return self._stormed([call for call, _ in calls]) if len(calls) > 1 else None

    async def _begin_serially(self) -> None:
        for number in range(1, min(self._course.slots, BEGINNING_MAX) + 1):
            stream = self._course.world.tape.stream(STREAM, number)
            if stream.chance(P_CALL, "call"):
                await self._one(number, stream)
        await self._settle()

    async def _shake(self, span_s: float) -> None:
        """Whatever the calls do from here on, they do at another time and with other numbers."""
        await self._course.world.clock.advance(span_s)
        if _is_all_shaken():
            for database in self._databases():
                database.skip_numbers(NUMBERS_SKIPPED)

    async def _make(self, calls: list[tuple[Call, float]]) -> None:
        """All calls. Every way ends at the same instant, so that what goes on by itself has had the
        same time."""
        course = self._course
        span_s = (len(calls) + 1) * max(course.machine.quiet_s, SPAN_S_MIN)
        if _serial is not None and _serial.shaken:
            await self._shake(span_s)
        ends_s = course.world.clock.monotonic() + span_s
        if _serial is None:
            await asyncio.gather(*(self._begin(call, pause_s) for call, pause_s in calls))
        else:
            for number in _serial.order:
                await self._begin(calls[number][0], 0.0)
                await self._settle()
        await self._settle()
        await course.world.clock.advance(max(0.0, ends_s - course.world.clock.monotonic()))
        if _serial is None:
            course.machine.foretold_after_storm([call for call, _ in calls])

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

    def _draw(self) -> list[tuple[Call, float]]:
        """The calls of the storm, all of them before the first begins, each of another actor."""
        course, head = self._course, self._head
        size = min(2 + head.weighted((3, 1), "a third call"), len(course.actors))
        free = list(course.actors)
        calls: list[tuple[Call, float]] = []
        for place in range(size):
            stream = course.world.tape.stream(STREAM, "storm", place)
            if not stream.chance(P_CALL, "call"):
                continue
            actor = free.pop(stream.choose(len(free), "actor"))
            number = course.options.steps + 1 + place
            first = calls[0][0] if calls else None
            call = self._call(number, stream, actor, first)
            if call is not None:
                calls.append((call, stream.pick(PAUSES_S, "begins")))
        return calls

    def _call(self, number: int, stream: Stream, actor: Any, first: Call | None) -> Call | None:
        course = self._course
        like = ANOTHER if first is None else stream.weighted(LIKE, "like the first")
        if first is None or like == ANOTHER:
            return course.choose(number, stream, actor)
        user = first.actor if self._is_same_user(stream) else actor
        if like == TWIN and course.is_possible(first.rule, user):
            call: Call | None = _twin(number, first, user)
        else:
            with course.near(first.references):
                if like == ALIKE and course.is_possible(first.rule, user):
                    call = course.make_call(number, stream, first.rule, user)
                else:
                    call = course.choose(number, stream, user)
        if call is not None and user is not actor:
            call.actor, call.user = actor, user
        return call

    def _is_same_user(self, stream: Stream) -> bool:
        if not self._course.machine.foretold_acts_twice:
            return False
        return stream.chance(P_SAME_USER, "by the same user")

    async def _begin(self, call: Call, pause_s: float) -> None:
        """Begin a call. What it draws of randomness is its own, in each order the same."""
        if pause_s:
            await asyncio.sleep(pause_s)
        salt = " shaken" if _is_all_shaken() else ""
        bound = Bound(frozenset(), party=f"storm {call.number}", salt=salt)
        call.actor._context.run(BOUND.set, bound)
        await self._course.start(call)

    def _databases(self) -> Sequence[Any]:
        found: Sequence[Any] = self._course.world.services.get("postgres", ())
        return found

    def _stormed(self, calls: list[Call]) -> Stormed:
        course = self._course
        results = [_result(call) for call in calls]
        ending = ending_of(results, self._databases(), course.machine.ignore)
        optional = tuple(n for n, call in enumerate(calls) if call.outcome in ("refused", "failed"))
        return Stormed(tuple(call_text(course, call) for call in calls), ending, optional)


def _is_all_shaken() -> bool:
    return _serial is not None and _serial.shaken == ALL


def _twin(number: int, first: Call, user: Any) -> Call:
    """The same call again."""
    arguments = dict(first.arguments)
    if first.rule.wants_actor:
        arguments["actor"] = user
    return type(first)(
        number, first.rule, user, arguments, references=first.references, shown=first.shown
    )


def _result(call: Call) -> tuple[str, Any]:
    """What a call gave. What goes into a bundle is a name for something: which, does not matter."""
    if call.outcome == "succeeded":
        return "gave", None if call.rule.targets else call.result
    if call.outcome == "running":
        return "was not made", None
    return call.outcome, str(call.error)


def judge(main: Any, done: Run, tape: Tape, settings: Settings) -> NotSerial | None:
    """Whether some serial order of the storm explains how a run ended."""
    if done.value is None:
        return None
    try:
        return _Case(main, done.value, tape, settings).verdict()
    except _NothingToCompare:
        return None


class _NothingToCompare(Exception):
    """A serial order fails by itself, or does not end as it ends a moment later."""


class _Case:
    """How the calls of a storm ended, and how they end in serial orders."""

    def __init__(self, main: Any, stormed: Stormed, tape: Tape, settings: Settings) -> None:
        self._main, self._tape, self._settings = main, tape, settings
        self._stormed = stormed
        self._known: dict[Serial, Ending] = {}

    def verdict(self) -> NotSerial | None:
        if self._is_explained(lambda ending: ending):
            return None
        made = self._invented()
        if made and self._is_explained(lambda ending: renamed(ending, made)):
            return None
        whole = {
            way.order: renamed(ending, made)
            for way, ending in self._known.items()
            if self._is_whole(way) and not way.shaken
        }
        together = renamed(self._stormed.ending, made)
        return NotSerial(not_serial(self._stormed.calls, together, whole))

    def _is_whole(self, way: Serial) -> bool:
        return len(way.order) == len(self._stormed.calls)

    def _is_explained(self, read: Callable[[Ending], Ending]) -> bool:
        optional, together = self._stormed.optional, read(self._stormed.ending)
        for order in orders_of(len(self._stormed.calls), optional):
            way = Serial(order)
            ending = read(self._ending(way))
            left_out = () if self._is_whole(way) else optional
            if without(ending, left_out).normal() == without(together, left_out).normal():
                return True
        return False

    def _invented(self) -> Made:
        """The fields whose values change although the order is the same."""
        forth = tuple(range(len(self._stormed.calls)))
        times = invented([self._shaken(forth, LATER)])
        made = invented(self._shaken(order, ALL) for order in (forth, forth[::-1]))
        if times is None or made is None:
            raise _NothingToCompare
        return {**made, **dict.fromkeys(times)}

    def _shaken(self, order: tuple[int, ...], how: str) -> tuple[Ending, Ending]:
        return self._ending(Serial(order)), self._ending(Serial(order, how))

    def _ending(self, way: Serial) -> Ending:
        if way not in self._known:
            with _one_after_the_other(way):
                again = execute(lambda world: self._main(world), self._tape, self._settings)
            if again.error is not None or again.discarded or again.value is None:
                raise _NothingToCompare  # what fails without any overlap is not the oracle's affair
            self._known[way] = again.value.ending
        return self._known[way]


@contextmanager
def _one_after_the_other(way: Serial) -> Iterator[None]:
    global _serial
    before, _serial = _serial, way
    try:
        yield
    finally:
        _serial = before
