"""Scenarios whose steps are calls of a machine's rules.

A run of a machine is a row of calls (`spec/machine/course.py`). Here the row comes from a file: who
calls which rule with which arguments, and when. All else (order, faults, bytes) still comes from
the tape, by the same names, so a file written from a failing tape fails in the same way.
`WritingCourse` makes such a run while it notes what a file needs; `ScriptedCourse` plays the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from foretold.errors import PropertyViolated, ScenarioError
from foretold.scenario.matching import difference
from foretold.scenario.model import Act, Look, Scenario, Step, Wait
from foretold.scenario.source import problem
from foretold.scenario.values import Drawn, Reference
from foretold.scenario.vocabulary import Parameters, Vocabulary
from foretold.spec.machine.actors import Actor, make_actors
from foretold.spec.machine.calls import AFTER_ALL, AT_ONCE, Call
from foretold.spec.machine.course import P_CALL, PAUSES_S, STREAM, Course
from foretold.spec.machine.machine import Machine, blueprint_of, named_main, options_for
from foretold.spec.machine.rules import Rule

if TYPE_CHECKING:
    from foretold.tape import Stream
    from foretold.world.world import World

_PLAIN = (str, int, float, bool, type(None))


def words_of(cls: type[Machine], options: str = "") -> Vocabulary:
    """Rules are intents; their arguments are parameters."""
    rules = blueprint_of(cls).rules
    return Vocabulary(
        cls.__name__,
        {rule.name: Parameters(tuple(rule.arguments), tuple(rule.arguments)) for rule in rules},
        actors=[actor.name for actor in make_actors(options_for(cls, options).actors)],
        is_machine=True,
    )


def scripted(cls: type[Machine], scenario: Scenario) -> Callable[[World], Any]:
    """The program that plays a scenario by a machine's rules."""
    for step in scenario.steps:
        if not isinstance(step, Act | Wait | Look):
            raise problem(
                scenario.file, step.mark, "a machine's scenario has steps act, wait and look alone"
            )
    cls.foretold_target()  # finds mistakes of the class, and gets its strategies ready
    return lambda world: named_main(cls, world, partial(ScriptedCourse, scenario=scenario))


class ScriptedCourse(Course):
    """A run whose calls come from a scenario."""

    def __init__(self, *given: Any, scenario: Scenario) -> None:
        super().__init__(*given)
        self._scenario = scenario
        self._rules = {rule.name: rule for rule in self.blueprint.rules}
        self._by_name = {actor.name: actor for actor in self.actors}

    async def _apply_rules(self) -> None:
        number = 0
        for step in self._scenario.steps:
            if isinstance(step, Act):
                number = step.slot or number + 1
                await self._act(step, number)
            elif isinstance(step, Look):
                await self.until_quiet()
                await self.look(number)
            elif isinstance(step, Wait):  # what is under way goes on
                await asyncio.sleep(self._seconds(step))
        await self.until_quiet()

    def _error(self, step: Step, what: str) -> ScenarioError:
        return problem(self._scenario.file, step.mark, what)

    def _seconds(self, step: Wait) -> float:
        if isinstance(step.amount, Drawn):
            raise self._error(step, "a machine's scenario draws nothing: write a number")
        return float(step.amount) * step.unit_ms / 1_000

    async def _act(self, step: Act, number: int) -> None:
        stream = self.world.tape.stream(STREAM, number)
        if step.drawn:
            if stream.chance(P_CALL, "call"):
                await self._slot(number, stream)
            return
        actor = self._by_name[step.actor]
        await self._turn(actor, self._when(step))
        rule = self._rules[step.intent]
        if not self.is_possible(rule, actor):
            raise self._error(
                step, f"{step.intent} cannot be called here: its precondition is false"
            )
        call = self._scripted_call(step, number, rule, actor)
        await self.start(call)
        if step.expects or step.error is not None:
            await self.until_quiet()
            self._compare(step, call)

    def _when(self, step: Act) -> int:
        if step.overlap_ms is None:
            return AFTER_ALL
        known = {0.0: AT_ONCE} | {s * 1_000: AT_ONCE + 1 + n for n, s in enumerate(PAUSES_S)}
        near = min(known, key=lambda ms: abs(ms - (step.overlap_ms or 0)))
        return known[near]

    def _scripted_call(self, step: Act, number: int, rule: Rule, actor: Actor) -> Call:
        call = Call(number, rule, actor, {})
        self.machine.drawing_for = actor
        if self._shelves is not None:
            self._shelves.begin()
        for name in rule.arguments:
            call.arguments[name] = self._value(step, step.payload[name], rule.arguments[name])
        if self._shelves is not None:
            call.references = self._shelves.drawn
        self.complete(call)
        return call

    def _value(self, step: Act, value: Any, strategy: Any) -> Any:
        if isinstance(value, Reference):
            return self._from_bundle(step, value, strategy)
        if isinstance(value, list):
            return [self._value(step, each, None) for each in value]
        if isinstance(value, Mapping):
            return {key: self._value(step, each, None) for key, each in value.items()}
        if isinstance(value, Drawn):
            raise self._error(step, "a machine's scenario draws nothing: write a value")
        return value

    def _from_bundle(self, step: Act, reference: Reference, strategy: Any) -> Any:
        from foretold.spec.machine.bundles import Consumer

        shelves, name = self._shelves, reference.name
        bundle = name.rpartition("_")[0]
        kept = [each for each in (shelves.values(bundle) if shelves else []) if each.name == name]
        if shelves is None or not kept:
            raise self._error(step, f"no earlier call has made ${name}")
        shelves.drawn.append(kept[0])
        if isinstance(strategy, Consumer):
            shelves.take(bundle, kept[0])
        return kept[0].value

    def _compare(self, step: Act, call: Call) -> None:
        seen = f"{type(call.error).__name__}: {call.error}" if call.error else repr(call.result)
        wrong: str | None
        if step.error is not None:
            names = [kind.__name__ for kind in type(call.error).__mro__]
            fits = step.error.type in names and (step.error.message or "") in str(call.error)
            wrong = None if fits else f"it gave {seen}, expected {step.error.type}"
        elif call.error is not None:
            wrong = f"it gave {seen}"
        else:
            wrong = difference(call.result, step.expect)
        if wrong:
            said = f"{self._scenario.file}:{step.mark.line}: {step.intent}: {wrong}"
            error = PropertyViolated(said)
            error.place = (self._scenario.file, step.mark.line, self._scenario.name)
            raise error


