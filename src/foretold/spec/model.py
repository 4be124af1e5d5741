"""A model beside the system: the same calls on both, each result and the state compared.

    class ShopModel:
        def __init__(self): self.stock = 10
        def buy(self, item): self.stock -= 1; return self.stock
        def state(self): return {"stock": self.stock}

    class Shop(foretold.Machine):
        model = ShopModel

A model is a plain class: short and obviously right, slow is fine. It has a method for each rule
that is to be compared, with the rule's name and arguments. It may raise `foretold.Refused` where
the system has to refuse. A method with a parameter `result` is shown what the system gave
(`UNKNOWN` if nobody knows) and judges itself, by `assert` or by returning False: so for ids that it
cannot know. `actor` is the actor's name. If machine and model both have a `state()`, these are
compared, too.

A call that nobody else's overlaps is compared at once. If calls overlap, some order of them has to
explain the results, which is looked at when all of them are over (`checkers/linearizable.py`). A
call that failed under a fault was done, or was not, or is done later: it may be placed anywhere
after its beginning, and is looked at when all is quiet.

Where the system may do several things, the model says `foretold.either(…)`. Then it is in one of
several states, and each result that is seen rules some of them out (`Spec` does the same by hand).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from foretold.arguments import signature_of
from foretold.errors import Interference, NotRefined, PropertyViolated, UsageError
from foretold.spec.checkers.history import UNHEARD, UNKNOWN, Operation, Refusal
from foretold.spec.checkers.linearizable import final_states, linearizable
from foretold.spec.checkers.steps import STATE, Several, as_model, fit, frozen, ways
from foretold.spec.machine.calls import Call
from foretold.spec.machine.course import COMPANIONS, Companion, Course
from foretold.spec.machine.printing import call_text
from foretold.spec.refine import Done, differences, not_refined, refinement_of, shown
from foretold.tape import Tape
from foretold.trace.content import without_addresses
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings

if TYPE_CHECKING:
    from foretold.spec.machine.machine import Machine
    from foretold.spec.machine.rules import Rule

NAME: Final = "the model"
"""Under which it stands among the invariants."""
STATES_MAX: Final = 1_000
"""If more states explain what was seen, nothing is compared any more, and that is told."""
STATES_SHOWN: Final = 3
_OWN: Final = ("actor", "result")


class Beside(Companion):
    """The model of one run."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._models = [as_model(type(course.machine).model)]
        """As it was when all before was certain: one for each state that explains all of it. More
        than one only if the model has said `foretold.either`."""
        self._compared = _compared(self._models[0], course)
        self._open: dict[int, dict[str, Any]] = {}
        """The arguments of calls that are under way, by the number of their beginning."""
        self._history: list[Operation] = []
        """What has happened since."""
        self._last = 0.0
        self._mapping = refinement_of(type(course.machine))
        self._prophecy: dict[str, str] = {}
        """What each prophecy has foretold last, of calls that are over."""
        self._done: list[Done] = []
        self._call = ""
        """The last call that is over, in words."""
        both = (self._models[0], type(course.machine))
        has_state = all(callable(getattr(each, STATE, None)) for each in both)
        self._sees_state = has_state or self._mapping is not None
        course.tally.invariant(NAME, checked=False)

    # --- what the machine tells ------------------------------------------------------------------

    def began(self, call: Call) -> None:
        if call.name in self._compared:
            unwanted = {"actor", *(call.fates.keys() - self._compared[call.name])}
            arguments = {k: _kept(v) for k, v in call.arguments.items() if k not in unwanted}
            if "actor" in self._compared[call.name]:
                arguments["actor"] = call.actor.name
            self._open[call.began] = arguments

    def returned(self, call: Call) -> None:
        arguments = self._open.pop(call.began, None)
        self._last = call.ended
        if self._mapping is not None:
            self._remember(call)
        if arguments is not None:
            self._judge(call, arguments)
        alone = not self._course.busy and not self._open and not self._history
        if self._mapping is not None and alone and call.outcome != "discarded":
            self._look_at(self._mapped())

    def _judge(self, call: Call, arguments: dict[str, Any]) -> None:
        """What the call gave, by the model."""
        result: Any = UNKNOWN
        if call.outcome == "refused":
            result = Refusal(str(call.error))
        elif call.outcome == "succeeded" and not call.stuttered:
            result = _kept(call.result)
        elif call.fates.keys() & arguments.keys() and not call.stuttered:
            result = UNHEARD  # the model was told how it ends, so what it does is certain
        self._add(Operation(call.actor.name, call.name, arguments, call.began, call.ended, result))

    async def quiet(self) -> None:
        await self._look()

    async def end(self) -> None:
        await self._look()

    # --- looking ---------------------------------------------------------------------------------

    def _add(self, operation: Operation) -> None:
        self._history.append(operation)
        if self._open or not all(each.is_known for each in self._history):
            return
        if len(self._history) == 1:
            self._in_step(operation)
        else:
            self._explain()

    async def _look(self) -> None:
        """Nobody is at work. The state counts as an operation like others: it is read now."""
        if self._sees_state and self._mapping is not None:
            self._look_at(self._mapped())
        elif self._sees_state:
            seen = self._course.machine.state()  # type: ignore[attr-defined]  # asked for before
            self._look_at(_kept(await seen if inspect.isawaitable(seen) else seen))
        if self._history and not self._open:
            self._explain()

    def _look_at(self, state: Any) -> None:
        self._last += 0.25  # between the numbered moments
        began, self._last = self._last, self._last + 0.25
        self._add(Operation("the machine", STATE, {}, began, self._last, state))

    def _mapped(self) -> Any:
        assert self._mapping is not None, "asked for before"
        machine = self._course.machine
        return self._mapping.state(machine, prophecy=self._prophecy, history=self._done)

    def _remember(self, call: Call) -> None:
        """For the mapping: what was foretold, and what has been done."""
        names = {p: each.name for p, each in call.rule.prophecies.items()}
        fates = {names[parameter]: fate for parameter, fate in call.fates.items()}
        self._prophecy = {**self._prophecy, **fates}
        arguments = {k: _kept(v) for k, v in call.arguments.items() if k != "actor"}
        told = (call.actor.name, call.name, arguments, self._prophecy, call.outcome)
        self._done.append(Done(*told, _kept(call.result)))
        self._call = call_text(self._course, call)

    def _in_step(self, operation: Operation) -> None:
        """Nothing is in doubt: the model does the same, here and now."""
        given = [each for model in self._models for each in ways(model, operation)]
        fitting = [after for result, after in given if fit(result, operation)]
        if not fitting:
            raise self._differs(operation, [result for result, _ in given])
        self._settle(fitting)
        self._course.tally.invariant(NAME, over=1)

    def _settle(self, models: list[Any]) -> None:
        """These explain all that was seen so far; equal ones are one."""
        self._models = list({frozen(each): each for each in models}.values())
        self._history.clear()
        if len(self._models) > STATES_MAX:
            note = f"the model: {len(self._models):,} states of the model explain what was seen"
            note += ": whether the machine keeps to it is unknown"
            self._course.world.home.kernel.notes[note] = None
            self._compared = {}
            self._sees_state = False

    def _explain(self) -> None:
        """Some order of what has happened since all was certain must explain the results."""
        known = sum(each.is_known for each in self._history)
        start = self._models[0] if len(self._models) == 1 else Several(tuple(self._models))
        verdict = linearizable(self._history, start)
        if verdict.word == "violated":
            raise self._violated(f"no order of the calls is explained by the model\n{verdict}")
        if verdict.word == "unknown":
            self._course.world.home.kernel.notes[
                f"the model: whether some order of {len(self._history)} calls explains their "
                f"results is unknown after {verdict.steps:,} steps of the model"
            ] = None
            return
        self._course.tally.invariant(NAME, over=known)
        if known == len(self._history):
            left = final_states(self._history, start)
            if len(left) == 1 or (left and len(self._models) > 1):  # all is certain again
                self._settle(copy.deepcopy(left))

    # --- words -----------------------------------------------------------------------------------

    def _differs(self, operation: Operation, given: list[Any]) -> PropertyViolated:
        """`given`: what the model has given instead, or raised."""
        if operation.name == STATE and self._mapping is not None:
            states = [each for each in given if not isinstance(each, Exception)]
            after = self._call or "the beginning"
            return self._violated(not_refined(after, operation.result, states), NotRefined)
        if operation.name == STATE:
            closest = next((each for each in given if not isinstance(each, Exception)), None)
            differ = differences(operation.result, closest, "machine")
            return self._violated("\n".join(["the state is not the model's", *differ]))
        said = list(dict.fromkeys(_expected(each) for each in given))
        before = [shown(vars(each)) for each in self._models if hasattr(each, "__dict__")]
        lines = [f"{operation.call} gave {shown(operation.result)}", " or ".join(said)]
        lines += [f"the model before it: {each}" for each in before[:STATES_SHOWN]]
        error = self._violated("\n".join(lines))
        error.__cause__ = next((each for each in given if isinstance(each, Exception)), None)
        return error

    def _violated(
        self, text: str, sort: type[PropertyViolated] = PropertyViolated
    ) -> PropertyViolated:
        error = sort(without_addresses(text).replace("\n", "\n  "))
        self._course.fail(error, "the machine and its model differ")
        return error


