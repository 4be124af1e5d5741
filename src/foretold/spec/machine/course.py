"""One run of a machine: call after call, or several at once.

The conductor goes through the slots. A call has a task of its own, named after who does what
in which slot, so that what the tape says about its steps stays true when other calls are left out.
When a slot begins is a choice of its own: 0, when all calls before it have returned; else at once,
or after a pause, while the others are in the middle of theirs. An actor does one thing at a time.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from foretold.errors import Refused
from foretold.spec.machine.actors import Actor, make_actors
from foretold.spec.machine.calls import AFTER_ALL, AT_ONCE, Call
from foretold.spec.machine.checks import Checks
from foretold.spec.machine.covers import OperationCounter, operations_of
from foretold.spec.machine.faulty import FaultsOfCalls
from foretold.spec.machine.invariants import QUIET
from foretold.spec.machine.machine import Machine
from foretold.spec.machine.patience import Patience
from foretold.spec.machine.printing import (
    arguments_text,
    call_text,
    calls_in,
    names_in,
    program_text,
)
from foretold.spec.machine.rules import Multiple, Rule
from foretold.spec.machine.weights import swarm_weights
from foretold.tape.streams import Weights
from foretold.trace import encode
from foretold.world.world import CALL

if TYPE_CHECKING:
    from foretold.spec.machine.bundles import Kept, Shelves
    from foretold.spec.machine.invariants import Invariant
    from foretold.spec.machine.machine import Blueprint
    from foretold.spec.machine.options import MachineOptions
    from foretold.tape import Stream
    from foretold.world.tally import RuleCount
    from foretold.world.world import World

STREAM = "machine"
COURSE = "foretold machine: course"
"""Where the course of a run lies in `world.shared`."""
P_CALL = 0.97
P_LOOK = 0.15
PAUSES_S = (0.0001, 0.001, 0.01, 0.1, 1.0)
OVERLAP = (
    (6, 9, 1, 1, 1, 1, 1),
    (40, 2, 1, 1, 1, 1, 1),
    (1, 30, 2, 2, 2, 2, 1),
)
"""How likely a slot begins after all, at once, or after one of the pauses: in a usual run, in one
with little overlap, in one with much."""
UNWIND_S = 60


class Companion(Protocol):
    """Somebody who goes along with a run: a model, for instance."""

    def began(self, call: Call) -> None:
        """A call begins."""

    def returned(self, call: Call) -> None:
        """A call is over, whatever came of it. Whatever this raises fails the run."""

    async def quiet(self) -> None:
        """Nobody is at work."""

    async def end(self) -> None:
        """The last call is over."""


COMPANIONS: list[Callable[[Course], Companion | None]] = []
"""Asked at the beginning of each run."""


async def play(
    cls: type[Machine],
    blueprint: Blueprint,
    options: MachineOptions,
    world: World,
    conducted: Callable[..., Course] | None = None,
) -> Any:
    """The main of a run, conducted by the tape or by a scenario. Gives what its oracle wants to
    compare, if it has one."""
    machine = cls.__new__(cls)
    machine.world = world
    course = (conducted or Course)(machine, blueprint, options, world)
    machine.__init__()  # type: ignore[misc]  # the world is there before it is called
    await course.run()
    return course.ending


class Course:
    """A machine in a world, from the first call to the last."""

    def __init__(
        self, machine: Machine, blueprint: Blueprint, options: MachineOptions, world: World
    ) -> None:
        self.machine = machine
        self.blueprint = blueprint
        self.options = options
        self.world = world
        self.tally = world.tally
        self.actors = machine.cast = make_actors(options.actors)
        self.calls: list[Call] = []
        """All that began, in that order."""
        self.ending: Any = None
        """What the oracle compares, if the machine has one."""
        self.looks_at_end = True
        self.failure: BaseException | None = None
        self.seen_failing = ""
        """If no call has failed, but something that is looked at between them: what it was."""
        self.checks = Checks(self)
        self._patience = Patience(self)
        self.companions: list[Companion] = []
        self._busy: dict[Actor, Call] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._news: asyncio.Future[None] | None = None
        self._moments = 0
        self._set_up = False
        self._stopping = False
        self._tolerated = tuple(machine.tolerates)
        self._shelves: Shelves | None = None
        self._adapter: Any = None
        """To Hypothesis, if there is anything to draw."""
        self._looks = bool(blueprint.at(QUIET))
        self._head = world.tape.stream(STREAM)
        self._draw_configuration()

    def _draw_configuration(self) -> None:
        """What this run as a whole is like. All zeros: as the class says."""
        head, options, tape = self._head, self.options, self.world.tape
        rules = [rule.name for rule in self.blueprint.rules]
        self._given = [float(options.weights.get(name, 1)) for name in rules]
        self._weights = swarm_weights(tape, head, rules, options.weights)
        self._is_eager = type(self.machine).foretold_eagerness is not Machine.foretold_eagerness
        steps = options.steps
        fewer = head.weighted([steps, *[1] * (steps - 1)], "fewer steps") if steps > 1 else 0
        self.slots = steps - fewer
        several = len(self.actors) > 1
        self._overlap = OVERLAP[head.weighted((3, 1, 2), "overlap")] if several else ()
        asleep = 0
        if several and isinstance(options.actors, int):
            asleep = head.weighted([2 * len(self.actors), *[1] * (len(self.actors) - 1)], "idle")
        acting = len(self.actors) - asleep
        self._acting = [1.0] * acting + [0.0] * asleep
        if several:
            tape.configuration["actors"] = str(acting)
        self._faults = FaultsOfCalls(self.world, head)
        wanted = [name for name, weight in zip(rules, self._given, strict=True) if weight]
        for name in (*wanted, *(rule.name for rule in self.blueprint.initializers)):
            self.tally.rule(name)
        counts = self.tally.rules
        self._wanted = [weight > 0 for weight in self._given]
        asked: dict[object, tuple[Rule, list[tuple[int, RuleCount]]]] = {}
        for place, rule in enumerate(self.blueprint.rules):
            if self._wanted[place] and (rule.preconditions or rule.needs):
                same = asked.setdefault(rule.shared_conditions or place, (rule, []))
                same[1].append((place, counts[rule.name]))
        self._asked = list(asked.values())
        """The rules that are wanted and not always possible. Those with the same conditions stand
        together: the first of them, and the places and counts of all."""
        self._likely: dict[tuple[bool, ...], Weights] = {}
        """For each set of rules that could be applied: the weights that they have then."""

    @property
    def busy(self) -> list[Call]:
        return [call for call in self._busy.values() if call.began]

    # --- from the beginning to the end -----------------------------------------------------------

    async def run(self) -> None:
        """Set up, initialize, apply rules, look at the end; and tidy up, whatever happens."""
        self._enter()
        world = self.world
        try:
            async with world.calm():
                await self._own(self.machine.setup)
                self._set_up = True
                self.checks.begin()
                await self._initialize()
            self.checks.after_step()
            await self._apply_rules()
            if self.looks_at_end:
                await self.checks.at_end()
        except GeneratorExit:
            raise  # the run was abandoned: nothing can be awaited any more
        except BaseException as error:
            self.fail(error)
            await self._leave()
            raise
        await self._leave()

    def _enter(self) -> None:
        world = self.world
        world.shared[COURSE] = self
        world.trace.in_turn = True
        world.opening = lambda: program_text(self)
        world.calls = lambda: calls_in(self)
        world.names = lambda: names_in(self)
        self._patience.begin()
        operations = operations_of(type(self.machine))
        if operations:
            OperationCounter(world, operations, lambda: self._set_up and not self._stopping)
        self.companions = [each for made in COMPANIONS if (each := made(self)) is not None]
        if self.blueprint.uses_hypothesis or self.machine.foretold_keeps_values:
            from foretold.spec import hypothesis_adapter
            from foretold.spec.machine.bundles import SHELVES, Shelves

            self._adapter = hypothesis_adapter
            world.shared[SHELVES] = self._shelves = Shelves()
            world.at_end.append(hypothesis_adapter.be_at_home(world.shared))
            world.at_end.append(lambda: hypothesis_adapter.clean_up(world.shared))

    async def _own(self, method: Callable[[], Any]) -> None:
        """`setup` and `teardown` may be plain methods as well."""
        result = method()
        if inspect.isawaitable(result):
            await result

    async def _leave(self) -> None:
        self._stopping = True
        self._patience.end()
        self.checks.end()
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=UNWIND_S)
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # it is known, or came too late to count
        try:
            async with self.world.calm():
                await self._own(self.machine.teardown)
        except Exception:
            if self.failure is None:
                raise  # else it only follows from what has failed already

    def fail(self, error: BaseException, where: str = "", seen: str = "") -> None:
        """The run has failed; the first failure counts. `seen`: the line that ends the program, if
        it was no call that failed."""
        if self.failure is None:
            self.failure, self.seen_failing = error, seen
            if where:
                error.add_note(f"foretold: {where}")

    def stop(self, error: BaseException) -> None:
        """End the run with this failure, whoever is at work."""
        self.fail(error)
        self._wake()

    # --- slots -----------------------------------------------------------------------------------

    async def _initialize(self) -> None:
        stream = self.world.tape.stream(STREAM, "initialize")
        for place, rule in enumerate(stream.shuffle(self.blueprint.initializers, "which first")):
            call = self.make_call(-1 - place, stream, rule, self.actors[0])
            if call is None:
                continue
            await self.start(call)
            await self.until_quiet()

    async def _apply_rules(self) -> None:
        if self.machine.oracle is not None:
            from foretold.spec.machine.storm import Storm, is_due

            if is_due(self):
                self.ending = await Storm(self).run()
                return
        tape = self.world.tape
        for number in range(1, self.slots + 1):
            stream = tape.stream(STREAM, number)
            if stream.chance(P_CALL, "call"):
                await self._slot(number, stream)
        await self.until_quiet()

    async def _slot(self, number: int, stream: Stream) -> None:
        actor, when = self.actors[0], AFTER_ALL
        if self._overlap:
            actor = self.actors[stream.weighted(self._acting, "actor")]
            when = stream.weighted(self._overlap, "begins")
        looks = self._looks and stream.chance(P_LOOK, "look around")
        if looks:
            when = AFTER_ALL
        if when != AFTER_ALL or self._busy or self.failure is not None:
            await self._turn(actor, when)
        if looks:
            await self.look(number)
        call = self.choose(number, stream, actor)
        if call is not None:
            call.when = when
            await self.start(call)

    async def _turn(self, actor: Actor, when: int) -> None:
        """Until the actor may begin its next call."""
        if when == AFTER_ALL:
            await self.until_quiet()
            return
        if when > AT_ONCE:
            await asyncio.sleep(PAUSES_S[when - AT_ONCE - 1])
        await self._until(lambda: actor not in self._busy)

    async def look(self, number: int) -> None:
        """Look at what must hold at quiet moments, before the call of this slot."""
        await self.checks.quiet()

    async def until_quiet(self) -> None:
        """Wait until no call is under way."""
        await self._until(lambda: not self._busy)

    async def _until(self, reached: Callable[[], bool]) -> None:
        while self.failure is None and not reached():
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self.failure is not None:
            raise self.failure

    def choose(self, number: int, stream: Stream, actor: Actor) -> Call | None:
        """Which rule, with which arguments; None if there is nothing that can be done."""
        possible = self._possible(actor)
        weights = self._likely.get(possible)
        if weights is None:
            weights = self._weigh(possible)
        if not weights:
            return None
        chosen = stream.weighted(weights, "rule")
        if not possible[chosen]:
            return None
        return self.make_call(number, stream, self.blueprint.rules[chosen], actor)

    def forget_swarm(self) -> None:
        """From here on each rule is as likely as the class says, in every run."""
        self._weights = self._given

    def _weigh(self, possible: tuple[bool, ...]) -> Weights:
        """How likely each rule is if these can be applied; empty if none is."""
        drawn = [w if can else 0.0 for w, can in zip(self._weights, possible, strict=True)]
        if self._is_eager:
            eager, rules = self.machine.foretold_eagerness, self.blueprint.rules
            drawn = [w and w * eager(rule.name) for w, rule in zip(drawn, rules, strict=True)]
        if not any(drawn):
            drawn = [w if can else 0.0 for w, can in zip(self._given, possible, strict=True)]
        weights = Weights(drawn if any(drawn) else ())
        if not self._is_eager:  # else they depend on more
            self._likely[possible] = weights
        return weights

    def _possible(self, actor: Actor) -> tuple[bool, ...]:
        """Of each rule, whether the actor can apply it now. Asked in each slot, so rules that
        depend on the same conditions are asked together."""
        possible = self._wanted.copy()
        for rule, same in self._asked:
            if not self._can(rule, actor):
                for place, count in same:
                    possible[place] = False
                    count.precondition_false += 1
        return tuple(possible)

    @contextmanager
    def near(self, references: Sequence[Kept]) -> Iterator[None]:
        """What is drawn in here is about the same things, as far as possible."""
        if self._shelves is None:
            yield
            return
        self._shelves.near = references
        try:
            yield
        finally:
            self._shelves.near = []

    def beside(self, references: Sequence[Kept]) -> list[Kept]:
        """What came together with these values."""
        return [] if self._shelves is None else self._shelves.beside(references)

    @contextmanager
    def nothing_taken(self) -> Iterator[None]:
        """What is drawn in here stays in its bundle."""
        before = None if self._shelves is None else self._shelves.copied()
        yield
        if self._shelves is not None and before is not None:
            self._shelves.put_back(before)

    def is_wanted(self, rule: Rule) -> bool:
        """Whether its weight is above 0."""
        return float(self.options.weights.get(rule.name, 1)) > 0

    def is_possible(self, rule: Rule, actor: Actor) -> bool:
        """Whether the actor can apply the rule now."""
        can = self._can(rule, actor)
        if not can:
            self.tally.rule(rule.name, "precondition_false")
        return can

    def _can(self, rule: Rule, actor: Actor) -> bool:
        needs, shelves = rule.needs, self._shelves
        if needs and shelves is not None and not all(shelves.values(each.name) for each in needs):
            return False
        return self.holds(rule, actor)

    def holds(self, asked: Rule | Invariant, actor: Actor | None = None) -> bool:
        """Whether a rule may be applied now, or an invariant be looked at."""
        machine = self.machine
        try:
            for each in asked.preconditions:  # not all(), which costs twice as much
                if not (each.holds(machine, actor) if each.wants_actor else each.holds(machine)):
                    return False
            return True
        except Exception as error:
            said = f"the precondition of {asked.name} failed"
            self.fail(error, said, said)
            raise

    def make_call(self, number: int, stream: Stream, rule: Rule, actor: Actor) -> Call | None:
        """A call of this rule, with arguments from the stream; None if there are none."""
        call = Call(number, rule, actor, {})
        self.machine.drawing_for = actor
        if rule.arguments and not self._draw_arguments(call, stream):
            self.tally.rule(rule.name, "precondition_false")
            return None
        if rule.prophecies:
            omens = self.world.tape.stream("prophecy", number)
            call.fates = {name: each.draw(omens) for name, each in rule.prophecies.items()}
            call.arguments.update(call.fates)
        self.complete(call)
        return call

    def complete(self, call: Call) -> None:
        """A call has all of its own arguments."""
        if self.world.trace.detail:
            call.shown = arguments_text(call)
        if call.rule.wants_actor:
            call.arguments["actor"] = call.actor

    def _draw_arguments(self, call: Call, stream: Stream) -> bool:
        """False if a strategy gives no value: then there is no call."""
        shelves, adapter = self._shelves, self._adapter
        assert shelves is not None, "made where rules have arguments"
        shelves.begin()
        given, shared = call.rule.arguments, self.world.shared
        try:
            call.arguments = adapter.draw_each(given, stream, shared, self.machine)
        except adapter.StepDiscarded:
            shelves.undo()
            return False
        call.references = shelves.drawn
        return True

    # --- calls -----------------------------------------------------------------------------------

    async def start(self, call: Call) -> None:
        """Begin a call, in a task of its own."""
        self.tally.rule(call.name, "tried")
        self.calls.append(call)
        self._busy[call.actor] = call
        if call.number > 0:
            self._faults.come_with(call.number)
        if len(self._busy) == 1 and not call.rule.is_async:
            outside = CALL.get()
            try:
                await self._perform(call)  # it cannot be interrupted, and nobody else is there
            finally:
                CALL.set(outside)  # an invariant that is looked at next is not part of the call
            return
        who = f"{call.who}." if len(self.actors) > 1 else ""
        work = asyncio.get_running_loop().create_task(
            self._perform(call), name=f"{who}{call.name}-{call.number}", context=call.actor._context
        )
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(work)
        call.task = work

    async def attempt(self, call: Call) -> None:
        """Make a call that does not count: nothing is looked at; what it raises is the caller's."""
        self.tally.rule(call.name, "tried")
        await self._apply(call)

    def _moment(self) -> int:
        self._moments += 1
        return self._moments

    async def _perform(self, call: Call) -> None:
        trace, clock = self.world.trace, self.world.home.kernel.clock
        who, name = call.who, call.name
        call.began, call.began_ns = self._moment(), clock.ns
        CALL.set(str(call.number))
        trace.note("rule", who, name, _noted(call.arguments))
        try:
            for companion in self.companions:
                companion.began(call)
            await self._apply(call)
            if self.checks.has_pages:
                await self.checks.pages(call)
        except BaseException as error:
            call.error = error
            if not self._stopping:
                self.fail(error, f"raised by {call_text(self, call)}")
            raise
        finally:
            call.ended, call.ended_ns = self._moment(), clock.ns
            trace.note("rule", who, name, call.outcome, encode(call.result))
            self._busy.pop(call.actor, None)
            call.task = None
            self._wake()
        try:
            self.checks.after_call(call)
        except BaseException as error:
            self.fail(error)
            raise

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _apply(self, call: Call) -> None:
        """Call the user's method, and say what came of it. Raises what fails the run."""
        try:
            result = call.rule.function(self.machine, **call.arguments)
            if result is not None and inspect.isawaitable(result):
                result = await result
        except Refused as refused:
            # Without its traceback, which would hold all variables of the rule until the run ends.
            call.outcome, call.error = "refused", refused.with_traceback(None)
            self.tally.rule(call.name, "refused", str(refused))
        except BaseException as error:
            if self.is_tolerated(error):
                call.outcome, call.error = "failed", error
                self.tally.rule(call.name, "failed", f"{type(error).__name__}: {error}")
            elif _is_discarded(error):
                call.outcome, call.error = "discarded", error
                self.tally.rule(call.name, "precondition_false")
            else:
                raise
        else:
            call.outcome, call.result = "succeeded", result
            self._hand_over(call)
            self.tally.rule(call.name, "succeeded")

    def is_tolerated(self, error: BaseException) -> bool:
        """Whether a rule may raise this; a group may if all that is in it may."""
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, self._tolerated):
            return all(map(self.is_tolerated, error.exceptions))
        return isinstance(error, self._tolerated)

    def _hand_over(self, call: Call) -> None:
        shelves, result = self._shelves, call.result
        if shelves is None or not call.rule.targets:
            return
        values = result if isinstance(result, Multiple) else (result,)
        width = len(call.rule.targets)
        for place, target in enumerate(call.rule.targets):
            put = [
                shelves.put(target.name, call.number, place + width * n, value)
                for n, value in enumerate(values)
            ]
            call.produced = [*call.produced, [kept.name for kept in put]]
            call.handed_over = [*call.handed_over, *put]


def _noted(arguments: dict[str, Any]) -> str:
    """As `encode` has a dictionary."""
    told = [f"{k!r}: {encode(v, 1)}" for k, v in arguments.items() if not isinstance(v, Actor)]
    return f"{{{', '.join(told)}}}"


def _is_discarded(error: BaseException) -> bool:
    """Hypothesis' `assume` in a rule, or a later draw that gave no value: nothing can be done with
    these arguments."""
    kind = type(error)
    if kind.__name__ == "UnsatisfiedAssumption":
        return kind.__module__.startswith("hypothesis.")
    return kind.__name__ == "StepDiscarded" and kind.__module__.startswith("foretold.")
