"""`ScenarioRunner`: plays the steps of a scenario.

What the scenario's format leaves open is decided here:

- `wait` goes to an instant of the scenario's own clock, the sum of all waits so far. So an act that
  takes a millisecond of network time shifts nothing after it. If nobody else plays at the same time
  it then does all that is due there; else the instant is one at which several may begin at once.
- An act that raises fails the run, unless the step expects just that error. Nothing is swallowed.
- With a load of K, K copies of the actors play all steps at the same time. Each copy has a clock,
  saved results and a correlation id of its own: `expect_events` sees the events of its own copy.
- An assertion first does what is due now (`settle`; time does not jump); beside others, only if it
  does not hold at once. On a wiring with slack it is tried again until the slack is over.
- Observers look at quiet moments: after each step of a scenario that one copy plays, when all that
  is due has been done; never inside of a parallel block; with a load, at the end. On a wiring with
  slack they are tried again until it is over, because work that waits for a server does not show.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from foretold.errors import PropertyViolated, ScenarioError, UsageError
from foretold.harness.world import SimulationWorld
from foretold.scenario.matching import difference
from foretold.scenario.model import (
    Act,
    Ask,
    Events,
    ExpectedError,
    ExpectedEvent,
    Faults,
    Look,
    Parallel,
    Reaction,
    Repeat,
    Scenario,
    Silence,
    Step,
    Wait,
    read_scenario,
)
from foretold.scenario.source import Mark, problem
from foretold.scenario.values import Scope, evaluate
from foretold.scenario.vocabulary import EVENT
from foretold.spec.workload import together
from foretold.world.log import CAUSE, CORRELATION, EventLog, LoggedEvent, clock_text

NS_OF_MS = 1_000_000
LOG_LINES_TOLD = 40
TRIES_IN_SLACK = 20
REACTIONS_MS_MAX = 60_000


class ScenarioRunner:
    """Plays scenarios on one world."""

    def __init__(self, world: SimulationWorld) -> None:
        self.world = world
        self.scenario: Scenario | None = None
        self.busy = 0
        """How many acts and assertions are under way."""
        self.begun = 0
        """How many there were so far."""
        self.told: list[str] = []
        self.drawn: dict[Mark, list[Any]] = {}
        """What the tape gave for values that the file leaves open."""
        self._reacting: list[asyncio.Task[None]] = []

    async def play(self, scenario: Scenario | Mapping[str, Any], *, load: int = 1) -> EventLog:
        """Play all steps; returns the log. Raises what an act raises, and `PropertyViolated` for
        what is not as it was expected."""
        if not isinstance(scenario, Scenario):
            scenario = read_scenario(json.dumps(scenario), "scenario.json")
        self.scenario = scenario
        outer = self.world.world
        outer.opening = self._opening
        await self.world.start()
        outer.on_event.append(self._react)
        try:
            copies = [Copy(self, number, load) for number in range(1, load + 1)]
            loop = asyncio.get_running_loop()
            if load == 1:
                await copies[0].play(scenario)
            else:
                tasks = [loop.create_task(c.play(scenario), name=c.correlation) for c in copies]
                await together(*tasks)
            await self.world.clock.settle()
            await self._end_reactions()
            await self.observe()
        finally:
            outer.on_event.remove(self._react)
        await self.world.stop()
        return self.world.log

    def _react(self, event: LoggedEvent) -> None:
        """Somebody waits for just this event, to do what must not be done then."""
        assert self.scenario is not None, "it plays one"
        for reaction in self.scenario.reactions:
            if reaction.after == event.name:
                task = asyncio.get_running_loop().create_task(
                    self._answer(reaction, event), name=f"{reaction.act.actor} reacts"
                )
                self._reacting.append(task)

    async def _end_reactions(self) -> None:
        """Wait for all, and raise what one has raised. Those on other hosts cannot be awaited from
        here: time passes until they are done."""
        here, left_ms = asyncio.get_running_loop(), REACTIONS_MS_MAX
        while self._reacting:
            reacting, self._reacting = self._reacting, []
            await together(*[task for task in reacting if task.get_loop() is here])
            elsewhere = [task for task in reacting if task.get_loop() is not here]
            while not all(task.done() for task in elsewhere) and left_ms:
                await self.world.clock.advance(1)
                left_ms -= 1
            for task in elsewhere:
                task.result()  # raises also if it is not done by then

    async def _answer(self, reaction: Reaction, event: LoggedEvent) -> None:
        copy = Copy(self, 0, 1)
        copy.saved = {EVENT: {**event.data, "name": event.name}}
        CORRELATION.set("reactions")
        CAUSE.set(event.id)
        await copy.step(reaction.act)

    async def observe(self) -> None:
        """At a quiet moment, what must hold is looked at."""
        if not self.world.observers:
            return
        await self.world.clock.settle()
        tries = TRIES_IN_SLACK if self.world.slack_ms else 0
        for left in reversed(range(tries + 1)):
            begun = self.begun
            try:
                await self.world.observe()
            except AssertionError:
                if self.busy or self.begun != begun:
                    return  # somebody reacts to an event: no quiet moment any more
                if not left:
                    raise
                await self.world.clock.advance(self.world.slack_ms / tries)
            else:
                return

    def violated(self, mark: Mark, what: str) -> PropertyViolated:
        """A step is not as it was expected. Recorded, so that nobody can swallow it."""
        assert self.scenario is not None, "it plays one"
        error = PropertyViolated(f"{self.scenario.file}:{mark.line}: {what}")
        error.place = (self.scenario.file, mark.line, self.scenario.name)
        self.world.world.fail(error)
        return error

    def _opening(self) -> str:
        name = self.scenario.name if self.scenario else ""
        lines = [f"The scenario {name!r}:", *(f"  {line}" for line in self.told)]
        log = self.world.log.lines() and str(self.world.log).splitlines()
        if log:
            left = len(log) - LOG_LINES_TOLD
            log = [f"… {left} events before", *log[left:]] if left > 0 else log
            lines += ["The log:", *(f"  {line}" for line in log)]
        return "\n".join(lines)


class Copy:
    """One of the copies that play a scenario, or a branch of it."""

    def __init__(self, runner: ScenarioRunner, number: int, load: int) -> None:
        self.runner, self.world = runner, runner.world
        self.number, self.load = number, load
        self.correlation = f"trace-{number}"
        self.saved: dict[str, Any] = {}
        self.began_ns = self._now_ns()
        self.due_ns = 0
        """The scenario's own time: the sum of its waits."""
        self.is_alone = load == 1
        """Whether nobody else plays steps at the same time."""

    def _now_ns(self) -> int:
        return self.world.world.home.kernel.clock.elapsed_ns

    def branch(self) -> Copy:
        """Plays beside this one, and knows what it knows."""
        made = Copy(self.runner, self.number, self.load)
        made.saved, made.began_ns, made.due_ns = self.saved, self.began_ns, self.due_ns
        made.is_alone = False
        return made

    async def play(self, scenario: Scenario) -> None:
        CORRELATION.set(self.correlation)
        if self.load > 1 and scenario.stagger_ms:
            stream = self.world.world.tape.stream("workload", "stagger", self.number)
            late_ms = stream.between(0, int(scenario.stagger_ms), "begins after ms")
            await asyncio.sleep(late_ms / 1_000)
        self.began_ns = self._now_ns()
        await self.steps(scenario.steps)

    async def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            await self.step(step)
            if self.is_alone:
                await self.runner.observe()

    async def step(self, step: Step) -> None:
        if isinstance(step, Wait):
            await self._wait(step)
        elif isinstance(step, Parallel):
            await self._parallel(step)
        elif isinstance(step, Repeat):
            for _ in range(self._whole(self.value(step.times, step.mark), step.mark)):
                await self.steps(step.steps)
        elif isinstance(step, Look):
            await self.world.clock.settle()
        elif isinstance(step, Faults):
            await self._faults(step)
        elif isinstance(step, Act):
            await self._counted(self._act(step))
        else:
            await self._counted(self._assert(step))

    async def _counted(self, work: Any) -> None:
        self.runner.busy += 1
        self.runner.begun += 1
        try:
            await work
        finally:
            self.runner.busy -= 1

    def value(self, value: Any, mark: Mark) -> Any:
        scenario = self.runner.scenario
        place = f"{scenario.file if scenario else ''}:{mark.line}:{mark.column}"
        return evaluate(value, Scope(self.saved, self.world.strategies, place, self.runner.drawn))

    def _unfit(self, mark: Mark, what: str) -> ScenarioError:
        scenario = self.runner.scenario
        return problem(scenario.file if scenario else "", mark, what)

    def _whole(self, value: Any, mark: Mark) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._unfit(mark, f"times is a whole number, got {value!r}")
        return value

    async def _wait(self, step: Wait) -> None:
        amount = self.value(step.amount, step.mark)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            raise self._unfit(step.mark, f"a wait is a number of 0 or more, got {amount!r}")
        self.due_ns += round(amount * step.unit_ms * NS_OF_MS)
        left_ns = self.began_ns + self.due_ns - self._now_ns()
        self._log(f"wait until {clock_text(self.due_ns)}")
        if self.is_alone:
            await self.world.clock.advance(max(0, left_ns) / NS_OF_MS)
        else:  # to settle would let others end their work first: no two would ever overlap
            await asyncio.sleep(max(0, left_ns) / NS_OF_MS / 1_000)

    async def _parallel(self, step: Parallel) -> None:
        loop = asyncio.get_running_loop()
        branches = [self.branch() for _ in step.branches]
        tasks = [
            loop.create_task(copy.steps(steps), name=f"{self.correlation} branch {number}")
            for number, (copy, steps) in enumerate(zip(branches, step.branches, strict=True), 1)
        ]
        await together(*tasks)
        self.due_ns = max(copy.due_ns for copy in branches)

    async def _faults(self, step: Faults) -> None:
        if step.ports:
            self.world.fault_points.rates.update(step.ports)
            return
        self.world.fault_points.rates.clear()
        await self.world.world.heal()

    # Acts

    async def _act(self, step: Act) -> None:
        payload = self.value(step.payload, step.mark)
        copied = self.load > 1 and self.number > 1
        name = f"{step.actor}-{self.number}" if copied else step.actor
        actor = self.world.actor(name, step.actor)
        said = f"{actor.name}: {step.intent}({_arguments(payload)})"
        try:
            result = await actor.dispatch(step.intent, payload)
        except Exception as error:
            self._log(f"{said}  # {type(error).__name__}: {error}")
            self._check_error(step.mark, said, step.error, error)
            return
        self._log(said)
        if step.error is not None:
            raise self.runner.violated(
                step.mark, f"{said} has succeeded, expected {step.error.type}"
            )
        if step.expects:
            wrong = difference(result, self.value(step.expect, step.mark))
            if wrong:
                raise self.runner.violated(step.mark, f"{said}: {wrong}")
        if step.save:
            self.saved[step.save] = result

    def _check_error(
        self, mark: Mark, said: str, expected: ExpectedError | None, error: Exception
    ) -> None:
        if isinstance(error, PropertyViolated | UsageError) or expected is None:
            scenario = self.runner.scenario
            error.add_note(f"foretold: raised by {scenario and scenario.file}:{mark.line}: {said}")
            raise error
        names = [kind.__name__ for kind in type(error).__mro__]
        wrong_text = expected.message is not None and expected.message not in str(error)
        if expected.type not in names or wrong_text:
            wanted = expected.type if expected.message is None else f"{expected.type} saying "
            wanted += repr(expected.message) if expected.message is not None else ""
            raise self.runner.violated(
                mark, f"{said} raised {type(error).__name__}: {error}, expected {wanted}"
            ) from error

    # Assertions

    async def _assert(self, step: Step) -> None:
        if self.is_alone:
            await self.world.clock.settle()
        wrong = await self._wrong(step)
        if wrong and not self.is_alone:
            await self.world.clock.settle()
            wrong = await self._wrong(step)
        for _ in range(TRIES_IN_SLACK if self.world.slack_ms else 0):
            if not wrong:
                break
            await self.world.clock.advance(self.world.slack_ms / TRIES_IN_SLACK)
            wrong = await self._wrong(step)
        self._log(f"assert line {step.mark.line}{f'  # {wrong}' if wrong else ''}")
        if wrong:
            raise self.runner.violated(step.mark, wrong)

    async def _wrong(self, step: Step) -> str | None:
        if isinstance(step, Ask):
            return await self._ask(step)
        log = self.world.log.correlated(self.correlation)
        if isinstance(step, Events):
            return self._events(step, log)
        assert isinstance(step, Silence), "there is no other kind"
        try:
            log.silence(self._run_s(step.from_ms), self._run_s(step.to_ms), *step.of)
        except PropertyViolated as error:
            return str(error)
        return None

    async def _ask(self, step: Ask) -> str | None:
        args = self.value(step.args, step.mark)
        said = f"{step.query}({_arguments(args)})"
        try:
            result = await self.world.ask(step.query, args)
        except Exception as error:
            self._check_error(step.mark, said, step.error, error)
            return None
        if step.error is not None:
            return f"{said} gave {result!r}, expected {step.error.type}"
        wrong = difference(result, self.value(step.expect, step.mark))
        return f"{said}: {wrong}" if wrong else None

    def _run_s(self, ms: float) -> float:
        """A time of the scenario as the log has it."""
        return (self.began_ns + ms * NS_OF_MS) / 1e9

    def _events(self, step: Events, log: EventLog) -> str | None:
        left = list(log)
        for expected in step.expected:
            found = next((n for n, each in enumerate(left) if self._is(each, expected)), None)
            if found is None:
                seen = ", ".join(str(each) for each in log.of(expected.name)) or "none of that name"
                at = "" if expected.at_ms is None else f" at {clock_text(_ns(expected.at_ms))}"
                return f"the log lacks {expected.name}{at} in this place; there is {seen}"
            if step.exactly and found:
                return f"the log has {left[0]} besides"
            del left[: found + 1]
        if step.exactly and left:
            return f"the log has {left[0]} besides"
        return None

    def _is(self, event: LoggedEvent, expected: ExpectedEvent) -> bool:
        if event.name != expected.name:
            return False
        if expected.at_ms is not None:
            late_ns = event.time_ns - self.began_ns - _ns(expected.at_ms)
            if not 0 <= late_ns <= _ns(self.world.slack_ms):
                return False
        wanted = self.value({"$subset": expected.data}, Mark(1, 1))
        return difference(dict(event.data), wanted) is None

    def _log(self, line: str) -> None:
        if self.world.world.trace.detail:
            who = f"{self.correlation} " if self.load > 1 else ""
            passed = clock_text(self._now_ns() - self.began_ns)
            self.runner.told.append(f"[{passed}] {who}{line}")


def _ns(ms: float) -> int:
    return round(ms * NS_OF_MS)


def _arguments(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())