def _compared(model: Any, course: Course) -> dict[str, set[str]]:
    """Which rules are compared, and what their methods want besides the arguments."""
    plan = course.blueprint
    found = {
        rule.name: _wanted(model, rule)
        for rule in (*plan.initializers, *plan.rules)
        if callable(getattr(model, rule.name, None))
    }
    if not found and not hasattr(model, STATE) and refinement_of(type(course.machine)) is None:
        raise UsageError(
            f"the model {type(model).__name__} has no method with the name of a rule, so nothing "
            f"would be compared. Add {plan.rules[0].name}(…)"
        )
    return found


def _wanted(model: Any, rule: Rule) -> set[str]:
    signature = signature_of(getattr(model, rule.name))
    wanted = {name for name in signature.parameters if name in (*_OWN, *rule.prophecies)}
    try:
        signature.bind(**dict.fromkeys([*rule.arguments, *wanted]))
    except TypeError as error:
        names = ", ".join(["self", *rule.arguments])
        raise UsageError(
            f"{type(model).__name__}.{rule.name} must take the arguments of the rule ({error}): "
            f"write def {rule.name}({names}); parameters `result` and `actor` may be added"
        ) from None
    return wanted


def _kept(value: Any) -> Any:
    """As it is now, whatever the program does with it later; if it can be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a response with a socket inside, for instance: then it is what it is
        return value


def _expected(given: Any) -> str:
    if isinstance(given, Exception):
        return f"the model says no: {type(given).__name__}: {given}".removesuffix(": ")
    return f"the model gives {shown(given)}"


def _companion(course: Course) -> Companion | None:
    """What the class says; an attribute `model` of the object is the user's own affair."""
    cls = type(course.machine)
    if cls.model is None:
        if refinement_of(cls) is not None:
            raise UsageError(
                f"{cls.__name__} has a mapping to its model, and no model: write model = …"
            )
        return None
    return Watching() if _left_out else Beside(course)