class WritingCourse(Course):
    """A run that notes what a scenario needs to make it again."""

    def __init__(self, *given: Any, steps: list[dict[str, Any]], drawn: set[int]) -> None:
        super().__init__(*given)
        self._steps, self._drawn = steps, drawn
        self._pause: dict[str, Any] | None = None

    async def _turn(self, actor: Actor, when: int) -> None:
        """A pause counts also if no call comes of it: much may happen meanwhile."""
        if when > AT_ONCE:
            self._pause = {"kind": "wait", "ms": PAUSES_S[when - AT_ONCE - 1] * 1_000}
            self._steps.append(self._pause)
        await super()._turn(actor, when)

    async def look(self, number: int) -> None:
        self._steps.append({"kind": "look", "slot": number})
        await super().look(number)

    def make_call(self, number: int, stream: Stream, rule: Rule, actor: Actor) -> Call | None:
        call = super().make_call(number, stream, rule, actor)
        if call is not None and number > 0:
            if self._pause is not None and self._steps[-1] is self._pause:
                self._steps.pop()  # the step of the call says it
            step: dict[str, Any] = {"kind": "act", "actor": actor.name, "intent": rule.name}
            try:
                payload = self._payload(call)
                step |= {"payload": payload} if payload else {}
            except _NotPlain:
                step |= {"drawn": True}
                self._drawn.add(number)
            self._steps.append(step | {"slot": number})
        return call

    async def start(self, call: Call) -> None:
        if call.when != AFTER_ALL and call.number not in self._drawn:
            pause_s = PAUSES_S[call.when - AT_ONCE - 1] if call.when > AT_ONCE else 0
            self._steps[-1]["overlap"] = {"ms": pause_s * 1_000}
        await super().start(call)

    def _payload(self, call: Call) -> dict[str, Any]:
        from foretold.spec.machine.bundles import Consumer

        names = {id(kept.value): kept.name for kept in call.references}
        given = {name: call.arguments[name] for name in call.rule.arguments}
        consumed = [s for s in call.rule.arguments.values() if isinstance(s, Consumer)]
        if self._shelves is not None and len(self._shelves._taken) != len(consumed):
            raise _NotPlain  # something inside of another strategy has taken it out
        return {name: _written(value, names) for name, value in given.items()}


class _NotPlain(Exception):
    """A value that a file cannot hold."""


def _written(value: Any, names: Mapping[int, str]) -> Any:
    if id(value) in names:
        return f"${names[id(value)]}"
    if type(value) is list:
        return [_written(each, names) for each in value]
    if type(value) is dict and all(type(k) is str and not k.startswith("$") for k in value):
        return {key: _written(each, names) for key, each in value.items()}
    if type(value) not in _PLAIN or value != value or value in (float("inf"), float("-inf")):
        raise _NotPlain
    if isinstance(value, str):
        if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
            raise _NotPlain
        return f"${value}" if value.startswith("$") else value
    return value


def steps_of(cls: type[Machine]) -> tuple[Callable[[World], Any], list[dict[str, Any]], set[int]]:
    """A program that runs the machine and notes its steps, the steps, and the slots whose arguments
    stay on the tape. Each run begins with an empty list."""
    steps: list[dict[str, Any]] = []
    drawn: set[int] = set()
    cls.foretold_target()

    def main(world: World) -> Any:
        steps.clear()
        drawn.clear()
        return named_main(cls, world, partial(WritingCourse, steps=steps, drawn=drawn))

    return main, steps, drawn
