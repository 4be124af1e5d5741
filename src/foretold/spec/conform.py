"""`foretold.conform`: may a model be trusted where it stands in for the real system?

Small programs of several actors are run on the real system, one call at a time, in every order.
Each result must be one that the model allows (*sound*), and the model's results are compared with
those that came to pass in some order (*tight*): what never did is listed. A model that allows
everything is sound and useless; the list shows it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from foretold.arguments import check_whole, signature_of
from foretold.errors import Contradiction, UsageError
from foretold.kernel.session import session
from foretold.spec.checkers.linearizable import BUDGET, Word
from foretold.spec.checkers.steps import as_model
from foretold.spec.nondet import Spec
from foretold.tape import Tape
from foretold.tape.streams import Odometer
from foretold.world.run import run

SCHEDULES_MAX: Final = 10_000
STATE: Final = "state"
NEVER_SHOWN: Final = 20

Call = tuple[Any, ...]
Program = Mapping[str, Sequence[Call | list[Call]]]


class _Waits:
    """The outcome of a call that has to wait for another actor."""

    def __repr__(self) -> str:
        return "waits"

    def __deepcopy__(self, memo: object) -> _Waits:
        return self


WAITS: Final = _Waits()


class Answer(NamedTuple):
    """What came of a call where calls may wait for each other: its own outcome (`WAITS` if it goes
    on later), and the outcomes of those that it let go on."""

    outcome: Any
    went_on: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        others = "".join(f"; {actor} goes on: {what!r}" for actor, what in self.went_on)
        return f"{self.outcome!r}{others}"


class PlayedCall(NamedTuple):
    """One call of a schedule, and what the real system gave."""

    actor: str
    call: Call
    result: Any

    def __str__(self) -> str:
        return f"{self.actor}: {_call_text(self.call)} gave {self.result!r}"


@dataclass
class Conformance:
    """What `conform` found. True if every result was allowed, in every order."""

    word: Word = "ok"
    """`unknown`: there were more orders than `schedules`, or the model's budget was used up."""
    programs: int = 0
    schedules: int = 0
    contradiction: Contradiction | None = None
    program: str = ""
    """The program that contradicts the model."""
    schedule: list[PlayedCall] = field(default_factory=list)
    """The order of its calls, up to the contradiction."""
    seen: set[str] = field(default_factory=set)
    modelled: set[str] = field(default_factory=set)
    limit: str = ""
    """What ended the enumeration, if something did."""

    def __bool__(self) -> bool:
        return self.word == "ok"

    @property
    def never_seen(self) -> list[str]:
        """What the model allows in some order, and the real system did in none."""
        return sorted(self.modelled - self.seen)

    @property
    def is_tight(self) -> bool:
        return not self.never_seen

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        tried = f"{self.schedules:,} schedules of {self.programs} programs"
        if self.contradiction is not None:
            yield f"the model does not conform, after {tried}: {self.program}"
            yield from (f"  {each}" for each in self.schedule)
            yield str(self.contradiction)
            return
        yield f"{tried}: {'all conform' if self else f'unknown ({self.limit})'}"
        if self.never_seen:
            yield f"modelled and never seen ({len(self.never_seen)}):"
            yield from (f"  {each}" for each in self.never_seen[:NEVER_SHOWN])


def conform(
    real: Callable[..., Any],
    model: Any,
    programs: Mapping[str, Any] | Sequence[Program],
    *,
    schedules: int = SCHEDULES_MAX,
    budget: int = BUDGET,
    on_schedule: Callable[[str, list[PlayedCall]], object] | None = None,
) -> Conformance:
    """Run programs on the real system in every order, and compare each result with the model.

        foretold.conform(lambda: RealQueue(), QueueModel, {
            "two writers": {"a": [("put", 1)], "b": [("put", 2), ("get",)]},
        })

    `real(world)` or `real()` makes the real system, for each order anew, inside of a run; it may be
    async, and so may its methods. A call is the name of a method and its arguments; calls in a list
    are made together, with nobody in between. A method with a
    parameter `actor` gets the actor's name. If both sides have `state()`, these are compared in the
    end. At most `schedules` orders of each program are run; `on_schedule(program, steps)` is told
    of each.
    """
    check_whole("schedules", schedules, at_least=1, example=SCHEDULES_MAX)
    found = Conformance()
    spec = Spec(model, budget=budget)
    names = {name for name in dir(as_model(model)) if not name.startswith("_")}
    with session():
        for name, program in _named(programs).items():
            _check_program(name, program, names)
            found.programs += 1
            for course in _through(found, name, program, real, spec, schedules):
                if on_schedule is not None:
                    on_schedule(name, course.steps)
            if found.word == "violated":
                break
    return found


