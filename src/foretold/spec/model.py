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
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from foretold.errors import PropertyViolated, UsageError
from foretold.spec.checkers.history import UNKNOWN, Operation, Refusal
from foretold.spec.checkers.linearizable import final_states, linearizable
from foretold.spec.checkers.steps import JUDGED, as_model, run_on, same
from foretold.spec.machine.course import COMPANIONS, Call, Companion, Course

if TYPE_CHECKING:
    from foretold.spec.machine.rules import Rule

NAME: Final = "the model"
"""Under which it stands among the invariants."""
STATE: Final = "state"
VALUE_CHARS_MAX: Final = 300
_OWN: Final = ("actor", "result")
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


class Beside(Companion):
    """The model of one run."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._model = as_model(type(course.machine).model)
        """As it was when all before was certain."""
        self._compared = _compared(self._model, course)
        self._open: dict[int, dict[str, Any]] = {}
        """The arguments of calls that are under way, by the number of their beginning."""
        self._history: list[Operation] = []
        """What has happened since."""
        self._last = 0.0
        both = (self._model, type(course.machine))
        self._sees_state = all(callable(getattr(each, STATE, None)) for each in both)
        course.tally.invariant(NAME, checked=False)

    # --- what the machine tells ------------------------------------------------------------------

    def began(self, call: Call) -> None:
        if call.name in self._compared:
            arguments = {k: _kept(v) for k, v in call.arguments.items() if k != "actor"}
            if "actor" in self._compared[call.name]:
                arguments["actor"] = call.actor.name
            self._open[call.began] = arguments

    def returned(self, call: Call) -> None:
        arguments = self._open.pop(call.began, None)
        if arguments is None:
            return
        result = _kept(call.result) if call.outcome == "succeeded" else UNKNOWN
        if call.outcome == "refused":
            result = Refusal(str(call.error))
        self._last = call.ended
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
        if self._sees_state:
            seen = self._course.machine.state()  # type: ignore[attr-defined]  # asked for before
            seen = _kept(await seen if inspect.isawaitable(seen) else seen)
            self._last += 0.25  # between the numbered moments
            began, self._last = self._last, self._last + 0.25
            self._add(Operation("the machine", STATE, {}, began, self._last, seen))
        if self._history and not self._open:
            self._explain()

    def _in_step(self, operation: Operation) -> None:
        """Nothing is in doubt: the model does the same, here and now."""
        before = _shown(vars(self._model)) if hasattr(self._model, "__dict__") else ""
        try:
            expected = run_on(self._model, operation)
        except UsageError:
            raise
        except Exception as error:
            said = f"the model says no: {_said(error)}"
            raise self._differs(operation, said, before) from error
        if expected is not JUDGED and not same(expected, operation.result):
            raise self._differs(operation, f"the model gives {_shown(expected)}", before, expected)
        self._history.clear()
        self._course.tally.invariant(NAME, over=1)

    def _explain(self) -> None:
        """Some order of what has happened since all was certain must explain the results."""
        known = sum(each.is_known for each in self._history)
        verdict = linearizable(self._history, self._model)
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
            left = final_states(self._history, self._model)
            if len(left) == 1:  # all is certain again
                self._model = copy.deepcopy(left[0])
                self._history.clear()

    # --- words -----------------------------------------------------------------------------------

    def _differs(
        self, operation: Operation, expected: str, before: str, state: Any = None
    ) -> PropertyViolated:
        if operation.name == STATE:
            lines = ["the state is not the model's", *_differences(operation.result, state)]
        else:
            gave = f"{operation.call} gave {_shown(operation.result)}"
            lines = [gave, expected]
            lines += [f"the model before it: {before}"] if before else []
        return self._violated("\n".join(lines))

    def _violated(self, text: str) -> PropertyViolated:
        error = PropertyViolated(_ADDRESS.sub("", text).replace("\n", "\n  "))
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
    if not found and not hasattr(model, STATE):
        raise UsageError(
            f"the model {type(model).__name__} has no method that is called like a rule, so that "
            f"nothing would be compared: give it {plan.rules[0].name}(…)"
        )
    return found


def _wanted(model: Any, rule: Rule) -> set[str]:
    signature = inspect.signature(getattr(model, rule.name))
    wanted = {name for name in signature.parameters if name in _OWN}
    try:
        signature.bind(**dict.fromkeys([*rule.arguments, *wanted]))
    except TypeError as error:
        names = ", ".join(["self", *rule.arguments])
        raise UsageError(
            f"{type(model).__name__}.{rule.name} does not take what the rule does ({error}): write "
            f"def {rule.name}({names}), and `result` or `actor` besides if it wants to see them"
        ) from None
    return wanted


def _kept(value: Any) -> Any:
    """As it is now, whatever the program does with it later; if it can be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a response with a socket inside, for instance: then it is what it is
        return value


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _differences(seen: Any, expected: Any) -> Iterator[str]:
    """Both sides; of two dicts, only what differs."""
    if not (isinstance(seen, dict) and isinstance(expected, dict)):
        yield f"machine: {_shown(seen)}"
        yield f"model:   {_shown(expected)}"
        return
    for key in dict.fromkeys([*seen, *expected]):
        both = [_shown(side[key]) if key in side else "nothing" for side in (seen, expected)]
        if key not in seen or key not in expected or not same(seen[key], expected[key]):
            yield f"{key!r}: machine {both[0]}, model {both[1]}"


def _companion(course: Course) -> Companion | None:
    """What the class says; an attribute `model` of the object is the user's own affair."""
    return None if type(course.machine).model is None else Beside(course)


COMPANIONS.append(_companion)