class Watching(Companion):
    """Takes the place of a model that is left out: the run is the same but for that."""

    def began(self, call: Call) -> None: ...

    def returned(self, call: Call) -> None: ...

    async def quiet(self) -> None: ...

    async def end(self) -> None: ...


_left_out = False


@contextmanager
def without_models() -> Iterator[None]:
    """Runs that are made within leave the models of machines out, and their mappings."""
    global _left_out
    before, _left_out = _left_out, True
    try:
        yield
    finally:
        _left_out = before


COMPANIONS.append(_companion)


def check_interference(machine: type[Machine], *, seeds: Iterable[int] = range(3)) -> None:
    """Raise `Interference` if a machine's runs differ when its model is left out: then the model or
    the mapping does not only watch."""
    target = bind_main(machine)
    settings = Settings().with_changes(**machine.foretold_settings({}))
    for seed in seeds:
        execute(target, Tape.seeded(seed, settings.on_tape()), settings)  # a first run is cold
        told: list[list[str]] = [[], []]
        digests = []
        for side, without in zip(told, (False, True), strict=True):
            with without_models() if without else nullcontext():
                tape = Tape.seeded(seed, settings.on_tape())
                done = execute(target, tape, settings, sink=side.append)
            digests.append(done.trace.digest)
            if done.error is not None:
                break  # a run that fails ends early: that says nothing about the other one
        if len(digests) == 2 and digests[0] != digests[1]:
            raise Interference(_where_they_part(machine.__name__, seed, *told))


def _where_they_part(name: str, seed: int, with_it: list[str], without: list[str]) -> str:
    pairs = enumerate(zip_longest(with_it, without, fillvalue="nothing more"), 1)
    number, (one, other) = next((n, both) for n, both in pairs if both[0] != both[1])
    return (
        f"{name} with seed {seed}: its model does not only watch. Event {number} of the run is\n"
        f"  with the model:    {one}\n  without the model: {other}\n"
        "A model and a mapping look at what is there; they change nothing and take no time"
    )