def _through(
    found: Conformance, name: str, program: Program, real: Any, spec: Spec, limit: int
) -> Iterator[_Course]:
    """Every order of one program, as far as they conform."""
    odometer, tried, goes_on = Odometer(), 0, True
    while goes_on:
        if tried == limit:
            found.word, found.limit = "unknown", f"{name} has more than {limit:,} schedules"
            return
        tried += 1
        found.schedules += 1
        course = _Course(found, name, program, spec.again(), odometer.next)
        try:
            run(lambda world, course=course: course.run(real, world), tape=Tape.calm())
        except Contradiction as contradiction:
            found.word, found.contradiction = "violated", contradiction
            found.program, found.schedule = name, course.steps
            return
        if course.spec.verdict == "unknown":
            found.word, found.limit = "unknown", f"the model's budget was used up in {name}"
        yield course
        goes_on = odometer.turn()


class _Course:
    """One order of one program."""

    def __init__(
        self,
        found: Conformance,
        name: str,
        program: Program,
        spec: Spec,
        choose: Callable[[int], int],
    ) -> None:
        self._found, self._name, self.spec, self._choose = found, name, spec, choose
        self._left = {actor: list(calls) for actor, calls in program.items()}
        self._waiting: dict[str, str] = {}
        """Who waits, and in which call."""
        self.steps: list[PlayedCall] = []

    async def run(self, real: Any, world: Any) -> None:
        system = await _value(real(world) if signature_of(real).parameters else real())
        try:
            while True:
                free = [a for a, calls in self._left.items() if calls and a not in self._waiting]
                if not free:
                    break
                actor = free[self._choose(len(free)) if len(free) > 1 else 0]
                given = self._left[actor].pop(0)
                calls = list(given) if isinstance(given, list) else [given]
                while calls and actor not in self._waiting:
                    await self._step(system, actor, calls.pop(0))
                if calls:  # one of them has to wait, and the others come after it
                    self._left[actor].insert(0, calls)
            if hasattr(system, STATE) and hasattr(self.spec.states[0], STATE):
                self._observe("", (STATE,), await _value(system.state()), {})
        finally:
            if hasattr(system, "close"):
                await _value(system.close())

    async def _step(self, system: Any, actor: str, call: Call) -> None:
        method, *arguments = call
        known = signature_of(getattr(self.spec.states[0], method)).parameters
        named = {"actor": actor} if "actor" in known else {}
        result = await _value(getattr(system, method)(*arguments, **named))
        self._observe(actor, call, result, named)
        if isinstance(result, Answer):
            if result.outcome is WAITS:
                self._waiting[actor] = _call_text(call)
            for other, _ in result.went_on:
                self._waiting.pop(other, None)

    def _observe(self, actor: str, call: Call, result: Any, named: dict[str, Any]) -> None:
        method, *arguments = call
        self.steps.append(PlayedCall(actor, call, result))
        found, here = self._found, f"{self._name}: {actor} {_call_text(call)}".replace(":  ", ": ")
        for each in self.spec.allowed(method, *arguments, **named):
            found.modelled.update(self._told(here, each))
        found.seen.update(self._told(here, result))
        self.spec.observe(result, method, *arguments, **named)

    def _told(self, here: str, result: Any) -> Iterator[str]:
        """Outcomes one by one: each belongs to the call that it is the outcome of."""
        if not isinstance(result, Answer):
            yield f"{here} → {result!r}"
            return
        yield f"{here} → {result.outcome!r}"
        for other, what in result.went_on:
            yield f"{self._name}: {other} {self._waiting.get(other, '')} → {what!r}"


def _call_text(call: Call) -> str:
    return f"{call[0]}({', '.join(map(repr, call[1:]))})"


async def _value(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _named(programs: Any) -> dict[str, Program]:
    if isinstance(programs, Mapping):
        if all(isinstance(each, Mapping) for each in programs.values()):
            return dict(programs)
        return {"the program": programs}
    return {f"program {number}": each for number, each in enumerate(programs, 1)}


def _check_program(name: str, program: Any, names: set[str]) -> None:
    right = '{"a": [("put", 1), ("get",)], "b": [("put", 2)]}'
    if not isinstance(program, Mapping) or not program:
        raise UsageError(f"conform: a program is, for instance, {right}; got {program!r}")
    for actor, calls in program.items():
        for call in (c for each in calls for c in (each if isinstance(each, list) else [each])):
            if not (isinstance(call, tuple) and call and isinstance(call[0], str)):
                raise UsageError(
                    f"conform: a call is a tuple of a method's name and its arguments; {name}, "
                    f"{actor} has {call!r}.\n  right: {right}"
                )
            if call[0] not in names:
                raise UsageError(f"conform: {name}, {actor}: the model has no method {call[0]!r}")
